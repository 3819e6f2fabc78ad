"""The studies whose tables chapter 08 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    DAPO,
    DR_GRPO,
    GRPO,
)
from rlnotes.objectives.aggregations import constant, token_mean
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.shaping import OverlongPenalty
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 08: a task whose reward says nothing about length. One denominator after the other, then whole recipes.
STUDIES["08_ramble"] = Study(
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
STUDIES["08_clip"] = Study(
    question="Does a wider upper clip keep the entropy up, and does dynamic sampling pay for its samples?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("1e-4", "3e-4")
        for name, choices in _UPPER.items()
    },
    tokens=184_000,
)
