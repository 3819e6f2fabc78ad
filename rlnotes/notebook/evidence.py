"""Runs too long for a chapter, stored as tables with the command that made them, and what may be said of them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A median over seeds, and where 95 % of its bootstrap resamples lie."""

    median: float
    low: float
    high: float

    def __str__(self):
        return f"{self.median:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


LABELS = ("objective", "rollout", "recipe", "task", "rate")
TEXT = ("method", *LABELS, "sign", "token")
Runs = dict[str, dict[int, dict[str, np.ndarray]]]


class Band(NamedTuple):
    """A curve over tokens sampled: the median over seeds, the lowest and the highest."""

    tokens: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Evidence:
    """A table of ``rlnotes compare``, ``stability`` or ``arena``: for each method and seed, a metric at each step.

    ``rows[method][seed]`` maps a column to an array over steps, NaN where it was not measured. ``tuning`` holds in the
    same way the runs from which settings were chosen; no other function here looks at them, but :meth:`best`.
    ``labels[method]`` says what the method is, if the table does. ``clipped[method][seed]`` are lines on the tokens
    clipped most often.
    """

    name: str
    rows: Runs
    settings: dict
    tuning: Runs = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    clipped: dict[str, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What makes the table again. An arena reports each recipe at one of its learning rates only."""
        seeds = len(next(iter(self.rows.values())))
        if len(self.rows) < len(self.labels):
            return f"rlnotes arena --seeds {seeds} --out {self.name}"
        return f"rlnotes compare {self.name} --seeds {seeds} --out {self.name}.csv"

    def curves(self, method: str, metric: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tokens and values of each seed, where ``metric`` was measured."""
        found = []
        for columns in self.rows[method].values():
            measured = ~np.isnan(columns[metric])
            found.append((columns["tokens"][measured], columns[metric][measured]))
        return found

    def band(self, method: str, metric: str) -> Band:
        """Median over seeds and the range of the seeds, at each measurement that all of them have."""
        curves = self.curves(method, metric)
        whole = min(len(tokens) for tokens, _ in curves)
        tokens, values = (np.stack([curve[part][:whole] for curve in curves]) for part in (0, 1))
        return Band(np.median(tokens, 0), np.median(values, 0), values.min(0), values.max(0))

    def last(self, method: str, metric: str, points: int = 3) -> np.ndarray:
        """Mean of the last ``points`` measurements of each seed, (seeds,)."""
        return np.array([values[-points:].mean() for _, values in self.curves(method, metric)])

    def mean(self, method: str, metric: str) -> np.ndarray:
        """Mean of all measurements after the start, of each seed, (seeds,): what is early and lasts is worth most."""
        return np.array([values[tokens > 0].mean() for tokens, values in self.curves(method, metric)])

    def best(self, methods: Sequence[str], metric: str = "accuracy") -> str:
        """The one whose tuning runs have the highest :meth:`mean`. What it then reaches, other seeds tell."""
        apart = replace(self, rows=self.tuning)
        return max(methods, key=lambda method: apart.mean(method, metric).mean())

    def budget(self, method: str) -> int:
        """Response tokens that a run samples, give or take its last step."""
        made_of = self.settings["comparison"]
        return made_of["methods"][method].get("tokens", made_of["tokens"])

    def where(self, **labels: str) -> list[str]:
        """The methods with these labels: ``where(objective="pg-is", rollout="int4")``, one for each learning rate."""
        return [method for method, own in self.labels.items() if labels.items() <= own.items()]


def joined(ours: Evidence, theirs: Evidence) -> Evidence:
    """The runs of both tables as one, of the name and the settings of ``ours``.

    Raises ``ValueError`` if they hold the same method, or were made with other settings, so that they say nothing of
    each other. Another device is no other setting.
    """
    if both := [method for method in theirs.labels if method in ours.labels]:
        raise ValueError(f"both tables hold {both[0]!r}; give one of the two another name")
    mine, other = ours.settings["comparison"], theirs.settings["comparison"]
    first, second = (one["base"] | dict(tuning_seeds=one.get("tuning_seeds"), device=None) for one in (mine, other))
    for key in first.keys() & second.keys():  # an older note lacks younger settings
        if first[key] != second[key]:
            raise ValueError(f"the tables differ in {key}: {first[key]} and {second[key]}; make one of them again")
    methods = mine["methods"] | {name: own | dict(tokens=theirs.budget(name)) for name, own in other["methods"].items()}
    settings = ours.settings | dict(comparison=mine | dict(methods=methods))
    parts = ("rows", "tuning", "labels", "clipped")
    return replace(ours, settings=settings, **{part: getattr(ours, part) | getattr(theirs, part) for part in parts})


def load_evidence(name: str) -> Evidence:
    """A table that comes with the package. Raises ``FileNotFoundError`` that lists those there are."""
    chapters = files("rlnotes").joinpath("chapters")
    folder = chapters.joinpath(f"c{name[:2]}")
    table = folder.joinpath(f"{name}.csv")
    if not table.is_file():
        of_chapters = (path for one in chapters.iterdir() if one.is_dir() for path in one.iterdir())
        there = sorted(path.name[:-4] for path in of_chapters if path.name.endswith(".csv"))
        raise FileNotFoundError(f"no stored table {name!r}; there are: {', '.join(there) or 'none'}")
    return read_evidence(name, table, folder.joinpath(f"{name}.json"))


def load_rows(name: str) -> list[dict[str, Any]]:
    """Where each run of a small stored table ended, one dict a run. The file says which command makes it again."""
    note = files("rlnotes").joinpath("chapters", f"c{name[:2]}", f"{name}.json")
    return json.loads(note.read_text(encoding="utf-8"))["rows"]


def read_evidence(name: str, table: Traversable, note: Traversable) -> Evidence:
    """The table in the file ``table``, and what stands in the ``note`` beside it."""
    settings = json.loads(note.read_text(encoding="utf-8"))
    lines = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    grouped: dict[str, dict[int, list[dict[str, str]]]] = {name: {} for name in settings["comparison"]["methods"]}
    for line in lines:  # methods in the note's order, not in that of their ends
        grouped[line["method"]].setdefault(int(line["seed"]), []).append(line)
    tuning = settings["comparison"].get("tuning_seeds", [])
    rows, tuned, labels, clipped = {}, {}, {}, {}
    for method, runs in grouped.items():
        for seed in sorted(runs):
            steps = [line for line in runs[seed] if not line.get("token")]
            (tuned if seed in tuning else rows).setdefault(method, {})[seed] = {
                key: np.array([float(line[key] or "nan") for line in steps])
                for key in steps[0]
                if key not in (*TEXT, "seed")
            }
            labels[method] = {key: steps[0][key] for key in LABELS if key in steps[0]}
            clipped.setdefault(method, {})[seed] = [line for line in runs[seed] if line.get("token")]
    return Evidence(name, rows, settings, tuned, labels, clipped)


def median_interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Median over seeds with a 95 % percentile-bootstrap interval.

    With 5 seeds it is the range from the smallest value to the largest: that it misses 0 says that all five have
    one sign, which chance alone brings once in 16.
    """
    values = np.asarray(values)
    if np.ptp(values) == 0:
        return Interval(values[0], values[0], values[0])
    found = stats.bootstrap((values,), np.median, method="percentile", rng=np.random.default_rng(0))
    return Interval(float(np.median(values)), *map(float, found.confidence_interval))


def paired_interval(ours: np.ndarray, theirs: np.ndarray) -> Interval:
    """:func:`median_interval` of the differences, seed by seed. An interval that holds 0 shows no difference."""
    return median_interval(ours - theirs)
