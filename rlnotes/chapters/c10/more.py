"""The three gates of the first figure of chapter 10 on sort, on fourteen more seeds.

``python -m rlnotes.chapters.c10.more --out 10_more.json`` takes some minutes on one thread.
"""

from collections.abc import Iterator
from typing import Any

from rlnotes.chapters.c10.holds import HOLDS, WIDE
from rlnotes.chapters.c10.live import GATES, RATE, READ, ROUNDS
from rlnotes.chapters.c10.rounds import measured, start, train
from rlnotes.studies.store import store_rows

SEEDS = range(6, 20)


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run, as :func:`rlnotes.chapters.c10.live.rows` has them."""
    for name, gate in (GATES | {WIDE: HOLDS[WIDE]}).items():
        for seed in SEEDS:
            run = start("sort", seed)
            before = measured(run)
            found = list(train(run, gate, RATE, ROUNDS))
            row = dict(task="sort", gate=name, seed=seed, before=before, after=measured(run))
            yield row | {key: [one[key] for one in found] for key in READ}


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c10.more", str(__doc__), rows)
