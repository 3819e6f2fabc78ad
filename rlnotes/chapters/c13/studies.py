"""The studies whose tables chapter 13 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    METHOD_1,
    METHOD_2,
    PG_IS,
    STALE_PPO,
)
from rlnotes.studies.contest import BASE, contest, on
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 13: three clips, and none, on data that are 0 to 64 updates old, four updates on each rollout. Two learning
# rates, none chosen afterwards.
_CLIPS = {"stale_ppo": STALE_PPO, "method_1": METHOD_1, "method_2": METHOD_2, "unclipped": PG_IS}
for _name, _rate in {"13_stale": 1e-4, "13_stale_fast": 3e-4}.items():
    STUDIES[_name] = Study(
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

# A contest. Four updates on each rollout, so that 8 and 32 updates are two and eight rollouts. On fresh data the first
# three are one.
STUDIES["13_mechanisms"] = contest(
    "Around what should a clip be centred when data are old: around 1, around pi_k / mu, or on pi / pi_k?",
    ("method_1", "method_2", "decoupled_ppo"),
    {f"misled{f' lag {lag}' * (lag > 0)}": on("misled", 110_000, lags=(lag,) if lag else ()) for lag in (0, 8, 32)}
    | {"ledger lag 8": on("ledger", lags=(8,), epochs=1)},
    clipped="stale_ppo",
    base=replace(BASE, epochs=1),
)
