"""A log that has been read: whose it is, and its metrics by the names of the table."""

from dataclasses import dataclass
from pathlib import Path

from rlnotes.logs.forms import Source
from rlnotes.logs.series import FEWEST, Series, change
from rlnotes.logs.table import meant, table

MOST_NAMES = 1000  # names that no library has, of which a few are told where none is known


@dataclass
class Log:
    """The metrics of one run. ``series`` and ``names`` are by metric of the table; ``library`` wrote the log."""

    source: Source
    library: str
    series: dict[str, Series]
    names: dict[str, str]
    counted: bool = False
    """True if no line says its step, so that the steps are the numbers of the lines"""

    @property
    def steps(self) -> tuple[float, float]:
        """The first and the last."""
        points = [point for series in self.series.values() for point in (series.points[0], series.points[-1])]
        return min(point.first for point in points), max(point.last for point in points)


def load(path: str | Path) -> Log:
    """Read a log, line by line and in bounded memory. Raises ``ValueError`` or ``OSError`` where there is none."""
    source = Source(Path(path))
    found: dict[str, Series] = {}
    unknown: dict[str, None] = {}
    counted = True
    for row in source.rows():
        known = {name: value for name, value in row.values.items() if meant(name)}
        if not known:
            if len(unknown) < MOST_NAMES:
                unknown.update(dict.fromkeys(row.values))
            continue
        counted &= row.step is None
        for name, value in known.items():
            series = found.setdefault(name, Series())
            series.add(series.steps + 1 if row.step is None else row.step, value)
    if not found:
        seen = f"; it has {', '.join([*unknown][:5])}" if unknown else ""
        raise ValueError(
            f"{source.path} has no metric that is known{seen}; known are the logs of "
            f"{', '.join(one.title for one in table().libraries.values())}"
        )
    library = _library(found)
    names = _names(found, library)
    return Log(source, library, {metric: found[name] for metric, name in names.items()}, names, counted)


def _library(found: dict[str, Series]) -> str:
    """The library that explains most names, and the rarer ones first. A name that only fits a pattern decides a tie."""
    votes = dict.fromkeys(table().libraries, 0.0)
    for name in found:
        for library, metric in meant(name).items():
            exact = "*" not in (table().metrics[metric].fits(name, library) or "*")
            votes[library] += (1.0 if exact else 0.01) / len(meant(name))
    return max(votes, key=lambda library: votes[library])


def _names(found: dict[str, Series], library: str) -> dict[str, str]:
    """For each metric of the table the name that it has in the log, the library's preferred one."""
    chosen = {}
    for metric, entry in table().metrics.items():
        for pattern in entry.names.get(library, ()):
            same = [name for name in found if entry.fits(name, library) == pattern]
            own = [name for name in same if meant(name).get(library) == metric]
            if own and metric not in chosen:
                chosen[metric] = min(own, key=lambda name: _change(found[name]))
    return chosen


def _change(series: Series) -> float:
    points = series.finite()
    return change(points) if len(points) >= FEWEST["change"] else 0.0
