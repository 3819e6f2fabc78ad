"""What is printed from the table: a chapter's Monday card, and the settings page of the book.

``python -m rlnotes.logs.cards course/book/settings.md`` writes the page.
"""

import sys
from pathlib import Path

from rlnotes.files import replace_text
from rlnotes.logs.table import UPDATES, Condition, Metric, Option, Rule, Setting, table

ON_CARDS = ("trl", "verl")
ON_PAGE = ("trl", "verl", "openrlhf", "slime")


def card(chapter: str, *names: str) -> str:
    """The Monday card of a chapter, such as ``"06_ppo"``: a box with a row for each rule that rests on it.

    ``names`` are those of the rules that are wanted, in their order; all if none. Raises ``ValueError`` if none rests
    on the chapter, or one that is named does not.
    """
    rules = [rule for rule in table().rules.values() if rule.link.startswith(f"{chapter}#")]
    own = {rule.name: rule for rule in rules}
    if unknown := {*names} - {*own}:
        raise ValueError(f"names has {unknown.pop()!r}; the rules of {chapter} are {', '.join(own)}")
    rules = [own[name] for name in names or own]
    if not rules:
        chapters = sorted({rule.link.partition("#")[0] for rule in table().rules.values()})
        raise ValueError(f"chapter is {chapter!r}, and no rule rests on it; there are cards of {', '.join(chapters)}")
    head = ["you see", "log (TRL / verl)", "worry at", "set", "rests on"]
    trl, verl = (table().libraries[name] for name in ON_CARDS)
    small = f"<small>{trl.title} {trl.version} as installed; {verl.title} {verl.version} as read, not run.</small>"
    lines = ["**Monday card**", "", *rows(head, [_cells(rule) for rule in rules]), "", small]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _cells(rule: Rule) -> list[str]:
    """A rule as the five cells of a card."""
    place = rule.link.partition("#")[2]
    names = [
        " / ".join(_names(table().metrics[metric], library, "none", 1) for library in ON_CARDS)
        for metric in rule.metrics
    ]
    worry = "; ".join(_worry(one, alone=len(rule.metrics) < 2) for one in rule.all)
    options = [
        " / ".join(_option(table().settings[name], library, "none") for library in ON_CARDS) for name in rule.settings
    ]
    settings = f". {', '.join(options).replace('actor_rollout_ref.', '')}" if options else ""
    text = place.removesuffix("-*").replace("-", " ")
    return [
        rule.symptom,
        "; ".join(names) or "the settings",
        worry,
        f"{'; then '.join(rule.check)}{settings}",
        f"[{text}](#{place})",
    ]


def _worry(condition: Condition, alone: bool) -> str:
    """A condition in words; the one metric of a card's row is not said again."""
    name, _, said = str(condition).partition(" ")
    if condition.metric is not None:
        return said if alone else f"{table().metrics[name].title} {said}"
    return f"{'updates to a rollout' if name == UPDATES else table().settings[name].title}: {said}"


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
    return ", ".join(f"`{name}`" for name in metric.names.get(library, ())[:most]) or none


def _option(setting: Setting, library: str, none: str) -> str:
    option: Option | None = setting.options.get(library)
    if option is None:
        return none
    return f"`{option.name}`" if option.default is None else f"`{option.name}={option.default}`"


if __name__ == "__main__":
    replace_text(Path(sys.argv[1]), settings_page())
