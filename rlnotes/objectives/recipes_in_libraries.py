"""What libraries do differently from our recipes: what their functions returned on shared inputs (tests/golden), or,
for settings and their defaults, what their code says.

Their versions are in ``VERSIONS``; Stable-RL is the code of 004. True of all recipes: TRL, verl, slime and OpenRLHF
divide by the *sample* standard deviation plus 1e-4, 1e-6, 1e-6 and 1e-9, ``group_mean_std`` by the population's; their
ratio is to pi_k, recomputed, unless they are told otherwise, where ours and Stable-RL's is to mu; verl and OpenRLHF
keep log ratios within 20, TRL and slime do not; with vLLM TRL multiplies by the response's pi_k / mu, 0 above 3, unless
told otherwise.
"""

VERSIONS = {
    "TRL": "f2cd577, 1.10.0.dev0, summer 2026; its DPPO from 23eedc6, before that trainer was taken out",
    "verl": "1dda039, summer 2026",
    "OpenRLHF": "3c3be62, summer 2026",
    "slime": "624b824, summer 2026",
    "Stable-RL": "c6af1d1, March 2026",
}
"""The commit of each library behind ``DIFFERENCES``."""

_NO_DUAL = "as ours without a dual clip; dual_clip makes it one"
_MINIRL = "as its decoupled PPO: a clip around pi_k times a weight pi_k / mu, not a mask beside pi / mu"
_OPEN = "not compared"
_NOWHERE = "no clip around pi_k / mu"
_BYPASS = "bypass mode with loss_type=reinforce and "
_BESIDE = ", of pi_k / mu, beside a clip around pi_k"
_NONE = "none in what was read"
_NO_TRM = "none: its masks of responses are by the product or the mean of ratios"
_VERL_TRM = _BYPASS + "a large threshold, and rollout_rs="
_VERL_KEPT = "; its function divides by what is kept, its engine by N"
_VERL_DPPO = ": old_log_prob plays mu, and is recomputed in its own script; delta 0.2 and C = 3 unless set; token mean"
_TOPK = ": the sampled token takes the place of the K-th, K = 20; "

