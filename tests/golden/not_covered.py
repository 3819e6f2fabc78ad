"""The golden cases that nothing of ours says, each with the reason."""

SIGN_IN_RATIO = "GMPO clips each token's log ratio by the sign of A before the mean: neither a ratio nor a gate alone"
LATER = "later: the divergence masks of DPPO, in the tables of the chapter that builds them"
LATER_REJECTION = "later: rejection of responses or tokens by a divergence (trust region masking)"
BATCH_NORMALISED = "divides weights by their mean over the batch: a sum of the losses of its parts is another number"
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
REJECTION = (
    "token_k1_0.5_2.0",
    "token_k1_0.5_5.0",
    "token_k2_0.05",
    "token_k3_0.05",
    "seq_sum_k1_0.5_2.0",
    "seq_sum_k3_0.5",
    "seq_mean_k1_0.9_1.25",
    "seq_mean_k1_0.999_1.001",
    "seq_mean_k2_0.02",
    "seq_mean_k3_0.02",
    "seq_max_k2_0.125",
    "seq_max_k3_0.3",
    "seq_max_k2+seq_mean_k3_0.125+0.02",
)

NOT_COVERED: dict[str, str] = {
    **{f"{peer}/{name}": LATER for peer, names in DPPO.items() for name in names},
    **{f"verl/trm_{mask}_divide{by}": LATER_REJECTION for mask in ("max", "avg", "both") for by in ("N", "Accepted")},
    **{f"verl/reject_{name}": LATER_REJECTION for name in REJECTION},
    "slime/mis_mask_token_veto": LATER_REJECTION,
    "verl/geo_mean": SIGN_IN_RATIO,
    "verl/weights_token_tis_norm": BATCH_NORMALISED,
    "verl/weights_seq_tis_norm": BATCH_NORMALISED,
    "slime/mis_truncate_token_norm": BATCH_NORMALISED,
    "verl/kl_abs": NO_ESTIMATE,
    "verl/offpolicy_metrics": METRICS,
}
