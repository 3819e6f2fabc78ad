"""Two directives that show the course's tables: what became of every equation, and what the symbols mean.

| in a page | shows |
|---|---|
| ``concordance`` and a source, such as 002 | its rows of ``trace.csv``, with links to chapters and code |
| ``verdicts`` | how many rows of each source have which verdict |
| ``symbols`` | ``symbols.csv`` |

The tables are read when the book is built, so a page cannot fall behind them, and nothing is written into the sources.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Row = dict[str, str]
SOURCES = ("000", "001", "002", "003", "004")
VERDICTS = (
    "holds",
    "loose",
    "wrong as written",
    "definition",
    "assumption",
    "setting",
    "empirical: quoted",
    "empirical: reproduced",
    "empirical: not visible at our scale",
    "not checkable",
)
INLINE = re.compile(r"\$([^$]+)\$|`([^`]+)`|\*\*([^*]+)\*\*")
STATEMENT = re.compile(r"[A-Z][a-z]+ \d+\.\d+")


def table(head: Sequence[str], widths: Sequence[int], body: Iterable[Sequence[Any]]) -> nodes.Node:
    """A table whose cells are lists of inline nodes, or of paragraphs."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(widths))
    made = [[nodes.entry("", nodes.paragraph("", name)) for name in head]]
    for cells in body:
        made.append([_entry(cell) for cell in cells])
    group += nodes.thead("", nodes.row("", *made[0]))
    group += nodes.tbody("", *(nodes.row("", *entries) for entries in made[1:]))
    return nodes.table("", group, classes=["trace", "colwidths-given"])


def _entry(cell: Sequence[nodes.Node | nodes.paragraph]) -> nodes.entry:
    if cell and isinstance(cell[0], nodes.paragraph):
        return nodes.entry("", *cell)
    return nodes.entry("", nodes.paragraph("", "", *cell))


def inline(text: str) -> Iterator[nodes.Node]:
    """Nodes of a text with formulas, code and bold words in it."""
    end = 0
    for match in INLINE.finditer(text):
        yield nodes.Text(text[end : match.start()])
        formula, code, bold = match.groups()
        if formula:
            yield nodes.math("", formula)
        else:
            yield nodes.literal("", code) if code else nodes.strong("", bold)
        end = match.end()
    yield nodes.Text(text[end:])


class _Table(SphinxDirective):
    """What the directives share: a table of the course, read so that a change of it makes the page anew."""

    def rows(self, name: str) -> list[Row]:
        path = Path(self.env.srcdir) / "book" / name
        self.env.note_dependency(str(path))
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


class Symbols(_Table):
    """All symbols: the course's own, its meaning, and how each source writes it."""

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        body = []
        for row in self.rows("symbols.csv"):
            names = [nodes.paragraph("", "", *inline(row[name])) for name in ("symbol", "code")]
            others = [list(inline(row[name])) for name in ("meaning", *SOURCES)]
            body.append([names, *others])
        return [table(["symbol, in code", "meaning", *SOURCES], [14, 24, 12, 12, 14, 12, 12], body)]


class Verdicts(_Table):
    """A count of verdicts by source."""

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        counts = Counter((row["source"], row["verdict"]) for row in self.rows("trace.csv"))
        body = []
        for verdict in VERDICTS:
            numbers = [counts[source, verdict] for source in SOURCES]
            if sum(numbers):
                cells = [verdict, *(str(number or "–") for number in numbers), str(sum(numbers))]
                body.append([[nodes.Text(cell)] for cell in cells])
        return [table(["verdict", *SOURCES, "all"], [30, 10, 10, 10, 10, 10, 10], body)]


class Concordance(_Table):
    """The rows of one source."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        rows = [row for row in self.rows("trace.csv") if row["source"] == self.arguments[0]]
        return [table(["place", "what it says", "verdict", "in the course"], [14, 46, 14, 26], map(self.cells, rows))]

    def cells(self, row: Row) -> list[Sequence[nodes.Node]]:
        """The four cells of a row."""
        says = [nodes.paragraph("", "", nodes.Text(row["content"]))]
        if row["note"]:
            says.append(nodes.paragraph("", "", nodes.emphasis("", row["note"])))
        where = [nodes.paragraph("", "", self.chapter(row)), *map(self.code, self.named(row))]
        verdict = nodes.inline("", row["verdict"], classes=["verdict", nodes.make_id(row["verdict"])])
        return [[nodes.Text(row["label"])], says, [verdict], where]

    def chapter(self, row: Row) -> nodes.Node:
        """A link to the place in the chapter, or its number if it is yet to be written."""
        if row["anchor"].startswith("planned:"):
            return nodes.Text(f"chapter {row['chapter']}, {self.title(row)}: planned")
        notebook, place = row["anchor"].split("#", 1)
        page = "deeper page, " if notebook.startswith("deeper/") else ""
        text = f"chapter {row['chapter']}, {self.title(row)}: {page}{place}"
        link = nodes.reference("", text, internal=True)
        link["trace_page"], link["trace_place"] = notebook.removesuffix(".ipynb"), anchor(place)
        return link

    def title(self, row: Row) -> str:
        """The title of a row's chapter, as the README has it."""
        readme = Path(self.env.srcdir).parent / "README.md"
        found = re.search(
            rf"^\| \[?{row['chapter']} ([^]|]+?)(?:\]| \|)", readme.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert found, f"the README has no chapter {row['chapter']}"
        return found[1]

    @staticmethod
    def named(row: Row) -> list[tuple[str, str]]:
        """(text, path in the repository) of the function and of the test of a row, as far as there are any."""
        found = []
        if row["function"].startswith("rlnotes."):
            parts = row["function"].split(".")
            root = Path(__file__).parents[3]
            for cut in range(len(parts), 0, -1):
                if (root / (path := "/".join(parts[:cut]) + ".py")).is_file():
                    found.append((".".join(parts[cut - 1 :]), path))
                    break
        if "::" in row["test"]:
            path, name = row["test"].split("::", 1)
            found.append((name.replace("_", " ").removeprefix("test "), path))
        return found

    def code(self, named: tuple[str, str]) -> nodes.paragraph:
        """The name of a function or a test, and where the project has an address, a link to its file there."""
        text, path = named
        content = nodes.Text(text) if path.startswith("tests/") else nodes.literal("", text)
        if not self.config.repository:
            return nodes.paragraph("", "", content)
        uri = f"{self.config.repository}/blob/{self.config.html_theme_options['repository_branch']}/{path}"
        return nodes.paragraph("", "", nodes.reference("", "", content, refuri=uri))


def anchor(place: str) -> str:
    """The id on a chapter's page of "(97)", of "Lemma 2.1", or of a heading."""
    if equation := re.fullmatch(r"\((.+)\)", place):
        return nodes.make_id(f"equation-{equation[1]}")
    if STATEMENT.fullmatch(place):
        return nodes.make_id(place.replace(" ", "-"))
    return nodes.make_id(place)


def resolve(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Give links to chapters their address, which depends on the kind of book."""
    for link in document.findall(nodes.reference):
        if "trace_page" in link:
            page = app.builder.get_relative_uri(docname, link["trace_page"])
            link["refuri"] = f"{page}#{link['trace_place']}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("concordance", Concordance)
    app.add_directive("verdicts", Verdicts)
    app.add_directive("symbols", Symbols)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
