"""The comparisons whose tables come with the package, by name."""

from dataclasses import replace

from rlnotes.lm.compare import Comparison, Method
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import DAPO, DR_GRPO, GRPO, GSPO, SAPO
from rlnotes.objectives.aggregations import constant, token_mean
from rlnotes.objectives.gates import Clip, Correction, Soft, no_gate
from rlnotes.objectives.shaping import OverlongPenalty

COMPARISONS: dict[str, Comparison] = {}

# Chapter 10: sixteen updates on each rollout. Three learning rates and two temperatures, none chosen afterwards.
_SOFT = {
    "grpo": GRPO,
    "no gate": replace(GRPO, gate=no_gate),
    "sapo": SAPO,
    "sapo-10": replace(SAPO, gate=Soft(10.0, 10.5)),
}
COMPARISONS["10_sapo"] = Comparison(
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
COMPARISONS["09_gspo"] = Comparison(
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
    "corrected": dict(anchor="proximal", correction=Correction(2.0)),
}
_GATED = {"grpo": GRPO, "gspo": replace(GSPO, gate=Clip(0.03, 0.03))}
COMPARISONS["09_noise"] = Comparison(
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
COMPARISONS["08_ramble"] = Comparison(
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
COMPARISONS["08_clip"] = Comparison(
    question="Does a wider upper clip keep the entropy up, and does dynamic sampling pay for its samples?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("1e-4", "3e-4")
        for name, choices in _UPPER.items()
    },
    tokens=184_000,
)
