"""The one runner: the runs that a study's table lacks, made and appended; tables that can be gone on with."""

import json
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

from rlnotes.files import csv_text, replace_text, sole_writer
from rlnotes.lm.progress import bar
from rlnotes.processes import end_with_parent
from rlnotes.studies.batches import Run, batches, run_batch
from rlnotes.studies.run import Row
from rlnotes.studies.study import Study, compared, describe
from rlnotes.studies.tables import (
    COUNTERS,
    LABEL_NAMES,
    TOKEN_COLUMNS,
    Sheet,
    Table,
    grids,
    read_note,
    read_sheet,
    read_table,
)

Names = Collection[str] | None  # of methods; None: all
MOST_SEEDS = 10_000
MOST_WORKERS = 4 * (os.cpu_count() or 1)  # more on a core only wait for each other, each with the memory of a torch


def missing(table: Path, study: Study, seeds: int, reported: Names = None, tuned: Names = None) -> list[Run]:
    """Runs (method, seed) that ``table`` does not hold to their end: those for tuning of the methods to be ``tuned``,
    then seeds 0, 1, ... of those that are ``reported``; None are all.
    """
    ended = set()
    if table.exists():
        sheet = _sheet(study, table)
        ended = sheet.runs.keys() - sheet.parts(study.tokens_of)
    tried, told = ([one for one in study.methods if names is None or one in names] for names in (tuned, reported))
    due = [(method, seed) for seed in study.tuning_seeds for method in tried]
    due += [(method, seed) for seed in range(seeds) for method in told]
    return [one for one in due if one not in ended]


def compare(
    study: Study,
    table: Path,
    seeds: int = 10,
    workers: int = 1,
    reported: Names = None,
    tuned: Names = None,
    pool: Executor | None = None,
) -> Iterator[Run]:
    """Make the missing runs and append each to ``table``, a CSV file, when it has ended. Yields (method, seed).
    Which ones are ``reported``, and which ones ``tuned``: see :func:`missing`. On a GPU runs are made in batches
    where they can be: see :func:`rlnotes.studies.batches.batches`. A ``pool`` of as many ``workers`` may be there
    already.

    Beside it stands ``table.json``: the settings, the versions, and the kind of machine. The first run that has ended
    brings both. Of a run that a cut or a hand has left in part the rest is taken out, with a warning, and it is made
    again. Raises ``ValueError``, before anything is changed, for settings that no run can have, runs of other settings
    in the same table, another writer, and less than one seed or worker.
    """
    check(study, table, seeds, workers)
    with sole_writer(table.parent, table.name):
        check_note(study, table)
        if table.exists():
            mend(study, table)
        yield from _make(study, table, batches(study, missing(table, study, seeds, reported, tuned)), workers, pool)


def _pool(workers: int) -> AbstractContextManager[Executor]:
    """New processes, which end with this one."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent)


def _make(study: Study, table: Path, due: list[list[Run]], workers: int, there: Executor | None) -> Iterator[Run]:
    """Make the runs that are ``due``, and keep them."""
    running: dict[Future[list[list[Row]]], list[Run]] = {}
    begun = False
    with _pool(workers) if there is None else nullcontext(there) as pool:
        while due or running:
            # as many as there are workers: after an interrupt a pool still makes what waits in its own queue
            while due and len(running) < workers:
                batch = due.pop(0)
                running[pool.submit(run_batch, study, batch)] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                made = dict(zip(running.pop(done), done.result(), strict=True))
                if not begun:
                    begin(study, table)
                begun = True
                append_all(study, table, made)
                yield from made


def check(study: Study, table: Path, seeds: int, workers: int) -> None:
    """Raise ``ValueError`` for runs that cannot be made, before anything is written."""
    if table.suffix != ".csv":
        raise ValueError(f"the table is {str(table)!r}; give it a name that ends in .csv: its note ends in .json")
    for name, value, most in (("seeds", seeds, MOST_SEEDS), ("workers", workers, MOST_WORKERS)):
        if not 1 <= value <= most:
            raise ValueError(f"{name} is {value}; it must be at least 1, and at most {most}")
    if both := sorted(seed for seed in study.tuning_seeds if seed < seeds):
        raise ValueError(f"tuning_seeds holds {both}, which are reported, too; choose seeds of {seeds} or more")
    study.check()


def begin(study: Study, table: Path) -> None:
    """Write the note beside ``table``, and the table's header if there is none. Raises as :func:`check_note` does."""
    check_note(study, table)
    table.parent.mkdir(parents=True, exist_ok=True)
    replace_text(table.with_suffix(".json"), json.dumps(describe(study), indent=1) + "\n")
    if not table.exists():
        replace_text(table, csv_text([columns(study)]))


