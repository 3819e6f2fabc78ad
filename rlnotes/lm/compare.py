"""Methods against each other on one task: equal sampled tokens, paired seeds, one table that can be gone on with."""

import csv
import json
import platform
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.progress import bar
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import Choices

METRICS = (
    *("reward", "accuracy", "length", "length_wrong", "entropy", "gradient_norm", "no_gradient", "wasted_groups"),
    *("truncated", "mismatch", "rounds", "staleness", "update_shift", "lag", "ess_sequence"),
)
COLUMNS = ("method", "seed", "step", "tokens", *METRICS)


@dataclass(frozen=True)
class Method:
    """An objective, and what of the common settings it changes."""

    choices: Choices
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """What is compared, and on what terms.

    Every method samples ``tokens`` response tokens, give or take its last step. Runs with the same seed start from
    the same weights and are asked the same prompts in the same order, as long as they sample equally often.
    """

    question: str
    base: TrainConfig
    methods: Mapping[str, Method]
    tokens: int
    evaluate_every: int = 5
    """steps between measurements of ``accuracy``, on ``prompts_evaluated`` held-out prompts"""
    prompts_evaluated: int = 512
    record_every: int = 1
    """steps between rows of the table, so that a long comparison makes a small file"""

    def config(self, method: str, seed: int) -> TrainConfig:
        """The settings of one run."""
        return replace(self.base, seed=seed, **self.methods[method].changes)


def run(comparison: Comparison, method: str, seed: int) -> list[Metrics]:
    """One run: a row for its start, with ``step`` 0, and one for each recorded. ``accuracy`` may be missing between."""
    trainer = Trainer(comparison.config(method, seed), choices=comparison.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass
    rows: list[Metrics] = [dict(step=0, tokens=0, accuracy=trainer.evaluate(comparison.prompts_evaluated))]
    for metrics in trainer.run(steps=10**9):
        over = trainer.tokens >= comparison.tokens
        if over or trainer.step % comparison.evaluate_every == 0:
            metrics["accuracy"] = trainer.evaluate(comparison.prompts_evaluated)
        if over or trainer.step % comparison.record_every == 0:
            rows.append(metrics)
        if over:
            return rows
    raise AssertionError("a run goes on until its tokens are used up")


def missing(table: Path, comparison: Comparison, seeds: int) -> list[tuple[str, int]]:
    """Runs (method, seed) that ``table`` does not hold to their end."""
    ended = set()
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            ended = {(row["method"], int(row["seed"])) for row in rows if int(row["tokens"]) >= comparison.tokens}
    return [(method, seed) for seed in range(seeds) for method in comparison.methods if (method, seed) not in ended]


def compare(comparison: Comparison, table: Path, seeds: int = 5, workers: int = 1) -> Iterator[tuple[str, int]]:
    """Make the missing runs and append each to ``table``, a CSV file, when it has ended. Yields (method, seed).

    Beside it stands ``table.json``: the settings, the versions, and the kind of machine. Runs of other settings in
    the same table are refused with ``ValueError``, and so are less than one seed or worker.
    """
    for name, value in (("seeds", seeds), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    described = describe(comparison)
    note = table.with_suffix(".json")
    if note.exists() and compared(json.loads(note.read_text(encoding="utf-8"))) != described["comparison"]:
        raise ValueError(f"{note} describes other settings; choose another file, or remove {table} and {note}")
    table.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    if not table.exists():
        table.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    due = missing(table, comparison, seeds)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        runs = {pool.submit(run, comparison, method, seed): (method, seed) for method, seed in due}
        try:
            for done in as_completed(runs):
                method, seed = runs[done]
                append(table, method, seed, done.result())
                yield method, seed
        finally:
            pool.shutdown(cancel_futures=True)


def append(table: Path, method: str, seed: int, rows: list[Metrics]) -> None:
    """Write one run at the end of ``table``, in one piece, in the columns that the table has: older ones have fewer."""
    with table.open(encoding="utf-8", newline="") as file:
        columns = next(csv.reader(file))[2:]
    lines = [[method, seed, *(_short(row.get(column)) for column in columns)] for row in rows]
    with table.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _short(value: float | None) -> str:
    """Five digits are enough for a curve; what was not measured is left empty."""
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def describe(comparison: Comparison) -> dict[str, Any]:
    """What somebody needs to know to make the table again."""
    settings = _plain(asdict(comparison.base))
    methods = {
        name: dict(choices=_named(m.choices), changes=_plain(m.changes)) for name, m in comparison.methods.items()
    }
    made_of = dict(question=comparison.question, base=settings, methods=methods, tokens=comparison.tokens)
    machine = dict(python=platform.python_version(), torch=torch.__version__, processor=platform.machine())
    return dict(comparison=made_of, machine=machine)


def compared(note: dict[str, Any]) -> dict[str, Any]:
    """What a table's note says was compared. A setting that is younger than the note stands at its default: off."""
    made_of = note["comparison"]
    return made_of | dict(base=_plain(asdict(TrainConfig())) | made_of["base"])


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file gives them back: lists for tuples."""
    return json.loads(json.dumps(dict(settings)))


def _named(part: object) -> str:
    """An objective or a part of it as text, functions by their names. What is no number and stands at its default is
    left out, so that a table outlives a new option; numbers are all told.
    """
    if isinstance(part, tuple):
        return f"({', '.join(map(_named, part))})"
    if is_dataclass(part):
        shown = {own.name: getattr(part, own.name) for own in fields(part) if _is_told(part, own)}
        return f"{type(part).__name__}({', '.join(f'{name}={_named(value)}' for name, value in shown.items())})"
    return getattr(part, "__name__", repr(part))


def _is_told(part: object, own: Field) -> bool:
    value = getattr(part, own.name)
    return value != own.default or (isinstance(value, int | float) and bool(value))


def follow(comparison: Comparison, table: Path, seeds: int, workers: int) -> None:
    """:func:`compare` with a progress bar that counts runs."""
    with bar(len(missing(table, comparison, seeds))) as shown:
        for method, seed in compare(comparison, table, seeds, workers):
            shown.set_description(f"{method}, seed {seed}")
            shown.update()
