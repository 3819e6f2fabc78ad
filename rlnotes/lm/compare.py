"""Methods against each other on one task: equal sampled tokens, paired seeds, one table that can be gone on with."""

import csv
import json
import platform
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.progress import bar
from rlnotes.lm.report import ClippedTokens
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import Choices

Row = dict[str, Any]  # a line of a table: metrics, or counts of a clipped token

METRICS = (
    *("reward", "accuracy", "length", "length_wrong", "entropy", "gradient_norm", "no_gradient", "wasted_groups"),
    *("truncated", "mismatch", "rounds", "staleness", "update_shift", "lag", "ess_sequence"),
    *("bad_updates", "clipped_probability", "clipped_entropy"),
)
COUNTERS = ("seed", "step", "tokens")
TOKEN_COLUMNS = ("sign", "token", "shown", "clipped", "probability")  # of the rows on clipped tokens


@dataclass(frozen=True)
class Method:
    """An objective, and what of the common settings it changes.

    ``labels`` are columns of the table that say the same as the method's name, one thing each: to sort and select by.
    ``tokens`` is its own number of response tokens, where methods of one comparison are tried on different tasks.
    """

    choices: Choices
    changes: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tokens: int | None = None


@dataclass(frozen=True)
class Comparison:
    """What is compared, and on what terms.

    Every method samples ``tokens`` response tokens, or its own number, give or take its last step. Runs with the same
    seed start from the same weights and are asked the same prompts in the same order, as long as they sample equally
    often.
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
    tuning_seeds: tuple[int, ...] = ()
    """seeds of runs from which settings are chosen, and of which nothing is reported; the others count from 0"""
    metrics: tuple[str, ...] = METRICS
    """columns of the table besides method, seed, step and tokens"""

    def config(self, method: str, seed: int) -> TrainConfig:
        """The settings of one run."""
        return replace(self.base, seed=seed, **self.methods[method].changes)

    def tokens_of(self, method: str) -> int:
        """Response tokens of one run: the comparison's, unless the method has a number of its own."""
        own = self.methods[method].tokens
        return self.tokens if own is None else own


