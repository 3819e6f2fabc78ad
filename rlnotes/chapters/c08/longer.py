"""The loop of chapter 08 with the constant beyond its thirty steps: the gap of the lengths, of all and within groups.

``python -m rlnotes.chapters.c08.longer --out 08_longer.json`` takes about a minute on one thread.
"""

from typing import Any

from rlnotes.chapters.c08.live import SHARES, train
from rlnotes.studies.store import store_rows

DENOMINATOR, SEEDS, STEPS = "constant", range(7), 80


def run(seed: int) -> dict[str, Any]:
    """One run at the chapter's rate: lengths and gaps by step, None where there were none."""
    _, steps = train(SHARES[DENOMINATOR], seed, steps=STEPS)
    found: dict[str, Any] = dict(denominator=DENOMINATOR, seed=seed)
    for name in ("right", "wrong", "all", "within", "reward"):
        found[name] = [None if step[name] != step[name] else step[name] for step in steps]
    return found


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c08.longer", str(__doc__), lambda: map(run, SEEDS))
