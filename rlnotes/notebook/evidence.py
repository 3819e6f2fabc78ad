"""Runs too long for a chapter, stored as tables with the command that made them, and what may be said of them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A median over seeds, and where 95 % of its bootstrap resamples lie."""

    median: float
    low: float
    high: float

    def __str__(self):
        return f"{self.median:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


@dataclass(frozen=True)
class Evidence:
    """A stored table of ``rlnotes compare``: for each method and seed, a metric at each step.

    ``rows[method][seed]`` maps a column to an array over steps, NaN where it was not measured.
    """

    name: str
    rows: dict[str, dict[int, dict[str, np.ndarray]]]
    settings: dict

    @property
    def command(self) -> str:
        """What makes the table again."""
        seeds = len(next(iter(self.rows.values())))
        return f"rlnotes compare {self.name} --seeds {seeds} --out {self.name}.csv"

    def curves(self, method: str, metric: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tokens and values of each seed, where ``metric`` was measured."""
        found = []
        for columns in self.rows[method].values():
            measured = ~np.isnan(columns[metric])
            found.append((columns["tokens"][measured], columns[metric][measured]))
        return found

    def last(self, method: str, metric: str, points: int = 3) -> np.ndarray:
        """Mean of the last ``points`` measurements of each seed, (seeds,)."""
        return np.array([values[-points:].mean() for _, values in self.curves(method, metric)])


def load_evidence(name: str) -> Evidence:
    """A table that comes with the package. Raises ``FileNotFoundError`` that lists those there are."""
    folder = files("rlnotes.notebook").joinpath("evidence")
    table = folder.joinpath(f"{name}.csv")
    if not table.is_file():
        there = sorted(path.name[:-4] for path in folder.iterdir() if path.name.endswith(".csv"))
        raise FileNotFoundError(f"no stored table {name!r}; there are: {', '.join(there) or 'none'}")
    settings = json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    lines = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    rows: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for method in settings["comparison"]["methods"]:  # in this order, not in that of their ends
        rows[method] = {}
        for seed in sorted({int(line["seed"]) for line in lines if line["method"] == method}):
            own = [line for line in lines if line["method"] == method and int(line["seed"]) == seed]
            columns = [key for key in own[0] if key not in ("method", "seed")]
            rows[method][seed] = {key: np.array([float(line[key] or "nan") for line in own]) for key in columns}
    return Evidence(name, rows, settings)


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
