"""The studies whose tables chapter 12 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
)
from rlnotes.studies.contest import BASE, contest, on
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 12: half of the tokens by old weights, either whole responses or, where the version is drawn anew with chance
# 1/4 before each token, a part of nearly every response.
_LAGS = {
    f"{level} {lag}": dict(lags=(0, lag), switch=switch)
    for lag in (64, 256)
    for level, switch in {"kept": 0.0, "switching": 0.25}.items()
}
STUDIES["12_levels"] = Study(
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

# A contest, which no batch takes: a batch samples from one version. Four updates a rollout: 32 are eight rollouts.
_VERSIONS = {
    "fresh": {},
    "kept 32": dict(lags=(0, 32)),
    "switching 32": dict(lags=(0, 32), switch=0.25),
    "old 32": dict(lags=(32,)),
}
STUDIES["12_versions"] = contest(
    "What do old versions cost, as whole responses and as parts of each, with the clip and without?",
    (),
    {name: on("misled", 110_000, **changes) for name, changes in _VERSIONS.items()},
    base=replace(BASE, epochs=1),
)
