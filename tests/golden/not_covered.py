"""The golden cases that nothing of ours says, each with the reason."""

SIGN_IN_RATIO = "GMPO clips each token's log ratio by the sign of A before the mean: neither a ratio nor a gate alone"
NO_ESTIMATE = "|x| is no estimate of KL(pi || ref)"
METRICS = "numbers to watch, no part of an objective"

NOT_COVERED: dict[str, str] = {
    "verl/geo_mean": SIGN_IN_RATIO,
    "verl/kl_abs": NO_ESTIMATE,
    "verl/offpolicy_metrics": METRICS,
}