DIFFERENCES: dict[str, dict[str, str]] = {
    "vanilla_pg": {
        "TRL": _OPEN,
        "verl": "bypass mode with loss_type=reinforce, weighted by pi / mu: at ratio 1 the same gradient",
        "OpenRLHF": _OPEN,
        "slime": _OPEN,
        "Stable-RL": "pg_no_mask, weighted by min(pi / mu, c): at ratio 1 the same gradient",
    },
    "rloo": {
        "TRL": _OPEN,
        "verl": "the same advantage, under its clip; a group of one gets its reward, or 0 from rloo_vectorized",
        "OpenRLHF": "the same advantage, under its clip",
        "slime": _OPEN,
        "Stable-RL": _OPEN,
    },
    "ppo_clip": {
        "TRL": "loss_type=bnpo, a mean over the tokens of the micro-batch",
        "verl": "the default; the dual clip at 3 is always on",
        "OpenRLHF": "the default; " + _NO_DUAL,
        "slime": "calculate_per_token_loss, a sum that is divided later; eps_clip_c is the dual clip, off",
        "Stable-RL": "loss_mode=ppo: the clip as a mask beside min(pi / mu, 3), both to mu",
    },
    "grpo": {
        "TRL": "loss_type=grpo; the default is dapo; with vLLM times the response's pi_k / mu, 0 above 3, by default",
        "verl": "loss_agg_mode=seq-mean-token-mean; the default is token-mean; dual clip at 3",
        "OpenRLHF": "the mean over samples is an option; " + _NO_DUAL,
        "slime": "the default, as a sum over responses that is divided later",
        "Stable-RL": "loss_mode=ppo, a mask as for ppo_clip; its mean over responses was not compared",
    },
    "dr_grpo": {
        "TRL": "loss_type=dr_grpo and scale_rewards=none: the same",
        "verl": "seq-mean-token-sum-norm: the same, if loss_scale_factor is T_max and not left to the padded width",
        "OpenRLHF": "dr_grpo is the advantage alone; the aggregation is its token mean",
        "slime": "without std; the constant is applied outside of the loss",
        "Stable-RL": "the same name sums over all responses: larger by their number",
    },
    "dapo": {
        "TRL": "loss_type=dapo, the default, over the tokens of the whole step; eps_high is 0.2; no dynamic sampling",
        "verl": "the dual clip is on; its filter is np.std > 0; its penalty has no floor",
        "OpenRLHF": "its filter is 0 < mean score < 1, which is the same for rewards of 0 and 1 only",
        "slime": "its filter is a sample standard deviation above 1e-6",
        "Stable-RL": _OPEN,
    },
    "gspo": {
        "TRL": "importance_sampling_level=sequence; needs loss_type=grpo, else long responses weigh more; eps is 0.2",
        "verl": "ignores the aggregation asked for; no dual clip; eps is 0.2 unless set, which hardly ever closes",
        "OpenRLHF": "the same; with a correction the ratio is to mu; eps is 0.2 unless set",
        "slime": "the same; eps is 0.2 unless set",
        "Stable-RL": _OPEN,
    },
    "sapo": {
        "TRL": "the same, with temperatures rounded to float32",
        "verl": "the same; ignores the aggregation asked for",
        "OpenRLHF": _OPEN,
        "slime": _OPEN,
        "Stable-RL": _OPEN,
    },
    "sapo_one_sided": dict.fromkeys(("TRL", "verl", "OpenRLHF", "slime", "Stable-RL"), _NONE),
    "pg_is": {
        "TRL": "cispo with a large epsilon_high; token mean",
        "verl": "bypass mode with loss_type=reinforce and a large threshold: the same gradient",
        "OpenRLHF": _OPEN,
        "slime": "cispo with a large eps_clip_high; mean over each response",
        "Stable-RL": "pg_no_mask with a large clip_ratio_c",
    },
    "cispo": {
        "TRL": "the cap is epsilon_high itself: at 0.28 every token on policy gets weight 0.28; token mean",
        "verl": "the cap is 1 + clip_ratio_high, and there is a floor of 1 - clip_ratio_low: 0.8 to 1.2; token mean",
        "OpenRLHF": _OPEN,
        "slime": "the cap is 1 + eps_clip_high, the floor 1 - eps_clip: 0 to 5; mean over each response",
        "Stable-RL": "pg_no_mask: the same cap of 3, to mu too; token mean",
    },
    "minirl": {
        "TRL": _MINIRL,
        "verl": _MINIRL,
        "OpenRLHF": _MINIRL,
        "slime": _MINIRL,
        "Stable-RL": "ppo_recompute with a large clip_ratio_c; token mean",
    },
    "minirl_tis": {
        "TRL": _MINIRL,
        "verl": _MINIRL,
        "OpenRLHF": _MINIRL,
        "slime": _MINIRL,
        "Stable-RL": "ppo_recompute: the same; token mean",
    },
    "decoupled_ppo": {
        "TRL": "with vLLM the weight is the sequence's, at most 3, and 0 beyond; on by default",
        "verl": "rollout_is=token or sequence, at most 2; off by default; dual clip at 3",
        "OpenRLHF": "the weight is clamped to 0.5 to 5, or 0 outside (icepop); off by default",
        "slime": "the weight is at most 2; off by default",
        "Stable-RL": "ppo_recompute, which caps pi / mu and not pi_k / mu",
    },
    "stale_ppo": {
        "TRL": _OPEN,
        "verl": "bypass mode with loss_type=ppo_clip; dual clip at 3; token mean",
        "OpenRLHF": _OPEN,
        "slime": "use_rollout_logprobs; mean over each response",
        "Stable-RL": "loss_mode=ppo: the clip as a mask beside min(pi / mu, 3); token mean",
    },
    "method_1": dict.fromkeys(("TRL", "verl", "OpenRLHF", "slime", "Stable-RL"), _NOWHERE),
    "method_2": {
        "TRL": "as for decoupled_ppo: the weight is bounded or dropped",
        "verl": "as for decoupled_ppo with a large threshold, but log ratios are kept within 20",
        "OpenRLHF": "seq-mask-tis leaves the weight free, beside a band of 0.5 to 5 on the geometric mean",
        "slime": "as for decoupled_ppo: the weight is at most 2",
        "Stable-RL": "ppo_recompute with a large clip_ratio_c has its gradient: a mask beside pi / mu",
    },
    "token_tis": {
        "TRL": "token_truncate" + _BESIDE + "; not the default",
        "verl": _BYPASS + "rollout_is=token: the same gradient, cap 2; the aggregation is token mean unless set",
        "OpenRLHF": "tis, kept in 0.5 to 5" + _BESIDE,
        "slime": "kept in 0 to 2" + _BESIDE,
        "Stable-RL": "pg_no_mask: the cap is 3; token mean",
    },
    "sequence_is": {
        "TRL": "sequence_truncate with a large cap" + _BESIDE,
        "verl": _BYPASS + "rollout_is=sequence and a large threshold; the log ratio of a response is kept within 20",
        "OpenRLHF": "none: its weights are those of tokens",
        "slime": "mis.py at level sequence with a large bound" + _BESIDE,
        "Stable-RL": _OPEN,
    },
    "seq_tis": {
        "TRL": "sequence_truncate, cap 3" + _BESIDE,
        "verl": _BYPASS + "rollout_is=sequence: the same gradient with seq-mean-token-sum; cap 2",
        "OpenRLHF": "none: its weights are those of tokens",
        "slime": "mis.py at level sequence" + _BESIDE,
        "Stable-RL": _OPEN,
    },
    "token_mis": {
        "TRL": "token_mask" + _BESIDE + "; no lower end unless set",
        "verl": 'rollout_is=token with a band "0.5_2.0"' + _BESIDE + "; rollout_rs=token_k1 rejects by mu / pi_k",
        "OpenRLHF": "icepop, 0.5 to 5" + _BESIDE,
        "slime": "icepop, or mis.py in mode mask" + _BESIDE,
        "Stable-RL": _OPEN,
    },
    "seq_mis": {
        "TRL": "sequence_mask" + _BESIDE + "; the default with vLLM: at most 3, no lower end",
        "verl": "rollout_is=sequence with a band" + _BESIDE + "; rollout_rs=seq_sum_k1 rejects by mu / pi_k",
        "OpenRLHF": "none: its one mask of responses is by the geometric mean",
        "slime": "mis.py at level sequence in mode mask" + _BESIDE,
        "Stable-RL": _OPEN,
    },
    "geo_mis": {
        "TRL": "none",
        "verl": "rollout_rs=seq_mean_k1, by mu / pi in bypass mode; a band like 0.999_1.001",
        "OpenRLHF": "seq-mask-tis, 0.5 to 5" + _BESIDE,
        "slime": "mis.py at level geometric in mode mask: the geometric mean is the weight too",
        "Stable-RL": _OPEN,
    },
    "trm_max": {
        "TRL": _NO_TRM,
        "verl": _VERL_TRM + "seq_max_k2 at delta^2 / 2" + _VERL_KEPT,
        "OpenRLHF": _NO_TRM,
        "slime": "none; its veto has the lower end alone, of pi_k / mu",
        "Stable-RL": _OPEN,
    },
    "trm_avg": {
        "TRL": _NO_TRM,
        "verl": _VERL_TRM + "seq_mean_k3: the same" + _VERL_KEPT,
        "OpenRLHF": _NO_TRM,
        "slime": _NO_TRM,
        "Stable-RL": _OPEN,
    },
    "trm": {
        "TRL": _NO_TRM,
        "verl": _VERL_TRM + "seq_max_k2,seq_mean_k3, both limits" + _VERL_KEPT,
        "OpenRLHF": _NO_TRM,
        "slime": _NO_TRM,
        "Stable-RL": _OPEN,
    },
    "trm_one_sided": dict.fromkeys(("TRL", "verl", "OpenRLHF", "slime", "Stable-RL"), _NONE),
    "dppo_tv": {
        "TRL": "binary_tv in a trainer since taken out: delta 0.15, C = 20; token mean",
        "verl": "dppo_tv" + _VERL_DPPO,
        "OpenRLHF": _NONE,
        "slime": _NONE,
        "Stable-RL": "dppo_binary_tv: delta 0.2 and C = 3 unless set; token mean",
    },
    "dppo_kl": {
        "TRL": "binary_kl in a trainer since taken out: delta 0.15, C = 20; token mean; p at most 1 - 1e-7",
        "verl": "dppo_kl" + _VERL_DPPO + "; 1e-8 added to 1 - p",
        "OpenRLHF": _NONE,
        "slime": _NONE,
        "Stable-RL": "dppo_binary_kl: delta 0.2 and C = 3 unless set; token mean; 1e-8 added to 1 - p",
    },
    "dppo_topk_tv": {
        "TRL": "topk_tv in a trainer since taken out" + _TOPK + "delta 0.15, C = 20; token mean",
        "verl": _NONE,
        "OpenRLHF": _NONE,
        "slime": _NONE,
        "Stable-RL": "dppo_topk_tv" + _TOPK + "delta 0.2 and C = 3 unless set; token mean",
    },
    "dppo_topk_kl": {
        "TRL": "topk_kl in a trainer since taken out" + _TOPK + "delta 0.15, C = 20; token mean",
        "verl": _NONE,
        "OpenRLHF": _NONE,
        "slime": _NONE,
        "Stable-RL": "dppo_topk_kl" + _TOPK + "delta 0.2 and C = 3 unless set; token mean",
    },
    "dppo_symmetric": {
        "TRL": "token_mask, by the ratio pi_k / mu; no lower end unless set",
        "verl": "rollout_rs=token_k1, token_k2 or token_k3: symmetric in the same way, by estimates of KL",
        "OpenRLHF": "icepop, by the ratio pi_k / mu",
        "slime": "icepop, by the ratio pi_k / mu",
        "Stable-RL": _NONE,
    },
    "negative_mask": dict.fromkeys(("TRL", "verl", "OpenRLHF", "slime", "Stable-RL"), _NONE),
    "relax_both": dict.fromkeys(("TRL", "verl", "OpenRLHF", "slime", "Stable-RL"), _NONE),
}
"""For each name in ``RECIPES``, by library: what differs, or how to get the same."""
