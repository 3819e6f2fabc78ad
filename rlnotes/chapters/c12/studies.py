"""The studies whose tables chapter 12 shows, by name."""

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
)
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
