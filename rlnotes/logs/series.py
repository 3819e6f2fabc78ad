"""One metric of a log in bounded memory, and the numbers that rules ask of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from rlnotes.logs.table import Take, Window

MOST = 1024
"""points that are kept: beyond it neighbours become one"""
BEFORE = 20  # steps of which a spike is seen
FEWEST: dict[Take, int] = {"value": 1, "broken": 1, "spike": 6, "ratio": 5, "change": 5, "errors": 5, "lost": 5}
SURE = 3.0  # standard errors
TRIMMED = 0.624  # mean of the smallest nine tenths of squares of normal numbers, of variance 1


@dataclass
class Point:
    """One step, or several that are next to each other: the mean, the extremes, and whether one was not finite."""

    first: float
    last: float
    mean: float
    low: float
    high: float
    count: int = 1
    broken: bool = False

    def joined(self, after: "Point") -> "Point":
        """Both as one."""
        count, broken = self.count + after.count, self.broken or after.broken
        if math.isnan(self.mean) or math.isnan(after.mean):
            kept = after if math.isnan(self.mean) else self
            return Point(self.first, after.last, kept.mean, kept.low, kept.high, count, broken)
        mean = (self.mean * self.count + after.mean * after.count) / count
        low = self.low if self.low < after.low else after.low
        high = self.high if self.high > after.high else after.high
        return Point(self.first, after.last, mean, low, high, count, broken)


@dataclass
class Series:
    """A metric over the steps of a run. At most ``MOST`` points are kept, however long the log is."""

    points: list[Point] = field(default_factory=list)
    width: int = 1
    steps: int = 0

    def add(self, step: float, value: float) -> None:
        """The next step."""
        self.steps += 1
        broken = not math.isfinite(value)
        value = math.nan if broken else value
        new = Point(step, step, value, value, value, broken=broken)
        if self.points and self.points[-1].count < self.width:
            self.points[-1] = self.points[-1].joined(new)
            return
        if len(self.points) == MOST:
            self.points = [a.joined(b) for a, b in zip(self.points[::2], self.points[1::2], strict=True)]
            self.width *= 2
        self.points.append(new)

    def finite(self) -> list[Point]:
        """The points with a number."""
        return [point for point in self.points if math.isfinite(point.mean)]

    def windowed(self, window: Window) -> list[Point]:
        """The points of a window, broken ones too."""
        n = len(self.points)
        fifth, half = max(1, n // 5), -(-n // 2)
        slices = dict(
            all=(0, n), first=(0, 1), start=(0, fifth), end=(n - fifth, n), early=(0, half), late=(n - half, n)
        )
        return self.points[slice(*slices[window])]


def noise(values: Sequence[float]) -> float:
    """Standard deviation of a value about a smooth trend with a few jumps: of a normal law, from the bends between
    three neighbours, whose variance is six times its own; the largest tenth is left out.
    """
    bends = sorted((a - 2 * b + c) ** 2 for a, b, c in zip(values, values[1:], values[2:], strict=False))
    few = 1 + 2 / len(values)  # a guess from few values may be too small
    return few * math.sqrt(fmean(bends[: math.ceil(0.9 * len(bends))]) / TRIMMED / 6)


def fifths(points: Sequence[Point]) -> tuple[float, float, float]:
    """Mean of the first fifth, of the last, and the standard error of their difference."""
    values = [point.mean for point in points]
    n = max(1, len(values) // 5)
    return fmean(values[:n]), fmean(values[-n:]), noise(values) * math.sqrt(2 / n)


def change(points: Sequence[Point]) -> float:
    """Last fifth minus first; 0 if it is within the noise."""
    start, end, error = fifths(points)
    return end - start if abs(end - start) > SURE * error else 0.0


def errors(points: Sequence[Point]) -> float:
    """Last fifth minus first, in standard errors: of few points a change within the noise may be large all the same."""
    start, end, error = fifths(points)
    return (end - start) / error if error > 0 else math.copysign(math.inf, end - start) if end != start else 0.0


def ratio(points: Sequence[Point]) -> float:
    """Last fifth over first; 1 if the difference is within the noise, or the sign changes."""
    start, end, _ = fifths(points)
    if not change(points):
        return 1.0
    return end / start if start * end > 0 else math.inf if start == 0 else 1.0


def moving(points: Sequence[Point]) -> list[float]:
    """Mean of each fifth of the points, wherever it begins; the first and the last are those of :func:`fifths`."""
    values = [point.mean for point in points]
    n = max(1, len(values) // 5)
    return [fmean(values[i : i + n]) for i in range(len(values) - n + 1)]


def ends(points: Sequence[Point]) -> tuple[float, float, float]:
    """Mean of the first fifth, of the last, and of the best one."""
    means = moving(points)
    return means[0], means[-1], max(means)


def lost(points: Sequence[Point]) -> float:
    """How far the last fifth is below the best one, as a share of the way from the worst to the best; 0 if it is within
    the noise, of which the best of many fifths has more.
    """
    means, error = moving(points), fifths(points)[2]
    best = max(means)
    return (best - means[-1]) / (best - min(means)) if best - means[-1] > (SURE + 1) * error else 0.0


def spikes(points: Sequence[Point]) -> list[float]:
    """Each point's largest value over the median of the 20 before; 0 for the first five."""
    found = [0.0] * min(5, len(points))
    for i in range(5, len(points)):
        middle = median(abs(point.mean) for point in points[max(0, i - BEFORE) : i])
        found.append(points[i].high / middle if middle > 0 else 0.0)
    return found
