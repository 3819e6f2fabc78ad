"""What the centre of a clip costs: the CPU time of a round, a rollout and the updates on it.

``python -m rlnotes.chapters.c13.cost --out 13_cost.json`` takes half a minute on one thread.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import METHOD_1, METHOD_2, PG_IS, STALE_PPO
from rlnotes.studies.contest import BASE, on
from rlnotes.studies.methods import METHODS
from rlnotes.studies.store import store_rows

ARMS = {"stale_ppo": STALE_PPO, "unclipped": PG_IS, "method_1": METHOD_1, "method_2": METHOD_2}
ARMS["decoupled_ppo"] = METHODS["decoupled_ppo"]
TURNS, ROUNDS = 9, 4


def seconds(arm: str) -> float:
    """CPU seconds of a round on ``misled`` with data of 32 updates ago, in the mean over ``ROUNDS`` after the first."""
    trainer = Trainer(replace(BASE, **on("misled", lags=(32,), epochs=1).changes), choices=ARMS[arm])
    list(trainer.run(1))
    began = time.process_time()
    list(trainer.run(ROUNDS))
    return (time.process_time() - began) / ROUNDS


def rows() -> Iterator[dict[str, Any]]:
    """Of each arm the median over turns that all arms share, so that a slow minute slows all of them."""
    turns = [{arm: seconds(arm) for arm in ARMS} for _ in range(TURNS)]
    for arm, choices in ARMS.items():
        found = [turn[arm] for turn in turns]
        more = [turn[arm] / turn["stale_ppo"] - 1 for turn in turns]
        yield dict(
            arm=arm, recomputes=choices.needs_proximal, seconds=median(found), more=median(more),
            least=min(more), most=max(more),
        )  # fmt: skip


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c13.cost", str(__doc__), rows)
