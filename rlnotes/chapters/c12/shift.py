"""The update shift U in the contest's arms in which runs died: those runs again, with U measured.

``python -m rlnotes.chapters.c12.shift --out 12_shift.json`` takes some ten minutes on one thread.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rlnotes.chapters.c12.readings import CLIPPED, chosen
from rlnotes.chapters.c12.studies import STUDIES
from rlnotes.studies.contest import UNCLIPPED
from rlnotes.studies.run import run
from rlnotes.studies.store import store_rows
from rlnotes.studies.tables import load_table

ARMS = (("half old", UNCLIPPED), ("old in parts", CLIPPED), ("all old", CLIPPED))  # feed, objective


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run of ``ARMS``: U, as its sampled tokens estimate it, and the accuracy after it."""
    study, table = STUDIES["12_versions"], load_table("12_versions")
    study = replace(study, base=replace(study.base, measure_shift=True), metrics=(*study.metrics, "update_shift"))
    for arm in ARMS:
        name = chosen(table)[arm]
        for seed in table.rows[name]:
            made = run(study, name, seed)[1:]  # before the start there is no update
            named = {"feed": arm[0], "objective": arm[1], "seed": seed}
            yield named | {column: [row[column] for row in made] for column in ("accuracy", "update_shift")}


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c12.shift", str(__doc__), rows)
