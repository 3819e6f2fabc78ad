"""Methods against each other on one task: equal sampled tokens, paired seeds, one table that can be gone on with."""

import csv
import json
import platform
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
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
    *("truncated", "mismatch", "rounds"),
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

    def config(self, method: str, seed: int) -> TrainConfig:
        """The settings of one run."""
        return replace(self.base, seed=seed, **self.methods[method].changes)


def run(comparison: Comparison, method: str, seed: int) -> list[Metrics]:
    """One run: a row for its start, with ``step`` 0, and one for each step. ``accuracy`` is missing between."""
    trainer = Trainer(comparison.config(method, seed), choices=comparison.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass
    rows: list[Metrics] = [dict(step=0, tokens=0, accuracy=trainer.evaluate(comparison.prompts_evaluated))]
    for metrics in trainer.run(steps=10**9):
        over = trainer.tokens >= comparison.tokens
        if over or trainer.step % comparison.evaluate_every == 0:
            metrics["accuracy"] = trainer.evaluate(comparison.prompts_evaluated)
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
    if note.exists() and json.loads(note.read_text(encoding="utf-8"))["comparison"] != described["comparison"]:
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
    """Write one run at the end of ``table``, in one piece."""
    lines = [[method, seed, *(_short(row.get(column)) for column in COLUMNS[2:])] for row in rows]
    with table.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _short(value: float | None) -> str:
    """Five digits are enough for a curve; what was not measured is left empty."""
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def describe(comparison: Comparison) -> dict[str, Any]:
    """What somebody needs to know to make the table again."""
    settings = asdict(comparison.base)
    methods = {name: dict(choices=_named(m.choices), changes=dict(m.changes)) for name, m in comparison.methods.items()}
    made_of = dict(question=comparison.question, base=settings, methods=methods, tokens=comparison.tokens)
    machine = dict(python=platform.python_version(), torch=torch.__version__, processor=platform.machine())
    return dict(comparison=made_of, machine=machine)


def _named(choices: Choices) -> str:
    """The choices as text, functions by their names: an address in memory would be another one each time."""
    return re.sub(r"<function ([\w.]+) at \w+>", r"\1", repr(choices))


def follow(comparison: Comparison, table: Path, seeds: int, workers: int) -> None:
    """:func:`compare` with a progress bar that counts runs."""
    with bar(len(missing(table, comparison, seeds))) as shown:
        for method, seed in compare(comparison, table, seeds, workers):
            shown.set_description(f"{method}, seed {seed}")
            shown.update()
