"""The form of a page of the second edition: what it measures, and what it must keep.

``python -m tests.course.form course/06_ppo.ipynb`` prints words, cells, boxes and minutes, then every fault. A page
belongs to the second edition if its metadata say ``"rlnotes": {"edition": 2}``. One in a folder ``deeper`` is a deeper
page, and the chapter of the same name stands one folder up.
"""

import ast
import builtins
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from tests.course.symbols import SymbolTable

CORE = "*"  # a piece of a heading: this section is on the core path. ASCII, or JupyterLab follows no link to it
WORDS_A_MINUTE, MINUTES_A_CELL = 130, 0.5
WORDS, CELLS, BOXES, MINUTES, EXERCISE_MINUTES, CORE_MINUTES = 4500, 65, 6, 75, 25, 40
LINES = 20  # of a cell that is not folded
PROMISES, FIRST_CELLS, OPENING_WORDS = 3, 10, 200
KINDS = ("predict", "log", "repair", "paper", "formula")  # of an exercise; at most one copies a formula
TAGS = {"nbval-check-output", "hide-input", "run", "main", "quiz", *KINDS}
CARD = ["you see", "log (TRL / verl)", "worry at", "set", "rests on"]
SHOWS = {"print", "show", "table", "display", "explorer", "skip_without"}
COMPUTED_IN = {"print", "table", "display"}  # of those, where both sides of a theorem may be computed in place

