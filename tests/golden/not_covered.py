"""The golden cases that nothing of ours says, each with the reason."""

SIGN_IN_RATIO = "GMPO clips each token's log ratio by the sign of A before the mean: neither a ratio nor a gate alone"
LATER = "later: the divergence masks of DPPO, in the tables of the chapter that builds them"
NO_ESTIMATE = "|x| is no estimate of KL(pi || ref)"
METRICS = "numbers to watch, no part of an objective"

DPPO = {
    "verl": ("dppo_tv_c20", "dppo_kl_c20", "dppo_tv_configdefault_c3", "dppo_kl_seqsumnorm"),
    "stable_rl": (
        "dppo_binary_tv",
        "dppo_binary_tv_sumnorm",
        "dppo_binary_tv_c5",
        "dppo_binary_tv_recompute",
        "dppo_binary_kl",
        "dppo_binary_kl_sumnorm",
        "dppo_binary_kl_recompute",
        "topk_divergences",
        "dppo_topk_kl",
        "dppo_topk_tv",
    ),
    "trl_dppo": ("binary_tv", "binary_kl", "topk_tv", "topk_kl"),
}
NOT_COVERED: dict[str, str] = {
    **{f"{peer}/{name}": LATER for peer, names in DPPO.items() for name in names},
    "verl/geo_mean": SIGN_IN_RATIO,
    "verl/kl_abs": NO_ESTIMATE,
    "verl/offpolicy_metrics": METRICS,
}
