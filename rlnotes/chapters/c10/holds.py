"""Which hold hurts, and which helps: the loop of chapter 10 through a clip that also holds what went the wrong way.

``python -m rlnotes.chapters.c10.holds --out 10_holds.json`` takes some three minutes on one thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c10.live import RATE, ROUNDS, TASKS
from rlnotes.chapters.c10.rounds import ASTRAY, measured, start, train
from rlnotes.objectives.gates import Clip, Gate
from rlnotes.studies.store import store_rows

SEEDS = range(6)
WIDE = "clip, upper end 5"


@dataclass(frozen=True)
class Holding:
    """The clip at 0.2, which also holds good tokens below 0.8 (``fallen``) or bad ones above 1.2 (``risen``).

    >>> from rlnotes.chapters.c10.rounds import openness
    >>> openness(Holding(fallen=True), torch.tensor([0.5, 1.5]), torch.tensor([1.0, -1.0]))
    tensor([0., 1.])
    """

    fallen: bool = False
    risen: bool = False

    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The clipped surrogate, without a gradient where it is held."""
        surrogate = Clip()(ratio, advantages)
        fallen, risen = (advantages > 0) & (ratio < 0.8), (advantages < 0) & (ratio > 1.2)
        return torch.where(self.fallen & fallen | self.risen & risen, surrogate.detach(), surrogate)


HOLDS: dict[str, Gate] = {
    "clip, fallen good held too": Holding(fallen=True),
    "clip, risen bad held too": Holding(risen=True),
    "clip, both held too": Holding(fallen=True, risen=True),
    WIDE: Clip(0.2, 4.0),
}


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run: how it ended, and of each round the reward and the tokens that went the wrong way."""
    for seed in SEEDS:
        for task in TASKS:
            for name, gate in HOLDS.items():
                run = start(task, seed)
                found = list(train(run, gate, RATE, ROUNDS))
                row = dict(task=task, gate=name, seed=seed, after=measured(run))
                yield row | {key: [one[key] for one in found] for key in ("reward", *ASTRAY)}


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c10.holds", str(__doc__), rows)
