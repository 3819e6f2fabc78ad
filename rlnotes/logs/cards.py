"""What is printed from the table: a chapter's Monday card, and the settings page of the book.

``python -m rlnotes.logs.cards course/book/settings.md`` writes the page.
"""

import sys
from pathlib import Path
from typing import Any

from rlnotes.files import replace_text
from rlnotes.logs.table import UPDATES, UPDATES_TITLE, Condition, Metric, Option, Rule, Setting, table

ON_CARDS = ("trl", "verl")
SETTINGS = 2  # of a rule, on a card: the first ones
ON_PAGE = ("trl", "verl", "openrlhf", "slime")


class Card(str):
    """Markdown that a notebook and the book show as what it says."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/markdown": str(self), "text/plain": str(self)}


def card(chapter: str, *names: str) -> Card:
    """The Monday card of a chapter, such as ``"06_ppo"``: a box with a row for each rule.

    ``names`` are those of the rules that are wanted, in their order. Without them it is those that the table of rules
    puts on the chapter's card, or else all that rest on the chapter. Raises ``ValueError`` for a rule that does not
    exist, and if there is none.
    """
    rules = table().rules
    names = names or table().cards.get(chapter) or tuple(n for n, one in rules.items() if one.chapter == chapter)
    if unknown := sorted({*names} - {*rules}):
        raise ValueError(f"names has {unknown[0]!r}, which is no rule; the rules are {', '.join(rules)}")
    if not names:
        chapters = ", ".join(sorted({one.chapter for one in rules.values()}))
        raise ValueError(f"chapter is {chapter!r}, and no rule rests on it; there are cards of {chapters}")
    head = ["you see", "log (TRL / verl)", "worry at", "set", "rests on"]
    trl, verl = (table().libraries[name] for name in ON_CARDS)
    small = f"<small>{trl.title} {trl.version} as installed; {verl.title} {verl.version} as read, not run.</small>"
    lines = ["**Monday card**", "", *rows(head, [_cells(rules[name], chapter) for name in names]), "", small]
    return Card("\n".join(f"> {line}".rstrip() for line in lines))


def _cells(rule: Rule, chapter: str) -> list[str]:
    """A rule as the five cells of the card of ``chapter``."""
    names = _by_library({lib: _logged(rule, lib) for lib in ON_CARDS})
    worry = rule.worry or "; ".join(_worry(one, alone=len(rule.metrics) < 2) for one in rule.all)
    settings = [table().settings[name] for name in rule.settings[:SETTINGS]]
    options = _by_library({lib: [_with_default(setting, lib) for setting in settings] for lib in ON_CARDS})
    place = rule.link.partition("#")[2]
    page = "" if rule.chapter == chapter else f"{rule.chapter}.ipynb"
    return [
        rule.symptom,
        names if rule.metrics else "the settings",
        worry,
        "<br>".join(["; then ".join(rule.check), *[options] * bool(settings)]),
        f"[{place.removesuffix('-*').replace('-', ' ')}]({page}#{place})",
    ]


def _logged(rule: Rule, library: str) -> list[str]:
    """What ``library`` calls the numbers to compare, and where the rule looks; nothing if it has none of them. The
    rule's own words for a library go first.
    """
    if library in rule.log:
        return [rule.log[library]]
    looks = [one for one in rule.all if one.where and one.metric is not None]
    compared = [name for name in rule.metrics if name not in {one.metric for one in looks}]
    names = [_names(table().metrics[name], library, "", 1) for name in compared]
    gates = [(_names(table().metrics[one.metric or ""], library, "", 1), one.bounds_said()) for one in looks]
    where = [f"where {name} is {bounds}" for name, bounds in gates if name]
    return names + where if any(names) else []


def _by_library(said: dict[str, list[str]]) -> str:
    """A line for each library: what it calls some things, or that it has none of them."""
    lines = {table().libraries[name].title: ", ".join(filter(None, words)) for name, words in said.items()}
    return "<br>".join(f"{title}: {words or 'none'}" for title, words in lines.items())


def _with_default(setting: Setting, library: str) -> str:
    """The name of a setting, and its default in words, so that nobody takes it for advice; "" if there is none."""
    option = setting.options.get(library)
    if option is None:
        return ""
    name = f"`{option.name.removeprefix('actor_rollout_ref.')}`"
    return name if option.default is None else f"{name} (default {option.default})"


def _worry(condition: Condition, alone: bool) -> str:
    """A condition in words; the one metric of a card's row is not said again."""
    said = condition.said()
    if condition.metric is not None:
        return said if alone else f"{table().metrics[condition.metric].title} {said}"
    name = condition.setting or ""
    return f"{UPDATES_TITLE if name == UPDATES else table().settings[name].title}: {said}"


def settings_page() -> str:
    """The page of settings, their defaults and traps, and of metrics, by library."""
    libraries = [table().libraries[name] for name in ON_PAGE]
    head = [f"{one.title} {one.version}" for one in libraries]
    settings = table().settings.values()
    traps = [
        [f"`{option.name}`", table().libraries[name].title, option.trap]
        for setting in settings
        for name in ON_PAGE
        if (option := setting.options.get(name)) is not None and option.trap
    ]
    return "\n".join(
        [
            "# Settings and metrics by library",
            "",
            "One idea has a name of its own in each library. This page is printed from the table by which",
            "`rlnotes read` judges logs. Names and defaults are compared with the files of each library at the version",
            "shown.",
            "",
            "## Settings, with their defaults",
            "",
            *rows(["what", *head], [[one.title, *(_option(one, name, "–") for name in ON_PAGE)] for one in settings]),
            "",
            "## What surprises",
            "",
            *rows(["setting", "in", "it"], traps),
            "",
            "## Metrics in a log",
            "",
            *rows(
                ["what", *head],
                [[one.title, *(_names(one, name, "–") for name in ON_PAGE)] for one in table().metrics.values()],
            ),
            "",
        ]
    )


def rows(head: list[str], body: list[list[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in (head, *body)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _names(metric: Metric, library: str, none: str, most: int | None = None) -> str:
    names = [f"`{name}`" for name in metric.names.get(library, ())[:most]]
    if library in metric.only:
        names[0] += f" ({metric.only[library]})"
    return ", ".join(names) or none


def _option(setting: Setting, library: str, none: str) -> str:
    option: Option | None = setting.options.get(library)
    if option is None:
        return none
    return f"`{option.name}`" if option.default is None else f"`{option.name}={option.default}`"


if __name__ == "__main__":
    replace_text(Path(sys.argv[1]), settings_page())
