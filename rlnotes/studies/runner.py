"""The one runner: the runs that a study's table lacks, made and appended; tables that can be gone on with."""

import csv
import json
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from rlnotes.lm.progress import bar
from rlnotes.studies.batches import batches, run_batch
from rlnotes.studies.run import Row
from rlnotes.studies.study import Study, compared, describe
from rlnotes.studies.tables import COUNTERS, LABEL_NAMES, TOKEN_COLUMNS, canonical


def missing(table: Path, study: Study, seeds: int, reported: Collection[str] | None = None) -> list[tuple[str, int]]:
    """Runs (method, seed) that ``table`` does not hold to their end: tuning first, then seeds 0, 1, ... of the methods
    that are ``reported``, or of all.
    """
    ended = set()
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                method = canonical(row["method"], study.methods)
                if int(row["tokens"]) >= study.tokens_of(method):
                    ended.add((method, int(row["seed"])))
    due = [(method, seed) for seed in study.tuning_seeds for method in study.methods]
    told = [method for method in study.methods if reported is None or method in reported]
    due += [(method, seed) for seed in range(seeds) for method in told]
    return [one for one in due if one not in ended]


def compare(
    study: Study,
    table: Path,
    seeds: int = 5,
    workers: int = 1,
    reported: Collection[str] | None = None,
) -> Iterator[tuple[str, int]]:
    """Make the missing runs and append each to ``table``, a CSV file, when it has ended. Yields (method, seed).
    Where only some methods are ``reported``, the others have runs for tuning alone. On a GPU runs are made in batches
    where they can be: see :func:`rlnotes.studies.batches.batches`.

    Beside it stands ``table.json``: the settings, the versions, and the kind of machine. Runs of other settings in
    the same table are refused with ``ValueError``, and so are less than one seed or worker.
    """
    for name, value in (("seeds", seeds), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if both := sorted({*study.tuning_seeds} & {*range(seeds)}):
        raise ValueError(f"tuning_seeds holds {both}, which are reported, too; choose seeds of {seeds} or more")
    begin(study, table)
    due = batches(study, missing(table, study, seeds, reported))
    running: dict[Future[list[list[Row]]], list[tuple[str, int]]] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while due or running:
            # as many as there are workers: after an interrupt a pool still makes what waits in its own queue
            while due and len(running) < workers:
                batch = due.pop(0)
                running[pool.submit(run_batch, study, batch)] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                for made, rows in zip(running.pop(done), done.result(), strict=True):
                    append(study, table, *made, rows)
                    yield made


def begin(study: Study, table: Path) -> None:
    """Write the note beside ``table``, and the table's header if there is none.

    Raises ``ValueError`` if a note is there that describes other settings.
    """
    described, note = describe(study), table.with_suffix(".json")
    if (
        note.exists()
        and compared(json.loads(note.read_text(encoding="utf-8")), study.methods) != described["comparison"]
    ):
        raise ValueError(f"{note} describes other settings; choose another file, or remove {table} and {note}")
    table.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    if not table.exists():
        table.write_text(",".join(columns(study)) + "\n", encoding="utf-8")


def columns(study: Study) -> list[str]:
    """Those of a new table."""
    labels = dict.fromkeys(label for one in study.methods.values() for label in one.labels)
    return [
        "method",
        *labels,
        *COUNTERS,
        *study.metrics,
        *(TOKEN_COLUMNS if study.base.count_clipped else ()),
    ]


def append(study: Study, table: Path, method: str, seed: int, rows: list[Row]) -> None:
    """Write one run at the end of ``table``, in one piece, in the columns that the table has: older ones have fewer."""
    with table.open(encoding="utf-8", newline="") as file:
        named = [LABEL_NAMES.get(column, column) for column in next(csv.reader(file))]
    run_of = dict(method=method, seed=seed, **study.methods[method].labels)
    lines = [[_short((run_of | row).get(column)) for column in named] for row in rows]
    with table.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _short(value: float | str | None) -> str:
    """Five digits are enough for a curve; what was not measured is left empty."""
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def follow(study: Study, table: Path, seeds: int, workers: int, reported: Collection[str] | None = None) -> None:
    """:func:`compare` with a progress bar that counts runs."""
    with bar(len(missing(table, study, seeds, reported))) as shown:
        for method, seed in compare(study, table, seeds, workers, reported):
            shown.set_description(f"{method}, seed {seed}")
            shown.update()
