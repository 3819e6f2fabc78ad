"""The loop of chapter 10 on six seeds, and what the clip holds on six tasks.

``python -m rlnotes.chapters.c10.live --out 10_live.json`` takes some ten minutes on one thread.
"""

import math
from collections.abc import Iterator
from typing import Any

from rlnotes.chapters.c10.rounds import measured, start, train
from rlnotes.objectives.gates import Clip, Gate, Soft, SoftOneSided
from rlnotes.studies.store import store_rows

TASKS, SEEDS, ROUNDS, RATE = ("needle", "sort"), range(6), 6, 2e-4
GATES: dict[str, Gate] = {"clip": Clip(), "sapo": Soft()}
# They let good tokens go further than bad ones.
APART: dict[str, Gate] = {
    "one-sided, good 1, bad 30": SoftOneSided(1.0, 30.0),
    "clip, no upper end": Clip(0.2, math.inf),
}

# What the clip holds early, at the rates of the tables 10_gates, 10_gates_sort and 17_arena, and with their rounds.
SMALL = dict(prompts=16, group=16)
HELD: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "needle": (("1e-4", "2e-4", "4e-4", "8e-4"), {}),
    "sort": (("1e-4", "2e-4"), {}),
    "misled": (("2e-4", "8e-4"), {}),
    "ledger": (("1e-4", "4e-4"), dict(prompts=16, group=8, passes=2)),
    "reverse": (("1.5e-4", "5e-4"), SMALL),
    "ramble": (("1.5e-4", "5e-4"), SMALL),
}
HELD_SEEDS, HELD_ROUNDS = range(2), 5
READ = ("reward", "mean_gate", "good", "bad")


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run, a list for each number that it logs."""
    for task in TASKS:
        for name, gate in (GATES | APART).items():
            for seed in SEEDS:
                run = start(task, seed)
                before = measured(run)
                found = list(train(run, gate, RATE, ROUNDS))
                row = dict(role="loop", task=task, gate=name, seed=seed, before=before, after=measured(run))
                yield row | {key: [one[key] for one in found] for key in READ}
    for task, (rates, changes) in HELD.items():
        for rate in rates:
            for seed in HELD_SEEDS:
                found = list(train(start(task, seed), Clip(), float(rate), HELD_ROUNDS, **changes))
                row = dict(role="held", task=task, rate=rate, seed=seed)
                yield row | {key: [one[key] for one in found] for key in READ}


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c10.live", str(__doc__), rows)
