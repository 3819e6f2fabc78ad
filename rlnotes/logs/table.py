"""The table behind ``rlnotes read``, the Monday cards and the settings page: ``rules.toml``, read once."""

import operator
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any
from typing import Literal as L

Take = L["value", "spike", "ratio", "change", "errors", "lost", "broken"]
Window = L["all", "first", "end", "early", "late"]
Level = L["alarm", "note"]
Evidence = L["proved", "measured here", "maintainers say", "folklore"]
UPDATES_TITLE = "updates to a rollout"
UPDATES = "updates"
"""The setting that no library has and :mod:`rlnotes.logs.settings` counts: updates to a rollout."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library whose logs can be read, and the version whose names and defaults the table holds."""

    title: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a log: its names by library, the preferred one first; ``only`` says when that one is logged, and
    ``other`` are names that fit a pattern and mean something else.
    """

    title: str
    unit: str = ""
    names: dict[str, tuple[str, ...]]
    other: tuple[str, ...] = ()
    only: dict[str, str] = field(default_factory=dict)

    def fits(self, name: str, library: str) -> str | None:
        """The name or pattern of ``library`` that a name of a log is or fits; None if it means something else."""
        short = name.removeprefix(PREFIXES.get(library, ""))
        known = self.names.get(library, ())
        if short in known:
            return short
        fit = next((one for one in known if "*" in one and fnmatchcase(short, one)), None)
        return None if any(fnmatchcase(short, one) for one in self.other) else fit


@dataclass(frozen=True, kw_only=True)
class Option:
    """A setting in one library."""

    name: str
    default: Any = None
    trap: str = ""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting by library."""

    title: str
    options: dict[str, Option]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What must hold of a metric, or of a setting; ``rules.toml`` says what the words mean."""

    metric: str | None = None
    setting: str | None = None
    take: Take = "value"
    window: Window = "all"
    share: float = 0.0
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[Any, ...] | None = None
    given: bool | None = None
    assumed: bool = False
    where: bool = False

    def bounds(self) -> dict[str, float]:
        """The bounds that are named."""
        return {name: bound for name in BOUNDS if (bound := getattr(self, name)) is not None}

    def allows(self, value: Any) -> bool:
        """True if ``value`` is on the right side of every bound, and one of those that are named."""
        if self.one_of is not None:
            return value in self.one_of
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and all(BOUNDS[name](value, bound) for name, bound in self.bounds().items())

    def bounds_said(self) -> str:
        """The bounds in words."""
        return " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in self.bounds().items())

    def said(self) -> str:
        """What must hold, in words, without the name of the metric or setting."""
        said = self.bounds_said()
        if self.at_least is not None and self.at_least == self.at_most:
            said = f"{self.at_least:g} within the noise" if self.take == "change" else f"exactly {self.at_least:g}"
        if self.setting is not None:
            said = "given" if self.given else "not given" if self.given is False else said
            values = [str(one) for one in self.one_of or ()]
            return said or f"{'is' if len(values) == 1 else 'one of'} {', '.join(values)}"
        share = {0.0: "at a step", 1.0: "at all steps"}.get(self.share, f"at {self.share:.0%} or more of the steps")
        where = "at the first step" if self.window == "first" else share + WINDOWS[self.window]
        single = self.take in OVERALL
        return " ".join(part for part in (TAKES.get(self.take, ""), said, "" if single else where) if part)


BOUNDS = dict(above=operator.gt, below=operator.lt, at_least=operator.ge, at_most=operator.le)
TAKES: dict[Take, str] = {
    "spike": "over the median of the 20 steps before",
    "ratio": "of the last fifth over that of the first",
    "change": "of the last fifth less that of the first",
    "errors": "of the last fifth less that of the first, in standard errors,",
    "lost": "lost since its best fifth, as a share of the way from worst to best,",
    "broken": "NaN or infinite",
}
OVERALL: tuple[Take, ...] = ("ratio", "change", "errors", "lost")
"""One number of a whole series"""
WINDOWS: dict[Window, str] = {
    "all": "",
    "first": "",
    "end": " of the last fifth",
    "early": " of the first half",
    "late": " of the second half",
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a finding rests on."""

    name: str
    symptom: str
    all: tuple[Condition, ...]
    means: str
    check: tuple[str, ...]
    settings: tuple[str, ...]
    link: str
    evidence: Evidence
    source: str = ""
    worry: str = ""
    level: Level = "alarm"
    rising: Level = "alarm"
    libraries: tuple[str, ...] = ()
    log: dict[str, str] = field(default_factory=dict)

    @property
    def chapter(self) -> str:
        """The notebook that it rests on, such as ``"06_ppo"`` or ``"deeper/06_ppo"``."""
        return self.link.partition("#")[0]

    @property
    def page(self) -> str:
        """The file of that notebook, and the heading."""
        return f"course/{self.chapter}.ipynb#{self.link.partition('#')[2]}"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of its conditions, the first one the main one."""
        return tuple(dict.fromkeys(one.metric for one in self.all if one.metric is not None))

    def lacks(self, library: str) -> list[Metric]:
        """What it needs and ``library`` does not log."""
        needed = dict.fromkeys(one.metric for one in self.all if one.metric is not None and not one.assumed)
        return [entry for one in needed if library not in (entry := table().metrics[one]).names]

    def of(self, library: str) -> bool:
        """True if it is meant for the logs of ``library``."""
        return not self.libraries or library in self.libraries


@dataclass(frozen=True, kw_only=True)
class Table:
    """All of it, each part by name."""

    libraries: dict[str, Library]
    metrics: dict[str, Metric]
    settings: dict[str, Setting]
    rules: dict[str, Rule]
    cards: dict[str, tuple[str, ...]]


@cache
def table() -> Table:
    """The table."""
    raw = tomllib.loads((files("rlnotes.logs") / "rules.toml").read_text(encoding="utf-8"))
    libraries = {name: Library(**entry) for name, entry in raw["libraries"].items()}

    def split(entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What an entry says of each library, and the rest."""
        own = {key: value for key, value in entry.items() if key in libraries}
        return own, {key: value for key, value in entry.items() if key not in libraries}

    metrics, settings = {}, {}
    for name, entry in raw["metrics"].items():
        own, rest = split(entry)
        metrics[name] = Metric(names={library: tuple(names) for library, names in own.items()}, **_tuples(rest))
    for name, entry in raw["settings"].items():
        own, rest = split(entry)
        settings[name] = Setting(options={library: Option(**option) for library, option in own.items()}, **rest)
    rules = {}
    for entry in raw["rules"]:
        conditions = tuple(Condition(**_tuples(one)) for one in entry.pop("all"))
        rules[entry["name"]] = Rule(all=conditions, **_tuples(entry))
    return Table(libraries=libraries, metrics=metrics, settings=settings, rules=rules, cards=_tuples(raw["cards"]))


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


PREFIXES = dict(trl="train/", openrlhf="train/", rlnotes="rl/")
"""What Weights & Biases and TensorBoard put before a library's names."""


@cache
def meant(name: str) -> dict[str, str]:
    """What a name of a log may mean: the metric, by library. Empty if no library has it.

    >>> meant("actor/pg_clipfrac"), meant("nothing")
    ({'verl': 'clip_fraction'}, {})
    """
    found = {}
    for metric, entry in table().metrics.items():
        for library in entry.names:
            if entry.fits(name, library):
                found.setdefault(library, metric)
    return found
