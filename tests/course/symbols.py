r"""The letters in the formulas of a page, and the table of the course that gives each its one meaning.

A formula is read as a row of symbols: a letter, Greek or Latin, with its accent, and with its index where the table
tells indices apart (``\pi``, ``\pi_k``, ``\pi_{ref}``). Words (``\text{...}``), functions (``\log``) and the counting
letters i, j, k, m, n need no entry. A hat marks an estimate; a hat that has no entry of its own may be left out.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GREEK = re.compile(
    r"(?:var)?(?:alpha|beta|[gG]amma|[dD]elta|epsilon|zeta|eta|[tT]heta|iota|kappa|[lL]ambda|mu|nu|[xX]i|[pP]i|rho|[sS]igma"
    r"|tau|[uU]psilon|[pP]hi|chi|[pP]si|[oO]mega)|ell"
)
COUNTING = set("ijkmn")
ACCENTS = {"hat", "widehat", "bar", "tilde", "mathcal", "mathbb", "mathbf", "boldsymbol"}
PROSE = {
    "text",
    "textbf",
    "textit",
    "mbox",
    "tag",
    "label",
    "begin",
    "end",
    "color",
}  # what is in their braces is no symbol
NAMES = {"mathrm", "operatorname", "mathsf"}
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}_^']|[A-Za-z]|\s+|.", re.DOTALL)
LABEL = re.compile(r"(?:\\(?:text|mathrm)\{)?[A-Za-z]{2,}[\w, ]*\}?|\\(?:max|min|star|ast|top|prime)")
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$([^$\n]+?)(?<!\\)\$", re.DOTALL)


class Symbol(NamedTuple):
    """A letter with its accent, or the name in \\mathrm, and its index ("" for none)."""

    base: str
    subscript: str = ""


class Entry(NamedTuple):
    """A row of the table: how the symbol is written, and its meaning."""

    symbol: str
    meaning: str


def _argument(tokens: list[str], start: int) -> tuple[list[str], int]:
    """The tokens of the group or the one token at ``start``, spaces left out before it, and the place after it."""
    while start < len(tokens) and tokens[start].isspace():
        start += 1
    if start >= len(tokens):
        return [], start
    if tokens[start] != "{":
        return [tokens[start]], start + 1
    depth = 0
    for end in range(start, len(tokens)):
        depth += (tokens[end] == "{") - (tokens[end] == "}")
        if depth == 0:
            return tokens[start + 1 : end], end + 1
    return tokens[start + 1 :], len(tokens)


def _plain(tokens: list[str]) -> str:
    """An index without its braces and commands that only set its letters."""
    return re.sub(r"\\(?:text|mathrm)\b|[{}\s]", "", "".join(tokens))


def symbols(formula: str) -> Iterator[Symbol]:
    r"""The symbols of a formula, those in indices and exponents too, in their order.

    >>> [symbol.base for symbol in symbols(r"\pi_{ref}(y) + \hat A^\mu_t")]
    ['\\pi', 'y', '\\hat A', 't', '\\mu']
    """
    yield from _symbols(TOKEN.findall(formula))


def _symbols(tokens: list[str]) -> Iterator[Symbol]:
    place = 0
    while place < len(tokens):
        command = tokens[place].removeprefix("\\") if tokens[place].startswith("\\") else ""
        base = ""
        if command in PROSE:
            _, place = _argument(tokens, place + 1)
            continue
        if command in NAMES:
            inside, place = _argument(tokens, place + 1)
            base = "".join(inside)
        elif command in ACCENTS:
            inside, place = _argument(tokens, place + 1)
            within = [*_symbols(inside)]
            if len(within) != 1:  # a bar over a whole term
                yield from within
                continue
            base = f"\\{command.removeprefix('wide')} {within[0].base}"
        else:
            if GREEK.fullmatch(command) or (tokens[place].isascii() and tokens[place].isalpha()):
                base = tokens[place]
            place += 1
        if base:
            parts = {"_": [], "^": []}
            while place < len(tokens) and tokens[place] in "_^'":
                if tokens[place] == "'":
                    place += 1
                    continue
                kind = tokens[place]
                parts[kind], place = _argument(tokens, place + 1)
            if base not in COUNTING:
                yield Symbol(base, _plain(parts["_"]))
            for part in parts.values():
                if not LABEL.fullmatch("".join(part).strip()):
                    yield from _symbols(part)


def formulas(markdown: str) -> list[str]:
    """The formulas of a text, those in code and in folded parts left out."""
    text = re.sub(r"<details>.*?</details>|```.*?```|`[^`\n]*`", "", markdown, flags=re.DOTALL)
    return [displayed or inline for displayed, inline in FORMULA.findall(text)]


class SymbolTable:
    """The entries of ``symbols.csv``, by what a formula holds. Raises ``ValueError`` if two explain one symbol."""

    def __init__(self, path: Path):
        with path.open(encoding="utf-8", newline="") as file:
            self.entries = [Entry(row["symbol"], row["meaning"]) for row in csv.DictReader(file)]
        self.heads: dict[Symbol, Entry] = {}
        for entry in self.entries:
            # an entry that begins with a word explains the word, and counts for no formula
            for piece in re.split(r", (?![^(]*\))", entry.symbol.strip("$")) if entry.symbol.startswith("$") else ():
                head = next(symbols(piece))
                if head in self.heads:
                    raise ValueError(f"{path.name} explains {piece} twice, in {self.heads[head]} and in {entry}")
                self.heads[head] = entry

    def entry(self, symbol: Symbol) -> Entry | None:
        """What explains ``symbol``: the entry with its index, with the first part of its index, or without one."""
        first = re.split(r"[+,-]", symbol.subscript)[0]
        for index in (symbol.subscript, first, ""):
            if found := self.heads.get(Symbol(symbol.base, index)):
                return found
        indexed = {head for head in self.heads if head.base == symbol.base}
        if len(indexed) == 1 and not symbol.subscript.isdigit():
            return self.heads[indexed.pop()]
        if symbol.base.startswith("\\hat "):
            return self.entry(Symbol(symbol.base.removeprefix("\\hat "), symbol.subscript))
        return None

    def needed(self, markdown: str) -> tuple[list[Entry], list[str]]:
        """The entries that the formulas of a text need, in the table's order, and symbols that have none."""
        found, missing = set(), []
        for formula in formulas(markdown):
            for symbol in symbols(formula):
                entry = self.entry(symbol)
                if entry is not None:
                    found.add(entry)
                elif len(symbol.base.split()[-1].lstrip("\\")) == 1 or symbol.base.startswith("\\"):
                    missing.append(symbol.base + (f"_{{{symbol.subscript}}}" if symbol.subscript else ""))
        return [entry for entry in self.entries if entry in found], sorted(set(missing))
