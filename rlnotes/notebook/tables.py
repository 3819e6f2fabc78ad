"""Tables that a page shows: rendered, with numbers that can be compared down a column."""

import html
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

DIGITS = 3  # significant, of the largest number of a column
MISSING = "–"


class Table:
    """What :func:`table` returns: HTML for JupyterLab and the book, aligned text elsewhere."""

    def __init__(self, caption: str, names: Sequence[str], columns: Sequence[Sequence[str]], right: Sequence[bool]):
        self.caption, self.names, self.columns, self.right = caption, names, columns, right

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text()}

    def html(self) -> str:
        """One table, in a box that scrolls sideways by itself where the page is narrow."""
        sides = ["right" if right else "left" for right in self.right]

        def row(tag: str, cells: Sequence[str], scope: str = "") -> str:
            made = (
                f'<{tag}{scope} style="text-align: {side}">{html.escape(cell)}</{tag}>'
                for side, cell in zip(sides, cells, strict=True)
            )
            return f"<tr>{''.join(made)}</tr>"

        head = row("th", self.names, ' scope="col"')
        caption = f'<caption style="text-align: left">{html.escape(self.caption)}</caption>' if self.caption else ""
        body = "\n".join(row("td", cells) for cells in zip(*self.columns, strict=True))
        return (
            f'<div class="rlnotes-table" tabindex="0" style="overflow-x: auto"><table>{caption}\n'
            f"<thead>{head}</thead>\n<tbody>{body}</tbody></table></div>"
        )

    def text(self) -> str:
        """The same for a terminal."""
        columns = [[name, *cells] for name, cells in zip(self.names, self.columns, strict=True)]
        widths = [max(map(len, cells)) for cells in columns]
        lines = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, self.right, strict=True)
            ).rstrip()
            for cells in zip(*columns, strict=True)
        ]
        return "\n".join([self.caption, *lines] if self.caption else lines)


def table(rows: Sequence[Mapping[str, Any]], caption: str = "", **decimals: int) -> Table:
    """The table of ``rows``, each a cell's content by the name of its column; a row may lack some.

    Numbers stand to the right. Those of a column have the same decimals: three digits for the largest one, or what
    ``decimals`` says for the column of this name. Raises ``ValueError`` if there is no row, or no such column, and
    ``TypeError`` for an array or a tensor in a cell.

    >>> print(table([{"arm": "clip", "KL": 0.0123, "steps": 8}, {"arm": "unclipped", "KL": 0.4}]).text())
    arm           KL  steps
    clip       0.012      8
    unclipped  0.400      –
    """
    if not rows:
        raise ValueError("rows is empty: a table needs at least one row")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if unknown := sorted(set(decimals) - set(names)):
        raise ValueError(f"decimals names {', '.join(unknown)}; the columns are {', '.join(names)}")
    values = [[row.get(name) for row in rows] for name in names]
    for name, column in zip(names, values, strict=True):
        for value in column:
            if hasattr(value, "shape") and not isinstance(value, Real):
                raise TypeError(f"column {name!r} holds a {type(value).__name__}; give a number, for example x.item()")
    columns = [_texts(column, decimals.get(name)) for name, column in zip(names, values, strict=True)]
    right = [all(_is_number(value) for value in column if value is not None) for column in values]
    return Table(caption, names, columns, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _texts(column: list[Any], decimals: int | None) -> list[str]:
    """The cells of a column as text."""
    if decimals is None:
        sizes = [abs(float(v)) for v in column if _is_number(v) and math.isfinite(v) and not isinstance(v, Integral)]
        largest = max(sizes, default=0.0)
        decimals = max(0, DIGITS - 1 - math.floor(math.log10(largest))) if largest else 0
    return [_text(value, decimals) for value in column]


def _text(value: Any, decimals: int) -> str:
    if value is None:
        return MISSING
    if not _is_number(value) or isinstance(value, Integral):
        return str(value)
    text = f"{float(value):.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no -0.00