def run(comparison: Comparison, method: str, seed: int) -> list[Row]:
    """One run: a row for its start, with ``step`` 0, and one for each recorded. ``accuracy`` may be missing between.

    A run whose weights or gradient are no finite numbers any more is lost: ``accuracy`` is 0 from there to its end.
    With ``count_clipped`` rows follow on the tokens clipped most often over the whole run.
    """
    trainer = Trainer(comparison.config(method, seed), choices=comparison.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass
    measure = partial(trainer.evaluate, comparison.prompts_evaluated)
    curve = Curve(comparison, method, measure())
    clipped = ClippedTokens(len(trainer.task.vocabulary))
    try:
        for metrics in trainer.run(steps=10**9):
            if trainer.clipped is not None:
                clipped += trainer.clipped
            curve.take(trainer, metrics, measure)
            if curve.ended:
                break
    except ValueError:
        if trainer.step == 0:  # not even one step: the settings are wrong
            raise
        curve.lose(trainer)
    end = dict(step=trainer.step, tokens=curve.rows[-1]["tokens"])
    reported = seed not in comparison.tuning_seeds
    return curve.rows + [end | row for row in clipped.rows(trainer.task.vocabulary.names) if reported]


class Curve:
    """The rows of one run, as it goes on; the first is its start, with ``step`` 0 and its ``accuracy``."""

    def __init__(self, comparison: Comparison, method: str, accuracy: float):
        self.comparison, self.budget = comparison, comparison.tokens_of(method)
        self.rows: list[Row] = [dict(step=0, tokens=0, accuracy=accuracy)]
        self.ended = False

    def take(self, trainer: Trainer, metrics: Metrics, measure: Callable[[], float]) -> None:
        """Go on by a step of ``trainer``. ``measure`` gives its accuracy, if that is due."""
        self.ended = trainer.tokens >= self.budget
        if self.ended or trainer.step % self.comparison.evaluate_every == 0:
            metrics["accuracy"] = measure()
        if self.ended or trainer.step % self.comparison.record_every == 0:
            self.rows.append(metrics)

    def lose(self, trainer: Trainer) -> None:
        """End where ``trainer`` cannot go on: accuracy 0 from here to the last token."""
        self.ended = True
        for tokens in (trainer.tokens, max(trainer.tokens, self.budget)):
            self.rows.append(dict(step=trainer.step, tokens=tokens, accuracy=0.0))


def missing(
    table: Path, comparison: Comparison, seeds: int, reported: Collection[str] | None = None
) -> list[tuple[str, int]]:
    """Runs (method, seed) that ``table`` does not hold to their end: tuning first, then seeds 0, 1, ... of the methods
    that are ``reported``, or of all.
    """
    ended = set()
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if int(row["tokens"]) >= comparison.tokens_of(row["method"]):
                    ended.add((row["method"], int(row["seed"])))
    due = [(method, seed) for seed in comparison.tuning_seeds for method in comparison.methods]
    told = [method for method in comparison.methods if reported is None or method in reported]
    due += [(method, seed) for seed in range(seeds) for method in told]
    return [one for one in due if one not in ended]


def compare(
    comparison: Comparison,
    table: Path,
    seeds: int = 5,
    workers: int = 1,
    reported: Collection[str] | None = None,
) -> Iterator[tuple[str, int]]:
    """Make the missing runs and append each to ``table``, a CSV file, when it has ended. Yields (method, seed).
    Where only some methods are ``reported``, the others have runs for tuning alone. On a GPU runs are made in batches
    where they can be: see :func:`rlnotes.lm.batched_runs.batches`.

    Beside it stands ``table.json``: the settings, the versions, and the kind of machine. Runs of other settings in
    the same table are refused with ``ValueError``, and so are less than one seed or worker.
    """
    from rlnotes.lm.batched_runs import batches, run_batch  # not before: it imports this module

    for name, value in (("seeds", seeds), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if both := sorted({*comparison.tuning_seeds} & {*range(seeds)}):
        raise ValueError(f"tuning_seeds holds {both}, which are reported, too; choose seeds of {seeds} or more")
    begin(comparison, table)
    due = batches(comparison, missing(table, comparison, seeds, reported))
    running: dict[Future[list[list[Row]]], list[tuple[str, int]]] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while due or running:
            # as many as there are workers: after an interrupt a pool still makes what waits in its own queue
            while due and len(running) < workers:
                batch = due.pop(0)
                running[pool.submit(run_batch, comparison, batch)] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                for made, rows in zip(running.pop(done), done.result(), strict=True):
                    append(comparison, table, *made, rows)
                    yield made


def begin(comparison: Comparison, table: Path) -> None:
    """Write the note beside ``table``, and the table's header if there is none.

    Raises ``ValueError`` if a note is there that describes other settings.
    """
    described = describe(comparison)
    note = table.with_suffix(".json")
    if note.exists() and compared(json.loads(note.read_text(encoding="utf-8"))) != described["comparison"]:
        raise ValueError(f"{note} describes other settings; choose another file, or remove {table} and {note}")
    table.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    if not table.exists():
        table.write_text(",".join(columns(comparison)) + "\n", encoding="utf-8")


def columns(comparison: Comparison) -> list[str]:
    """Those of a new table."""
    labels = dict.fromkeys(label for one in comparison.methods.values() for label in one.labels)
    return [
        "method",
        *labels,
        *COUNTERS,
        *comparison.metrics,
        *(TOKEN_COLUMNS if comparison.base.count_clipped else ()),
    ]


def append(comparison: Comparison, table: Path, method: str, seed: int, rows: list[Row]) -> None:
    """Write one run at the end of ``table``, in one piece, in the columns that the table has: older ones have fewer."""
    with table.open(encoding="utf-8", newline="") as file:
        named = next(csv.reader(file))
    run_of = dict(method=method, seed=seed, **comparison.methods[method].labels)
    lines = [[_short((run_of | row).get(column)) for column in named] for row in rows]
    with table.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _short(value: float | str | None) -> str:
    """Five digits are enough for a curve; what was not measured is left empty."""
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def describe(comparison: Comparison) -> dict[str, Any]:
    """What somebody needs to know to make the table again."""
    settings = _plain(asdict(comparison.base))
    methods: dict[str, dict[str, Any]] = {}
    for name, method in comparison.methods.items():
        methods[name] = dict(choices=_named(method.choices), changes=_plain(method.changes))
        if method.tokens is not None:
            methods[name]["tokens"] = method.tokens
    made_of: dict[str, Any] = dict(question=comparison.question, base=settings, methods=methods)
    made_of["tokens"] = comparison.tokens
    if comparison.tuning_seeds:
        made_of["tuning_seeds"] = list(comparison.tuning_seeds)
    machine: dict[str, Any] = dict(
        python=platform.python_version(), torch=torch.__version__, processor=platform.machine()
    )
    if comparison.base.device.startswith("cuda") and torch.cuda.is_available():
        machine["card"] = torch.cuda.get_device_name(torch.device(comparison.base.device))
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


def follow(
    comparison: Comparison, table: Path, seeds: int, workers: int, reported: Collection[str] | None = None
) -> None:
    """:func:`compare` with a progress bar that counts runs."""
    with bar(len(missing(table, comparison, seeds, reported))) as shown:
        for method, seed in compare(comparison, table, seeds, workers, reported):
            shown.set_description(f"{method}, seed {seed}")
            shown.update()
