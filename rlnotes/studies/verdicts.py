"""What may be said of a difference: one interval, one rule, and the word beside the number."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

BETTER, WORSE, NOT_TOLD = "better", "worse", "not told"


class Interval(NamedTuple):
    """A difference, and its 95 % interval. ``even`` is the number that says: no difference."""

    value: float
    low: float
    high: float
    even = 0.0

    def __str__(self):
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


class Level(Interval):
    """How high something is, which is neither better nor worse than anything."""

    __slots__ = ()
    even = float("nan")

    def __str__(self):
        return f"{self.value:6.3f} [{self.low:6.3f}, {self.high:6.3f}]"


class Chance(Level):
    """The chance that one is above the other."""

    __slots__ = ()
    even = 0.5


@dataclass(frozen=True)
class Verdict:
    """A word, and the difference that it is about. A ``margin`` is stated before the runs are made, or not at all."""

    difference: Interval
    margin: float | None = None

    @property
    def word(self) -> str:
        """*better* or *worse* if the interval misses "no difference"; if it lies within the margin, that; else *not
        told*, which does not say that the two are equal.
        """
        if self.margin is not None and self._far < self.margin:
            return f"within {self.margin:g} of each other"
        return BETTER if self.difference.low > self.difference.even else WORSE if self._below else NOT_TOLD

    @property
    def _below(self) -> bool:
        return self.difference.high < self.difference.even

    @property
    def _far(self) -> float:
        return max(abs(end - self.difference.even) for end in self.difference[1:])

    def __str__(self):
        return f"{self.difference}  {self.word}"


def paired_difference(
    ours: np.ndarray, theirs: np.ndarray, clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """Mean of ours less theirs, seed by seed, with Student's interval. Shapes (runs,).

    ``clusters`` says for each run which start it had: runs of one start are no independent runs, so that the mean of
    each start is what is counted. Raises ``ValueError`` for unequal shapes, and for less than two runs, or clusters.
    """
    if np.shape(ours) != np.shape(theirs):
        raise ValueError(f"ours has shape {np.shape(ours)} and theirs {np.shape(theirs)}; pair them seed by seed")
    gaps = np.subtract(ours, theirs, dtype=float)
    if clusters is not None:
        names = np.array([hash(one) for one in clusters])
        gaps = np.array([gaps[names == name].mean() for name in dict.fromkeys(names)])
    if len(gaps) < 2:
        raise ValueError(f"{len(gaps)} pair(s) have no interval; make at least 2")
    half = stats.t.isf((1 - level) / 2, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5
    return Interval(*map(float, (gaps.mean(), gaps.mean() - half, gaps.mean() + half)))


def judge(
    ours: np.ndarray,
    theirs: np.ndarray,
    margin: float | None = None,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Verdict:
    """The course's one verdict on two methods: of their :func:`paired_difference`, beside the ``margin``."""
    return Verdict(paired_difference(ours, theirs, clusters, level), margin)


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
