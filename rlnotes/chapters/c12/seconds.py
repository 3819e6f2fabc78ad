"""What staleness buys in time: a learner that waits for each rollout, and one whose actor is four rollouts ahead.

``python -m rlnotes.chapters.c12.seconds --out 12_seconds.json`` takes some minutes, on two cores or more. The two take
turns, so that what else the machine does falls on both.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import GRPO
from rlnotes.studies.store import store_rows

QUEUES, TURNS, ROUNDS = (0, 4), 5, 15


def timed(queue: int, seed: int = 0, rounds: int = ROUNDS) -> dict[str, Any]:
    """Of one run the median seconds of a round, and those of them that the learner waited; the first rounds, in which
    the actor starts and the queue fills, are left out.
    """
    config = TrainConfig(task="misled", minibatches=4, learning_rate=8e-4, seed=seed)
    with AsyncTrainer(config, choices=GRPO, queue=queue) as trainer:
        rows = list(trainer.run(rounds))[max(QUEUES) + 1 :]
    found = {name: float(np.median([row[name] for row in rows])) for name in ("lag", "waited", "seconds")}
    return {"queue": queue, "seed": seed} | found


def rows() -> Iterator[dict[str, Any]]:
    """One after the other, in turns."""
    for turn in range(TURNS):
        for queue in QUEUES:
            yield timed(queue, turn)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c12.seconds", str(__doc__), rows)
