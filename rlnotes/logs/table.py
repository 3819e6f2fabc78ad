"""The table behind ``rlnotes read``, the Monday cards and the settings page: ``rules.toml``, read once."""

import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, get_args, get_type_hints
from typing import Literal as L

Take = L["value", "spike", "ratio", "change", "lost", "broken"]
Window = L["all", "first", "start", "end", "early", "late"]
Level = L["alarm", "note"]
Evidence = L["proved", "measured here", "maintainers say", "folklore"]
UPDATES = "updates"
"""The setting that no library has and :mod:`rlnotes.logs.settings` counts: updates to a rollout."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library whose logs can be read, and the version whose names and defaults the table holds."""

    title: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a log: its names by library, the preferred one first."""

    title: str
    unit: str = ""
    names: dict[str, tuple[str, ...]]


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

    def allows(self, value: Any) -> bool:
        """True if ``value`` is on the right side of every bound, and one of those that are named."""
        if self.one_of is not None and value not in self.one_of:
            return False
        if isinstance(value, bool) or not isinstance(value, int | float):
            return not self.bounds()
        return not (
            (self.above is not None and not value > self.above)
            or (self.below is not None and not value < self.below)
            or (self.at_least is not None and not value >= self.at_least)
            or (self.at_most is not None and not value <= self.at_most)
        )

    def bounds(self) -> dict[str, float]:
        """The bounds that are named."""
        return {name: getattr(self, name) for name in BOUNDS if getattr(self, name) is not None}

    def __str__(self) -> str:
        said = " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in self.bounds().items())
        if self.setting is not None:
            said = "given" if self.given else "not given" if self.given is False else said
            return f"{self.setting} {said or 'one of ' + ', '.join(map(str, self.one_of or ()))}"
        share = {0.0: "at a step", 1.0: "at all steps"}.get(self.share, f"at {self.share:.0%} of the steps")
        single = self.take in ("ratio", "change", "lost")
        how = TAKES.get(self.take, "")
        return " ".join(
            part for part in (self.metric, how, said, "" if single else share + WINDOWS[self.window]) if part
        )


BOUNDS = ("above", "below", "at_least", "at_most")
TAKES: dict[Take, str] = {
    "spike": "over the median of the 20 steps before",
    "ratio": "of the last fifth over that of the first",
    "change": "from the first fifth to the last",
    "lost": "below its best fifth, as a share of the way from worst to best,",
    "broken": "NaN or infinite",
}
WINDOWS: dict[Window, str] = {
    "all": "",
    "first": ", the first",
    "start": " of the first fifth",
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
    level: Level = "alarm"
    rising: Level = "alarm"
    libraries: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The notebook and the heading that it rests on."""
        chapter, _, place = self.link.partition("#")
        return f"course/{chapter}.ipynb#{place}"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of its conditions, the first one the main one."""
        return tuple(dict.fromkeys(one.metric for one in self.all if one.metric is not None))

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


@cache
def table() -> Table:
    """The table. Raises ``ValueError`` that names the entry for a word that ``rules.toml`` may not use."""
    text = (files("rlnotes.logs") / "rules.toml").read_text(encoding="utf-8")
    return parsed(tomllib.loads(text))


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
        for library, known in entry.names.items():
            short = name.removeprefix(PREFIXES.get(library, ""))
            if any(one == short or ("*" in one and fnmatchcase(short, one)) for one in known):
                found.setdefault(library, metric)
    return found


def parsed(raw: dict[str, Any]) -> Table:
    """The :class:`Table` of a TOML document."""
    libraries = {name: _made(Library, f"libraries.{name}", **entry) for name, entry in raw["libraries"].items()}
    metrics, settings, rules = {}, {}, {}
    for name, entry in raw["metrics"].items():
        own = {key: tuple(value) for key, value in entry.items() if key in libraries}
        rest = {key: value for key, value in entry.items() if key not in libraries}
        metrics[name] = _made(Metric, f"metrics.{name}", names=own, **rest)
    for name, entry in raw["settings"].items():
        own = {key: _made(Option, f"settings.{name}.{key}", **entry[key]) for key in entry if key in libraries}
        rest = {key: value for key, value in entry.items() if key not in libraries}
        settings[name] = _made(Setting, f"settings.{name}", options=own, **rest)
    for entry in raw["rules"]:
        where = f"rule {entry.get('name')!r}"
        conditions = tuple(_condition(where, one, metrics, settings) for one in entry.pop("all", ()))
        rule = _made(Rule, where, all=conditions, **entry)
        if not conditions or rule.name in rules:
            raise ValueError(
                f"{where} has no condition, or its name is there twice; give it one, and a name of its own"
            )
        if unknown := [*({*rule.settings} - {*settings}), *({*rule.libraries} - {*libraries})]:
            raise ValueError(f"{where} names {unknown[0]!r}, which is no setting and no library; declare it")
        rules[rule.name] = rule
    return Table(libraries=libraries, metrics=metrics, settings=settings, rules=rules)


def _condition(where: str, entry: dict[str, Any], metrics: dict[str, Any], settings: dict[str, Any]) -> Condition:
    one = _made(Condition, where, **entry)
    if (one.metric is None) == (one.setting is None):
        raise ValueError(f"{where} has a condition on no metric and no setting, or on both; name one")
    if one.metric not in {None, *metrics} or one.setting not in {None, UPDATES, *settings}:
        raise ValueError(f"{where} reads {one.metric or one.setting!r}, which the table lacks; declare it")
    if (one.take != "broken") != bool(one.bounds() or one.one_of or one.given is not None):
        raise ValueError(f"{where} has a condition without a bound, or a bound on what is broken; mend it")
    return one


def _made(kind: type, where: str, **entry: Any) -> Any:
    """An entry of the table as what it is, its words checked."""
    hints = get_type_hints(kind)
    if unknown := {*entry} - {own.name for own in fields(kind)}:
        raise ValueError(f"{where} has {', '.join(sorted(unknown))}, which a {kind.__name__.lower()} has not")
    for key, value in entry.items():
        words = get_args(hints[key])
        if words and all(isinstance(word, str) for word in words) and value not in words:
            raise ValueError(f"{where}: {key} is {value!r}; it must be one of {', '.join(words)}")
    try:
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None