def check_note(study: Study, table: Path) -> None:
    """Raise ``ValueError`` if there is a ``table``, and the note beside it is missing or describes other settings."""
    note = table.with_suffix(".json")
    if not table.exists():
        return
    if not note.exists():
        raise ValueError(f"{table} lacks its note {note}, which tells what it holds; choose another file")
    if compared(read_note(note), study.methods) != describe(study)["comparison"]:
        raise ValueError(f"{note} describes other settings; choose another file, or remove {table} and {note}")


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
    """:func:`append_all` for one run."""
    append_all(study, table, {(method, seed): rows})


def append_all(study: Study, table: Path, made: Mapping[Run, list[Row]]) -> None:
    """Write the rows of some runs at the end of ``table``, all of them or nothing, in the columns that the table has:
    older ones have fewer.
    """
    named = [LABEL_NAMES.get(column, column) for column in mend(study, table)]
    lines = []
    for (method, seed), rows in made.items():
        run_of = dict(method=method, seed=seed, **study.methods[method].labels)
        lines += [[_short((run_of | row).get(column)) for column in named] for row in rows]
    replace_text(table, table.read_bytes().decode() + csv_text(lines))


def mend(study: Study, table: Path) -> list[str]:
    """Take out of ``table``, with a warning, what a cut has left of a run. Returns the table's columns."""
    sheet = _sheet(study, table)
    parts = sheet.parts(study.tokens_of)
    if parts or sheet.torn:
        which = "; ".join(f"{method}, seed {seed}" for method, seed in parts) or "a run"
        warnings.warn(f"{table} holds only a part of {which}, which is taken out", stacklevel=2)
        whole = chain(*(rows for run, rows in sheet.runs.items() if run not in parts))
        replace_text(table, csv_text([sheet.columns, *whole]))
    return sheet.columns


def _sheet(study: Study, table: Path) -> Sheet:
    return read_sheet(table).renamed(study.methods, study.methods)


def _short(value: float | str | None) -> str:
    """Five digits are enough for a curve; what was not measured is left empty."""
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def follow(
    study: Study,
    table: Path,
    seeds: int,
    workers: int,
    reported: Names = None,
    tuned: Names = None,
    pool: Executor | None = None,
) -> None:
    """:func:`compare` with a progress bar that counts runs."""
    check(study, table, seeds, workers)
    with bar(len(missing(table, study, seeds, reported, tuned))) as shown:
        for method, seed in compare(study, table, seeds, workers, reported, tuned, pool):
            shown.set_description(f"{method}, seed {seed}")
            shown.update()


def hold(
    study: Study, table: Path, seeds: int = 10, workers: int = 1, best: Callable[[Table, list[str]], str] = Table.best
) -> None:
    """Make the missing runs of a study with tuning seeds: those for tuning, until the ``best`` learning rate of each
    grid has both its neighbours tried, or ends the grid; then ``seeds`` of each best.

    Runs that ``table`` holds are not made again: after an interruption the same call goes on.
    """
    check(study, table, seeds, workers)
    labels, tried, chosen = {name: one.labels for name, one in study.methods.items()}, set[str](), list[str]()
    wanted = {name for name, own in labels.items() if not study.first or own["rate"] in study.first}
    with _pool(workers) as pool:
        while wanted:
            tried |= wanted
            follow(study, table, seeds, workers, reported=(), tuned=tried, pool=pool)
            found = read_table(table.stem, table, table.with_suffix(".json"))
            chosen = [best(found, [name for name in grid if name in tried]) for grid in grids(labels)]
            places = [(grid, grid.index(top)) for grid, top in zip(grids(labels), chosen, strict=True)]
            wanted = {name for grid, i in places for name in grid[max(0, i - 1) : i + 2]} - tried
        follow(study, table, seeds, workers, reported=chosen, tuned=tried, pool=pool)
