"""Groups of 8 and of 16 once more on ``misled``, at the rate that was tuned for both, on ten seeds that no run of the
contest has.

``python -m rlnotes.chapters.c07.again --out 07_again.json`` takes some minutes on one thread.
"""

from collections.abc import Iterator
from typing import Any

from rlnotes.chapters.c07.studies import STUDIES
from rlnotes.studies.run import run
from rlnotes.studies.store import store_rows

SEEDS = range(10, 20)
SIZES = (8, 16)
RATE = "4e-3"


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run: its seed, the size of its groups, and the accuracy each time it was measured."""
    for seed in SEEDS:
        for size in SIZES:
            found = run(STUDIES["07_groups"], f"grpo, G = {size}, misled {RATE}", seed)
            yield dict(
                seed=seed, size=size, accuracy=[row["accuracy"] for row in found if row.get("accuracy") is not None]
            )


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c07.again", str(__doc__), rows)
