"""The comparisons whose tables come with the package, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    DAPO,
    DPPO_KL,
    DPPO_SYMMETRIC,
    DPPO_TV,
    DR_GRPO,
    GRPO,
    GSPO,
    METHOD_1,
    METHOD_2,
    PG_IS,
    RELAX_BOTH,
    SAPO,
    SEQ_TIS,
    SEQUENCE_IS,
    STALE_PPO,
    TRM,
    TRM_AVG,
    TRM_MAX,
    TRM_ONE_SIDED,
)
from rlnotes.objectives.aggregations import constant, token_mean
from rlnotes.objectives.gates import Clip, Correction, Soft, no_gate
from rlnotes.objectives.masks import ClipMask
from rlnotes.objectives.shaping import OverlongPenalty
from rlnotes.studies.arena_parts import FRESH, NORM, PARTS, WIDER
from rlnotes.studies.methods import METHODS
from rlnotes.studies.stability import PROTOCOL, laboratory
from rlnotes.studies.study import Method, Study

COMPARISONS: dict[str, Study] = {}

# Chapter 11: importance sampling by token, by response, and by response with a cap, behind samplers of few bits. Two
# learning rates, none chosen afterwards; at the larger one also a sampler without mismatch. Then the same with one
# update per rollout.
_CORRECTED = {"pg_is": PG_IS, "sequence_is": SEQUENCE_IS, "seq_tis": SEQ_TIS}
_SAMPLERS = {"1e-4": ("int8", "int4"), "3e-4": ("float32", "int8", "int4")}
COMPARISONS["11_int8"] = Study(
    question="Behind a quantised sampler and with 16 updates per rollout: ratios of tokens, of responses, or a cap?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4, measure_shift=True),
    methods={
        f"{name} {sampler} {rate}": Method(choices, dict(learning_rate=float(rate), rollout_weights=sampler))
        for rate, samplers in _SAMPLERS.items()
        for sampler in samplers
        for name, choices in _CORRECTED.items()
    },
    tokens=82_500,
    evaluate_every=3,
)
COMPARISONS["11_once"] = Study(
    question="With one update per rollout, so that the quantised sampler is the only mismatch: does a correction pay?",
    base=TrainConfig(task="sort", size=8, learning_rate=5e-4, measure_shift=True),
    methods={
        f"{name} {sampler}": Method(choices, dict(rollout_weights=sampler))
        for sampler, named in {
            "float32": ("none",),
            "int8": ("none", "pg_is"),
            "int4": ("none", "pg_is", "sequence_is", "seq_tis"),
        }.items()
        for name, choices in ({"none": replace(PG_IS, anchor="current")} | _CORRECTED).items()
        if name in named
    },
    tokens=184_000,
)

# Chapter 10: sixteen updates on each rollout. Three learning rates and two temperatures, none chosen afterwards.
_SOFT = {
    "grpo": GRPO,
    "no gate": replace(GRPO, gate=no_gate),
    "sapo": SAPO,
    "sapo-10": replace(SAPO, gate=Soft(10.0, 10.5)),
}
COMPARISONS["10_sapo"] = Study(
    question="Does a soft gate learn faster than the clip, or survive more, when a rollout serves 16 updates?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("3e-5", "1e-4", "3e-4")
        for name, choices in _SOFT.items()
    },
    tokens=138_000,
)

# Chapter 09: the clip of single tokens against that of whole responses, each with several ranges; then with a sampler
# that differs from pi, where the ratio is to mu, or to pi_k with and without a weight that corrects for mu.
_SIXTEEN_UPDATES = TrainConfig(task="sort", size=8, epochs=4, minibatches=4, learning_rate=3e-4)
_RANGES = {"grpo": ("0.05", "0.1", "0.2"), "gspo": ("4e-4", "0.01", "0.03", "0.1", "0.2")}
COMPARISONS["09_gspo"] = Study(
    question="Which clip serves 16 updates per rollout better: of tokens or of responses, and with which range?",
    base=_SIXTEEN_UPDATES,
    methods={
        f"{name} {epsilon}": Method(replace(choices, gate=Clip(float(epsilon), float(epsilon))))
        for name, choices in {"grpo": GRPO, "gspo": GSPO}.items()
        for epsilon in _RANGES[name]
    },
    tokens=184_000,
)
_ANCHORS = {
    "to mu": dict(anchor="behavior"),
    "to pi_k": dict(anchor="proximal"),
    "corrected": dict(anchor="proximal", correction=Correction(high=2.0)),
}
_GATED = {"grpo": GRPO, "gspo": replace(GSPO, gate=Clip(0.03, 0.03))}
COMPARISONS["09_noise"] = Study(
    question="Does a ratio of responses bear a noisy sampler better than ratios of tokens?",
    base=_SIXTEEN_UPDATES,
    methods={
        f"{name} {anchor}": Method(replace(choices, **changes), dict(logit_noise=0.3))
        for anchor, changes in _ANCHORS.items()
        for name, choices in _GATED.items()
    }
    | {f"{name} bfloat16": Method(choices, dict(rollout_weights="bfloat16")) for name, choices in _GATED.items()},
    tokens=184_000,
)

# Chapter 08: a task whose reward says nothing about length. One denominator after the other, then whole recipes.
COMPARISONS["08_ramble"] = Study(
    question="Which denominator makes wrong responses grow?",
    base=TrainConfig(task="ramble", learning_rate=3e-4),
    methods={
        "grpo": Method(GRPO),
        "grpo, constant": Method(replace(GRPO, aggregation=constant)),
        "grpo, token mean": Method(replace(GRPO, aggregation=token_mean)),
        "dr_grpo": Method(DR_GRPO),
        "dapo": Method(DAPO),
        "dapo, overlong": Method(replace(DAPO, overlong=OverlongPenalty(16, 8))),
    },
    tokens=200_000,
)
# Sixteen updates on each rollout, so that the clip closes. The right answers all have one length here.
_UPPER = {
    "grpo": GRPO,
    "high 0.28": replace(GRPO, gate=Clip(0.2, 0.28)),
    "high 1.0": replace(GRPO, gate=Clip(0.2, 1.0)),
    "dr_grpo": DR_GRPO,
    "dapo": DAPO,
}
COMPARISONS["08_clip"] = Study(
    question="Does a wider upper clip keep the entropy up, and does dynamic sampling pay for its samples?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("1e-4", "3e-4")
        for name, choices in _UPPER.items()
    },
    tokens=184_000,
)

# Chapter 12: half of the tokens by old weights, either whole responses or, where the version is drawn anew with chance
# 1/4 before each token, a part of nearly every response.
_LAGS = {
    f"{level} {lag}": dict(lags=(0, lag), switch=switch)
    for lag in (64, 256)
    for level, switch in {"kept": 0.0, "switching": 0.25}.items()
}
COMPARISONS["12_levels"] = Study(
    question="With equal shares of old tokens, does it matter whether a response has one version or several?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4, learning_rate=1e-4, measure_shift=True),
    methods={
        "fresh": Method(GRPO),
        **{name: Method(GRPO, changes) for name, changes in _LAGS.items()},
        "old 64": Method(GRPO, dict(lags=(64,))),
        "old 256": Method(GRPO, dict(lags=(256,))),
    },
    tokens=184_000,
)

# Chapter 13: three clips, and none, on data that are 0 to 64 updates old, four updates on each rollout. Two learning
# rates, none chosen afterwards.
_CLIPS = {"stale_ppo": STALE_PPO, "method_1": METHOD_1, "method_2": METHOD_2, "unclipped": PG_IS}
for _name, _rate in {"13_stale": 1e-4, "13_stale_fast": 3e-4}.items():
    COMPARISONS[_name] = Study(
        question="Which clip serves old data best: around mu, around rho_k, or of pi / pi_k?",
        base=TrainConfig(task="sort", size=8, minibatches=4, learning_rate=_rate, measure_shift=True),
        methods={
            f"{name}, lag {lag}": Method(choices, dict(lags=(lag,) if lag else ()))
            for lag in (0, 4, 16, 64)
            for name, choices in _CLIPS.items()
        },
        tokens=276_000,
        record_every=5,
    )

# Chapter 14: masks of responses, on a mixture of experts whose sampler has float8 or bfloat16 weights, so that routes
# flip. Sixteen updates on each rollout, two learning rates, none chosen afterwards; and the same without mismatch.
_MASKS = {
    "grpo": GRPO,
    "unmasked": PG_IS,
    "clip": replace(PG_IS, keep=ClipMask(0.2, 0.2)),
    "trm": TRM,
    "trm_one_sided": TRM_ONE_SIDED,
    "trm_max": TRM_MAX,
    "trm_avg": TRM_AVG,
}
_COPIES = {
    "float8": tuple(_MASKS),
    "bfloat16": ("grpo", "trm"),
    "float32": ("grpo", "unmasked", "clip", "trm", "trm_one_sided"),
}
COMPARISONS["14_trm"] = Study(
    question="Does a mask of whole responses help where routes flip, and at which learning rate?",
    base=TrainConfig(task="sort", size=8, preset="moe-top1", epochs=4, minibatches=4),
    methods={
        f"{name}, {copy} {rate}": Method(_MASKS[name], dict(learning_rate=float(rate), rollout_weights=copy))
        for rate in ("1e-4", "3e-4")
        for copy, named in _COPIES.items()
        for name in named
    },
    tokens=184_000,
    record_every=5,
)

# Chapter 15: a clip and a divergence, each as a mask of PG_IS, so that methods differ in nothing else. On rare tokens
# with 16 updates per rollout, and with one; then on a task without rare tokens that large steps spoil. Two learning
# rates, none chosen afterwards.
_REGIONS = {
    "clip_higher": METHODS["clip_higher"],
    "wide_clip": METHODS["wide_clip"],
    "dppo_tv": DPPO_TV,
    "unmasked": PG_IS,
}
_ONCE = dict(epochs=1, minibatches=1, learning_rate=3e-3)
COMPARISONS["15_needle"] = Study(
    question="Right tokens are rare at first: a clip of the ratio, a limit on the divergence, or neither?",
    base=TrainConfig(task="needle", size=4, prompts=16, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("3e-4", "1e-3")
        for name, choices in (_REGIONS | {"relax_both": RELAX_BOTH, "dppo_kl": DPPO_KL}).items()
    }
    | {f"{name} once": Method(_REGIONS[name], _ONCE) for name in ("clip_higher", "dppo_tv")},
    tokens=25_000,
    evaluate_every=1,
)
COMPARISONS["15_sort"] = Study(
    question="The same masks where no right token is rare and large steps do harm: which of them holds?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4, rollout_weights="bfloat16"),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("1e-4", "3e-4")
        for name, choices in (_REGIONS | {"dppo_symmetric": DPPO_SYMMETRIC, "relax_both": RELAX_BOTH}).items()
    },
    tokens=184_000,
    record_every=5,
)

# Chapter 16: the stability laboratory. Old weights, a sampler of four bits, and no mismatch; then a mixture of experts
# with and without replay of its routes, and adapters; then rare tokens, with counts of what is clipped.
_UNSTABLE = ("pg_is", "cispo", "clip_higher", "minirl", "minirl_tis", "dppo_kl", "dppo_tv", "dppo_kl at pi_k")
_MINIMAL = ("negative_mask", "negative_mask 0.8", "negative_mask at pi_k", "positive_mask")
_SCALED = ("clip_higher C5", "cispo C5", "dppo_kl C5", "dppo_tv C5")
_RELAXED = ("clip_higher", "relax_high", "relax_low", "relax_both", "pg_is")
_DIVERGENCES = ("dppo_tv", "dppo_topk_tv", "dppo_kl", "dppo_topk_kl")
COMPARISONS["16_stale"] = laboratory(
    (*_UNSTABLE, *_MINIMAL), ("stale",), question="Behind weights that are 64 updates old: which objectives hold?"
)
COMPARISONS["16_int4"] = laboratory(
    (*_UNSTABLE, *_MINIMAL), ("int4",), question="Behind a copy of four bits: which objectives hold?"
)
COMPARISONS["16_none"] = laboratory(
    (*_UNSTABLE[:4], *_UNSTABLE[5:7], *_MINIMAL[:2]), ("none",), question="And if mu is pi, up to the updates?"
)
COMPARISONS["16_experts"] = laboratory(
    _SCALED,
    ("experts", "experts, routes replayed"),
    (1e-4, 3e-4),
    question="Does DPPO do without replayed routes what the others do with them?",
)
COMPARISONS["16_adapters"] = laboratory(
    _SCALED, ("adapters",), (3e-4, 1e-3, 3e-3), question="The same with low-rank adapters and larger learning rates?"
)
COMPARISONS["16_needle"] = laboratory(
    (*_RELAXED, *_DIVERGENCES),
    ("none",),
    (3e-4, 1e-3, 3e-3),
    question="Rare right tokens: which end of the clip is to be let go, and what is clipped?",
    base=replace(PROTOCOL, task="needle", size=4, prompts=16, count_clipped=True),
    tokens=15_360,
    evaluate_every=2,
    record_every=2,
)
COMPARISONS["16_renamed"] = laboratory(
    (*_RELAXED, *_DIVERGENCES),
    ("none",),
    (1e-4, 3e-4, 1e-3),
    question="Rare and likely tokens in one answer: the same, until the end of a longer run?",
    base=replace(PROTOCOL, task="renamed", size=6, count_clipped=True),
    tokens=108_000,
    evaluate_every=5,
    record_every=5,
)
# The same on a model forty times as large, each seed with a warm start of its own, on one GPU.
COMPARISONS["16_gpu"] = laboratory(
    ("pg_is", "clip_higher", "minirl", "dppo_tv"),
    ("stale",),
    (3e-5, 1e-4, 3e-4),
    question="Behind old weights, and on a larger model: which objectives hold?",
    base=replace(PROTOCOL, preset="medium", device="cuda"),
)

# Chapter 17: what the arena's first place is made of, whether its grid of learning rates is too narrow, and one part of
# it on tasks that it was not made for; and what the clip of the gradient's norm decides.
COMPARISONS["17_parts"] = PARTS
COMPARISONS["17_wider"] = WIDER
COMPARISONS["17_fresh"] = FRESH
COMPARISONS["17_norm"] = NORM
