"""The studies whose tables chapter 09 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
    GSPO,
)
from rlnotes.objectives.gates import Clip, Correction
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 09: the clip of single tokens against that of whole responses, each with several ranges; then with a sampler
# that differs from pi, where the ratio is to mu, or to pi_k with and without a weight that corrects for mu.
_SIXTEEN_UPDATES = TrainConfig(task="sort", size=8, epochs=4, minibatches=4, learning_rate=3e-4)
_RANGES = {"grpo": ("0.05", "0.1", "0.2"), "gspo": ("4e-4", "0.01", "0.03", "0.1", "0.2")}
STUDIES["09_gspo"] = Study(
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
STUDIES["09_noise"] = Study(
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
