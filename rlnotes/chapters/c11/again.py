"""Two of the states of :mod:`rlnotes.chapters.c11.measured` with six times the responses.

``python -m rlnotes.chapters.c11.again --out 11_again.json`` takes a minute on one thread.
"""

from collections.abc import Iterator
from typing import Any

from rlnotes.chapters.c11.live import AGE
from rlnotes.chapters.c11.measured import PROMPTS, measure, midway
from rlnotes.studies.store import store_rows

STATES = (1, 8)
MORE = 6 * PROMPTS


def rows() -> Iterator[dict[str, Any]]:
    """Each weight in each state."""
    for seed in STATES:
        for row in measure(midway(AGE, seed), seed, MORE):
            yield {"age": AGE, "seed": seed, "responses": 16 * MORE} | row


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c11.again", str(__doc__), rows)
