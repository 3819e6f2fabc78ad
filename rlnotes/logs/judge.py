"""Which rules hold of a log, which do not, and which cannot be judged: one function evaluates all conditions."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlnotes.logs.log import Log
from rlnotes.logs.series import FEWEST, Point, change, errors, lost, ratio, spikes
from rlnotes.logs.settings import UNKNOWN, Settings
from rlnotes.logs.table import UPDATES, Condition, Level, Rule, table

HALF_DIGIT = 0.0005  # what three decimals do not show


@dataclass(frozen=True)
class Seen:
    """What a condition found: whether it ``holds``, at which ``points``, and the ``values`` that decided."""

    holds: bool
    points: tuple[Point, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A rule that holds. ``first`` and ``last`` are steps, ``seen`` what its conditions found, in their order."""

    rule: Rule
    level: Level
    seen: tuple[Seen, ...]
    first: float | None
    last: float | None

    def at(self, metric: str) -> tuple[Point, ...]:
        """The steps that decided, of the first condition on ``metric``; none if all of them did together."""
        which = next(i for i, one in enumerate(self.rule.all) if one.metric == metric)
        return () if self.rule.all[which].take in _SINGLE else self.seen[which].points


@dataclass(frozen=True)
class Unjudged:
    """A rule that could not be judged, and ``what`` would allow it. ``never``: no setting of the library does."""

    rule: Rule
    what: str
    never: bool


def judge(log: Log, settings: Settings | None = None) -> tuple[list[Finding], list[Unjudged]]:
    """All findings, the most important first, and what could not be judged."""
    findings, unjudged = [], []
    calm = rises(log)
    for rule in table().rules.values():
        if not rule.of(log.library) or not all(applies(one, log.library) for one in rule.all):
            continue
        seen = [evaluate(one, log, settings) for one in rule.all]
        if any(isinstance(one, Seen) and not one.holds for one in seen):
            continue
        if missing := next((one for one in seen if isinstance(one, str)), None):
            unjudged.append(Unjudged(rule, missing, bool(rule.lacks(log.library))))
            continue
        found = tuple(one for one in seen if isinstance(one, Seen))
        points = next((one.points for one in found if one.points), ())
        level: Level = "note" if "note" in (rule.level, rule.rising if calm else "") else "alarm"
        findings.append(
            Finding(rule, level, found, points[0].first if points else None, points[-1].last if points else None)
        )
    findings.sort(key=lambda finding: finding.level == "note")  # alarms first, else the order of the table
    return findings, unjudged


def rises(log: Log) -> bool:
    """True if the reward rises, beyond noise, and has not lost half of it again."""
    points = log.series["reward"].finite() if "reward" in log.series else []
    return len(points) >= FEWEST["change"] and change(points) > 0 and lost(points) < 0.5


def applies(condition: Condition, library: str) -> bool:
    """True if ``library`` has the setting that ``condition`` reads, or can do without."""
    name = condition.setting
    return name in (None, UPDATES) or condition.assumed or library in table().settings[name].options


def evaluate(condition: Condition, log: Log, settings: Settings | None = None) -> Seen | str:
    """What ``condition`` found in ``log``, or in ``settings``; if it cannot be judged, what would allow it."""
    if condition.setting is not None:
        return _of_settings(condition, condition.setting, settings)
    metric = condition.metric or ""
    if metric not in log.series and condition.assumed:
        return Seen(True)
    if metric not in log.series:
        entry = table().metrics[metric]
        only = f" ({entry.only[log.library]})" if log.library in entry.only else ""
        return entry.names.get(log.library, (entry.title,))[0] + only
    if log.source.decimals.get(log.names[metric]) and any(
        0 < abs(one) < HALF_DIGIT or one == 0 for one in condition.bounds().values()
    ):
        return f"{log.names[metric]} with more than three decimals"
    return measured(condition, log.series[metric].points, log.series[metric].windowed(condition.window))


def measured(condition: Condition, points: Sequence[Point], window: Sequence[Point]) -> Seen | str:
    """What ``condition`` finds in the ``points`` of a metric, of which ``window`` are those that it looks at."""
    if condition.take == "broken":
        bad = tuple(point for point in window if point.broken)
        return Seen(bool(bad), bad)
    finite = [point for point in points if point.mean == point.mean]
    if len(finite) < FEWEST[condition.take]:
        return f"at least {FEWEST[condition.take]} steps"
    if condition.take in _SINGLE:
        value = _SINGLE[condition.take](finite)
        return Seen(condition.allows(value), tuple(finite), (value,))
    if condition.take == "spike":
        taken = list(zip(finite, spikes(finite), strict=True))
    else:
        taken = [(point, point.mean) for point in window if point.mean == point.mean]
    hits = [(point, value) for point, value in taken if condition.allows(value)]
    enough = bool(hits) and len(hits) >= condition.share * len(taken)
    return Seen(enough, tuple(point for point, _ in hits), tuple(value for _, value in hits))


_SINGLE = dict(ratio=ratio, change=change, errors=errors, lost=lost)


def _of_settings(condition: Condition, name: str, settings: Settings | None) -> Seen | str:
    if settings is None or not settings.has(name):
        return Seen(True) if condition.assumed else "--config"
    if condition.given is not None:
        return Seen((name in settings.given) == condition.given)
    value = settings.value(name)
    return "the number of updates to a rollout, by --config" if value is UNKNOWN else Seen(condition.allows(value))
