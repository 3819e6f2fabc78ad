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
from rlnotes.studies.contest import COLUMNS, TASKS, contest
from rlnotes.studies.study import Method, Setting, Study

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

# Contests. Denominators where lengths vary fourfold and every token counts, and where all are one; then where the
# reward says nothing of length, on the one start that there is.
_CONSTANT = {"grpo constant": replace(GRPO, aggregation=constant)}
_DENOMINATORS = (*_CONSTANT, "ppo_clip", "dr_grpo")  # ppo_clip is grpo but for the mean over tokens
STUDIES["08_denominators"] = contest(
    "Which denominator learns most from equally many tokens, where lengths vary and where they do not?",
    _DENOMINATORS,
    {"ledger": TASKS["ledger"], "misled": TASKS["misled"]},
    own=_CONSTANT,
)
STUDIES["08_length"] = contest(
    "Which denominator makes wrong responses grow, each at its own best learning rate?",
    _DENOMINATORS,
    {"ramble": Setting(dict(task="ramble", size=2), 150_000)},
    own=_CONSTANT,
    starts=1,
    columns=(*COLUMNS, "length_wrong"),
)
_UPPER_ENDS = {f"grpo high {high}": replace(GRPO, gate=Clip(0.2, high)) for high in (0.28, 1.0, 4.0)}
STUDIES["08_wider_clip"] = contest(
    "How wide must the upper end of the clip be where the likeliest answer has to change?",
    (*_UPPER_ENDS,),
    {"misled": TASKS["misled"], "needle": TASKS["needle"]},
    own=_UPPER_ENDS,
)
# No batch takes it: a step samples until all groups teach.
STUDIES["08_dynamic"] = contest(
    "Does dynamic sampling pay for the samples that it throws away?",
    ("dapo", "grpo"),
    {"misled": TASKS["misled"], "needle": TASKS["needle"]},
    clipped="dapo all groups",
    own={"dapo all groups": replace(DAPO, dynamic_sampling=False)},
)