STATEMENT = re.compile(
    r"^> \*\*(?:Definition|Theorem|Lemma|Corollary|Claim|Fact|Proposition|Observation|Algorithm) (\d+\.\d+)",
    re.MULTILINE,
)
MONDAY = "> **Monday card**"
FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
FENCE = re.compile(r"```.*?```", re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
EXERCISE = re.compile(r"^### (?:\d\d|NN)\.\d+ .*?(\d+) minutes?", re.MULTILINE)
TIME = re.compile(r"[Cc]ore path \(\\\*\) (?P<core>\d+) minutes, everything (?P<all>\d+)")
MARGIN = re.compile(r"^> \*(?:Deeper|Note)\.\*.*$", re.MULTILINE)
LIVE = re.compile(r"minimum \S+ at .*maximum \S+ at ")


@dataclass(frozen=True)
class Cell:
    """A cell, with what its place on the page says of it."""

    number: int
    raw: dict[str, Any]
    core: bool

    @property
    def source(self) -> str:
        """Its text."""
        return "".join(self.raw["source"])

    @property
    def is_code(self) -> bool:
        """True for code, False for text."""
        return self.raw["cell_type"] == "code"

    @property
    def tags(self) -> set[str]:
        """Its tags."""
        return set(self.raw["metadata"].get("tags", []))

    @property
    def folded(self) -> bool:
        """True if a reader sees it only after a click."""
        if self.is_code:
            return "hide-input" in self.tags
        return not FOLD.sub("", self.source).strip()

    @property
    def counts(self) -> bool:
        """True unless it is folded, a quiz, or the check of an exercise."""
        asks = self.is_code and bool(re.search(r"^(?:check|quiz)\(", self.source, re.MULTILINE))
        return not self.folded and not asks

    @property
    def printed(self) -> str:
        """The Markdown that a cell prints, such as a card."""
        found = [output.get("data", {}).get("text/markdown", "") for output in self.raw.get("outputs", ())]
        return "\n".join("".join(text) for text in found)

    @property
    def words(self) -> int:
        """Words that are read: pieces with a letter or digit. What is folded or code is none."""
        text = FENCE.sub(" ", FOLD.sub(" ", self.printed if self.is_code else self.source))
        return sum(any(map(str.isalnum, piece)) for piece in re.sub(r"</?[a-zA-Z][^>]*>", " ", text).split())

    @property
    def headings(self) -> list[str]:
        """Its headings."""
        return [] if self.is_code else [text for _, text in HEADING.findall(FENCE.sub("", self.source))]

    @property
    def exercises(self) -> list[int]:
        """The minutes of each exercise that begins here."""
        return [] if self.is_code else [int(minutes) for minutes in EXERCISE.findall(self.source)]

    @property
    def alternatives(self) -> list[str]:
        """The alternative texts of its pictures."""
        found = [output.get("metadata", {}).get("image/png", {}) for output in self.raw.get("outputs", ())]
        return [picture["alt"] for picture in found if "alt" in picture]

    def __str__(self) -> str:
        return f"cell {self.number}"


@dataclass(frozen=True)
class Page:
    """A notebook of the course."""

    path: Path
    notebook: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Page":
        """The page at ``path``."""
        return cls(path, json.loads(path.read_text(encoding="utf-8")))

    @property
    def is_second_edition(self) -> bool:
        """What its metadata say."""
        return self.notebook["metadata"].get("rlnotes", {}).get("edition") == 2

    @property
    def is_deeper(self) -> bool:
        """True for a page with what a chapter has no room for."""
        return self.path.parent.name == "deeper"

    @property
    def partner(self) -> Path:
        """The deeper page of a chapter, the chapter of a deeper page."""
        folder = self.path.parent.parent if self.is_deeper else self.path.parent / "deeper"
        return folder / self.path.name

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells. A section is on the core path if its heading says so, and so is all before the first section."""
        found, core = [], True
        for number, raw in enumerate(self.notebook["cells"]):
            cell = Cell(number, raw, core)
            if sections := [text for text in cell.headings if not cell.source.startswith(f"# {text}")]:
                core = is_core(sections[-1])
            found.append(Cell(number, raw, core))
        return found

    @property
    def opening(self) -> list[Cell]:
        """The cells above the first section."""
        return list(takewhile(lambda cell: not re.search(r"^## ", cell.source, re.MULTILINE), self.cells))

    @cached_property
    def text(self) -> str:
        """All its text, without what is folded, and with the Markdown that cells print."""
        parts = (cell.printed if cell.is_code else FENCE.sub("", FOLD.sub("", cell.source)) for cell in self.cells)
        return "\n\n".join(filter(None, parts))

    @property
    def boxes(self) -> list[str]:
        """The numbers of its definitions, theorems, facts and the like."""
        return STATEMENT.findall("\n".join(cell.source for cell in self.cells if not cell.is_code))

    def minutes(self, core: bool = False) -> int:
        """Honest minutes to read and solve all of it, or its core path: the rule of the course, rounded up."""
        cells = [cell for cell in self.cells if cell.core or not core]
        words = sum(cell.words for cell in cells)
        code = sum(cell.is_code and cell.counts for cell in cells)
        solving = sum(sum(cell.exercises) for cell in cells)
        return math.ceil(round(words / WORDS_A_MINUTE + code * MINUTES_A_CELL + solving, 6))

    def find(self, tag: str) -> list[Cell]:
        """The cells with this tag."""
        return [cell for cell in self.cells if tag in cell.tags]

    def under(self, heading: str) -> str:
        """The text below a heading of the second level, up to the next."""
        found = re.search(rf"^## {heading}[ {CORE}]*$(.*?)(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)
        return found[1] if found else ""

    def symbol_table(self) -> SymbolTable:
        """The symbols of the course that the page belongs to."""
        for folder in self.path.resolve().parents:
            if (path := folder / "book" / "symbols.csv").is_file():
                return SymbolTable(path)
        raise FileNotFoundError(f"no book/symbols.csv above {self.path}: the page must stand in the course's folder")


def is_core(heading: str) -> bool:
    """Whether a heading has the mark of the core path."""
    return CORE in heading.split()


def rows_of(markdown: str) -> list[list[str]]:
    """The cells of the first table in a text, in a block quote or not: its head, and then its body."""
    lines = [line.lstrip("> ").strip() for line in markdown.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return found[:1] + found[2:]


# --- Rules. Each gives a sentence for every fault of a page.

Rule = Callable[[Page], Iterator[str]]


def opening(page: Page) -> Iterator[str]:
    """Above the first section: question, picture, at most three promises, on one screen."""
    first = page.opening
    text = "\n".join(cell.source for cell in first if not cell.is_code)
    if not re.match(r"# \S+ · .+\n+> ", text):
        yield 'begin with "# NN · Title" and the question in a block quote'
    if not any(cell.alternatives for cell in first):
        yield "no picture above the first section"
    if not 1 <= (kept := len(promises(page))) <= PROMISES:
        yield f'{kept} promises, numbered, below "After this page you can"; 1 to {PROMISES} belong there'
    if (words := sum(cell.words for cell in first)) > OPENING_WORDS:
        yield f"{words} words above the first section do not fit on one screen; {OPENING_WORDS} do"


def promises(page: Page) -> list[str]:
    """The promises of the opening."""
    found = re.search(
        r"\*\*After this page you can\*\*\s+((?:^\d\. .*\n(?:^ +.*\n)*)+)", page.text + "\n", re.MULTILINE
    )
    return re.findall(r"^\d\. ", found[1], re.MULTILINE) if found else []


def honest_time(page: Page) -> Iterator[str]:
    """The page states the minutes that readers took, and at least the computed ones, which it states unread."""
    stated, true = TIME.search(page.text), (page.minutes(core=True), page.minutes())
    sentence = f"core path (\\{CORE}) {true[0]} minutes, everything {true[1]}"
    if stated is None:
        yield f'the opening says no time; write "{sentence}"'
    elif int(stated["core"]) < true[0] or int(stated["all"]) < true[1]:
        yield f'the opening says {stated[0]!r}, less than is computed; write "{sentence}", or what readers took'
    if true[0] > CORE_MINUTES:
        yield f"the core path takes {true[0]} minutes; {CORE_MINUTES} at most"
    limit = 20 if page.path.name.startswith("00_") else MINUTES
    if true[1] > limit:
        yield f"the page takes {true[1]} minutes; {limit} at most"


def size(page: Page) -> Iterator[str]:
    """Words, cells, boxes."""
    words, cells = sum(cell.words for cell in page.cells), sum(cell.counts for cell in page.cells)
    for number, most, name in ((words, WORDS, "words"), (cells, CELLS, "cells"), (len(page.boxes), BOXES, "boxes")):
        if number > most:
            yield f"{number} {name}; {most} at most"


def core_path(page: Page) -> Iterator[str]:
    """Some sections are marked, and some are not."""
    marks = {is_core(text) for cell in page.cells[len(page.opening) :] for text in cell.headings}
    if marks != {True, False}:
        yield f"mark the headings on the core path with {CORE}, and only them"


def boxes(page: Page) -> Iterator[str]:
    """The chapter and its deeper page have each number once, and none is left out; a page has them in their order. So a
    statement that other pages cite keeps its number if it goes deeper. Below each box stands its source, in small.
    """
    there = Page.read(page.partner).boxes if page.partner.exists() else []
    numbers = [int(number.split(".")[1]) for number in page.boxes]
    both = sorted([*numbers, *(int(number.split(".")[1]) for number in there)])
    for place, number in enumerate(both, 1):
        if number != place and number in numbers:
            box = page.boxes[numbers.index(number)]
            yield f"box {box} is the {place}. of the chapter and its deeper page"
    for before, after in pairwise(numbers):
        if after < before:
            yield f"box {after} comes after box {before}; a page has them in their order"
    for cell in page.cells:
        for quote in re.findall(r"(?:^>.*\n?)+", cell.source, re.MULTILINE):
            if (box := STATEMENT.match(quote)) and not quote.strip().endswith("</small>"):
                yield f"{cell}: the last line of box {box[1]} must say its source: > <small>Source ...</small>"


def run_first(page: Page) -> Iterator[str]:
    """The failing run or the loop comes early, and the set-up is folded before it."""
    code = [cell for cell in page.cells if cell.is_code]
    if not any(cell.number < FIRST_CELLS and cell.is_code and not cell.folded for cell in page.find("run")):
        yield f'no open cell with the tag "run" within the first {FIRST_CELLS} cells'
    if not (code and code[0].folded):
        yield "the first code cell, the set-up, is not folded"


def folding(page: Page) -> Iterator[str]:
    """Folded in JupyterLab and in the book, or in neither."""
    for cell in page.cells:
        hidden = cell.raw["metadata"].get("jupyter", {}).get("source_hidden", False)
        if cell.is_code and hidden != ("hide-input" in cell.tags):
            yield f'{cell} has only one of the tag "hide-input" and the metadata jupyter.source_hidden'


def lesson_only(page: Page) -> Iterator[str]:
    """What is open is the lesson: no imports, nothing that only prints or draws, no long cell."""
    for cell in page.cells:
        if not cell.is_code or not cell.counts:
            continue
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", cell.source))
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree)):
            yield f"{cell} imports; imports stand in a folded cell"
        elif _only_shows(tree.body, set()):
            yield f"{cell} only prints or draws; fold it"
        if (lines := sum(bool(line.strip()) for line in cell.source.splitlines())) > LINES:
            yield f"{cell} has {lines} lines; {LINES} at most are open"


def _only_shows(body: list[ast.stmt], drawn: set[str]) -> bool:
    """Whether all of ``body`` prints, shows, or draws on figures, whose names are ``drawn``."""
    return all(_shows(statement, drawn) for statement in body)


def _shows(statement: ast.stmt, drawn: set[str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _root(call) in SHOWS | drawn and not _computes(call)
        case ast.Assign(targets=[target], value=ast.Call() as call) if _root(call) in {"new_figure", *drawn}:
            drawn |= _names(target)
            return True
        case ast.For(target=target, iter=over, body=inner):
            if _names(over) & drawn:
                drawn |= _names(target)
            return _only_shows(inner, drawn)
    return False


def _computes(call: ast.Call) -> bool:
    """Whether what a ``print`` or a ``table`` shows is computed in it, by functions that are no built-in ones."""
    inner = [
        node.func for part in (*call.args, *call.keywords) for node in ast.walk(part) if isinstance(node, ast.Call)
    ]
    called = {function.id for function in inner if isinstance(function, ast.Name)}
    return _root(call) in COMPUTED_IN and bool(called - set(dir(builtins)))


def _root(node: ast.AST) -> str:
    """The name that a call or an attribute begins with."""
    while not isinstance(node, ast.Name):
        below = getattr(node, "func", None) or getattr(node, "value", None)
        if below is None:
            return ""
        node = below
    return node.id


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def rendered_tables(page: Page) -> Iterator[str]:
    """A table is rendered, not printed line by line."""
    for cell in page.cells:
        if not cell.is_code:
            continue
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", cell.source))
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
        inside = [node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Call)]
        printed = "".join("".join(output.get("text", "")) for output in cell.raw["outputs"])
        columns = [len(re.split(r" {2,}|\t", line.strip())) for line in printed.splitlines()]
        if any(_root(call) == "print" for call in inside):
            yield f"{cell} prints in a loop; show a table(...)"
        elif any(a >= 3 and a == b for a, b in pairwise(columns)):
            yield f"{cell} prints columns; show a table(...)"


def monday(page: Page) -> Iterator[str]:
    """The card is the last box before the summary, and has its five columns."""
    cards = [cell for cell in page.cells if MONDAY in (cell.printed if cell.is_code else cell.source)]
    if len(cards) != 1:
        yield f'{len(cards)} boxes begin with "{MONDAY}"; there is one on each page'
        return
    (card,) = cards
    after = [cell for cell in page.cells if cell.number > card.number]
    if not any("## Summary" in cell.source for cell in after) or any(STATEMENT.search(cell.source) for cell in after):
        yield "the Monday card is not the last box before the summary"
    if not (page.cells[card.number - 1] if card.is_code else card).headings:
        yield "the Monday card needs a heading above it, ## On Monday, or it stands in the frame of an exercise"
    head, *body = rows_of((card.source + card.printed).split(MONDAY)[1]) or [[]]
    if head != CARD:
        yield f"the Monday card's columns are {head}; they must be {CARD}"
    elif not body or not all(len(row) == len(CARD) and all(row) for row in body):
        yield "the Monday card has an empty cell or no row"
    elif without := [row[0] for row in body if "](" not in row[-1]]:
        yield f"the Monday card links to no cell or table for: {', '.join(without)}"


def links_inside(page: Page) -> Iterator[str]:
    """A link to a place of the page leads to one of its headings, by JupyterLab's rule: spaces become hyphens."""
    texts = [re.sub(r"(?<=\S)\*|\*(?=\S)|[`$]", "", text) for cell in page.cells for text in cell.headings]
    for target in re.findall(r"\]\(#([^)]+)\)", page.text):
        if target not in {text.replace(" ", "-") for text in texts}:
            yield f"#{target} is no heading of this page"
        elif not target.isascii():
            yield f"#{target} has a letter beyond ASCII, and JupyterLab does not follow it"


def summary(page: Page) -> Iterator[str]:
    """As many rows as promises."""
    rows, kept = rows_of(page.under("Summary"))[1:], promises(page)
    if len(rows) != len(kept) or not rows:
        yield f"the summary has {len(rows)} rows for {len(kept)} promises"


def deeper(page: Page) -> Iterator[str]:
    """The deeper page exists, and each leads to the other."""
    if not page.partner.exists():
        yield f"{page.partner.name} has no page in {page.partner.parent.name or '.'}/"
    elif page.is_deeper:
        if f"](../{page.path.name}" not in page.text:
            yield f"no link to the chapter, ../{page.path.name}"
    elif not any(f"](deeper/{page.path.name}" in note for note in MARGIN.findall(page.text)):
        yield f'no margin note "> *Deeper.* ..." with a link to deeper/{page.path.name}'


def exercises(page: Page) -> Iterator[str]:
    """Five or six, of all kinds, within the time."""
    asked = [cell for cell in page.cells if cell.exercises]
    number, minutes = sum(len(cell.exercises) for cell in asked), sum(sum(cell.exercises) for cell in asked)
    if page.path.name.startswith("00_"):
        if number != 3:
            yield f"{number} exercises; this page has 3"
        return
    if number not in (5, 6):
        yield f"{number} exercises; a page has five or six"
    if minutes > EXERCISE_MINUTES:
        yield f"the exercises take {minutes} minutes; {EXERCISE_MINUTES} at most"
    for cell in asked:
        if len(cell.exercises) != 1 or len(cell.tags & set(KINDS)) != 1:
            yield f"{cell} must hold one exercise and one tag of {', '.join(KINDS)}"
    for kind in KINDS[:-1]:
        if not any(kind in cell.tags for cell in asked):
            yield f'no exercise has the tag "{kind}"'
    if sum("formula" in cell.tags for cell in asked) > 1:
        yield "more than one exercise copies a formula"


def slider(page: Page) -> Iterator[str]:
    """The main picture can be moved."""
    if not any(re.search(r"\bexplorer\(", cell.source) for cell in page.find("main")):
        yield 'no cell with the tag "main" calls explorer(...)'


def alternatives(page: Page) -> Iterator[str]:
    """Alternative texts tell what is to be seen; those of live plots where a curve has its ends and turns."""
    for cell in page.cells:
        for alt in cell.alternatives:
            if not re.search(r"\d", alt):
                yield f"{cell}: the alternative text has no number in it: {alt!r}"
            if "LivePlot(" in cell.source and not LIVE.search(alt):
                yield f"{cell}: the alternative text of a live plot says no minimum and maximum, and where"


def symbols(page: Page) -> Iterator[str]:
    """The folded list has each symbol of the page once, and explains it as the course does."""
    table = page.symbol_table()
    whole = "\n\n".join(cell.source for cell in page.cells if not cell.is_code)
    needed, unknown = table.needed(whole)
    for symbol in unknown:
        yield f"the course has no symbol ${symbol}$; take one of book/symbols.csv, or add a row to it"
    lists = re.findall(r"<details><summary>Symbols</summary>(.*?)</details>", whole, re.DOTALL)
    if len(lists) != 1:
        yield f"{len(lists)} folded lists of symbols; a page has one"
        return
    listed = [tuple(row) for row in rows_of(lists[0])[1:]]
    for entry in needed:
        if listed.count(tuple(entry)) != 1:
            yield f"the list of symbols must have once: | {entry.symbol} | {entry.meaning} |"
    known = {entry.symbol: entry for entry in table.entries}
    for row in listed:
        if known.get(row[0]) != row:
            yield f"the list of symbols explains {row[0]} otherwise than book/symbols.csv"
        elif row not in needed:
            yield f"the list of symbols has {row[0]}, which no formula uses"


def quiz(page: Page) -> Iterator[str]:
    """One quiz."""
    asked = [cell for cell in page.cells if cell.is_code and re.search(r"^quiz\(", cell.source, re.MULTILINE)]
    if len(asked) != 1:
        yield f"{len(asked)} cells call quiz(...); one does on each page"


EVERYWHERE: tuple[Rule, ...] = (
    folding, lesson_only, rendered_tables, alternatives, symbols, boxes, deeper, links_inside,
)  # fmt: skip
CHAPTER: tuple[Rule, ...] = (
    opening, honest_time, size, core_path, run_first, exercises, slider, monday, quiz, summary,
)  # fmt: skip


def rules(page: Page) -> tuple[Rule, ...]:
    """What ``page`` must keep."""
    return EVERYWHERE if page.is_deeper else CHAPTER + EVERYWHERE


def faults(page: Page) -> list[tuple[str, str]]:
    """The name of the rule and the sentence of each fault of ``page``."""
    return [(rule.__name__, fault) for rule in rules(page) for fault in rule(page)]


def measured(page: Page) -> str:
    """What ``page`` measures, in one line."""
    words, cells = sum(cell.words for cell in page.cells), sum(cell.counts for cell in page.cells)
    solving = sum(sum(cell.exercises) for cell in page.cells)
    return (
        f"{words} words, {cells} cells, {len(page.boxes)} boxes; {page.minutes()} minutes, "
        f"of which exercises {solving}; core path {page.minutes(core=True)}"
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Page.read(Path(name))
        print(f"{name}: {measured(page)}")
        for rule, fault in faults(page):
            print(f"  {rule}: {fault}")
