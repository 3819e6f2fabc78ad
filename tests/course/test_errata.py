"""The errata page: every claim that is wrong as written has an entry, and every entry computes what it says.

An entry is a heading of the third level and all until the next. Its last line, "<small>Rows: 004 eq (15); ...</small>",
names the rows of trace.csv that it is about, each by its source and its label. Under a heading "Wording of source ..."
stands a table, of slips that have nothing to compute.
"""

import csv
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

COURSE = Path(__file__).parents[2] / "course"
ROWS = re.compile(r"^<small>Rows: (.+)</small>$", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
WORDING = "Wording of source "


class Entry(NamedTuple):
    """A heading with its prose and its code cells."""

    title: str
    text: str
    code: list[dict[str, Any]]

    @property
    def rows(self) -> list[str]:
        """Source and label of each row that the entry names."""
        return [row.strip() for line in ROWS.findall(self.text) for row in line.split("; ")]


def entries(cells: list[dict[str, Any]]) -> list[Entry]:
    """The entries of a page, in order. Code outside of entries does not count."""
    found: list[Entry] = []
    inside = False
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if inside:
                found[-1].code.append(cell)
            continue
        for piece in re.split(r"^(?=#{1,6} )", source, flags=re.MULTILINE):
            if (heading := HEADING.match(piece)) is None:
                if inside:
                    found[-1] = found[-1]._replace(text=found[-1].text + "\n" + piece)
                continue
            inside = heading[1] == "###"
            if inside:
                found.append(Entry(heading[2], piece, []))
    return found


def uncovered(trace: list[dict[str, str]], found: list[Entry]) -> list[str]:
    """Rows that are wrong as written and that no entry names."""
    named = {row for entry in found for row in entry.rows}
    wrong = [f"{row['source']} {row['label']}" for row in trace if row["verdict"] == "wrong as written"]
    return [row for row in wrong if row not in named]


def computes(entry: Entry) -> bool:
    """Whether it has a cell whose stored output is compared at every run of the notebooks, and it printed something."""
    checked = [cell for cell in entry.code if "nbval-check-output" in cell["metadata"].get("tags", [])]
    return bool(checked) and all(cell["outputs"] for cell in checked)


CELLS = json.loads((COURSE / "errata.ipynb").read_text(encoding="utf-8"))["cells"]
ENTRIES = entries(CELLS)
with (COURSE / "book" / "trace.csv").open(encoding="utf-8", newline="") as file:
    TRACE = list(csv.DictReader(file))
each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.title)


def test_every_wrong_row_has_an_entry():
    assert uncovered(TRACE, ENTRIES) == []


@each
def test_an_entry_names_rows_that_exist(entry: Entry):
    known = {f"{row['source']} {row['label']}" for row in TRACE}
    assert entry.rows
    assert set(entry.rows) <= known
    assert entry.rows[0][:3] == entry.title.removeprefix(WORDING)[:3]


@each
def test_an_entry_computes_its_case_and_says_what_is_right(entry: Entry):
    if entry.title.startswith(WORDING):
        assert re.search(r"^\|---", entry.text, re.MULTILINE)
        return
    assert computes(entry)
    assert len(re.findall(r"^> \*\*Right:\*\* ", entry.text, re.MULTILINE)) == 1


def test_each_source_ends_with_its_table_of_wording():
    titles = [entry.title for entry in ENTRIES]
    for source in ("000", "001", "002", "003", "004"):
        own = [title for title in titles if title.startswith((source, WORDING + source))]
        assert own[-1] == WORDING + source and len(own) > 1


def test_the_table_of_contents_counts_right():
    counted = dict(re.findall(r"^\| (00\d), [^|]+\| (\d+) \|", "".join(CELLS[0]["source"]), re.MULTILINE))
    titles = [entry.title[:3] for entry in ENTRIES if not entry.title.startswith(WORDING)]
    assert counted == {source: str(titles.count(source)) for source in ("000", "001", "002", "003", "004")}


def test_nothing_on_the_page_needs_torch():
    """Importing torch takes longer than all cells together."""
    assert not re.search(r"\btorch\b|rlnotes\.objectives|rlnotes\.lm", json.dumps(CELLS))


# --- These checks can fail


def test_a_row_without_an_entry_is_seen():
    trace = [
        {"source": "004", "label": "eq (15)", "verdict": "wrong as written"},
        {"source": "004", "label": "eq (1)", "verdict": "wrong as written"},
        {"source": "004", "label": "eq (16)", "verdict": "holds"},
    ]
    assert uncovered(trace, [Entry("a", "<small>Rows: 004 eq (15); 004 eq (13)</small>", [])]) == ["004 eq (1)"]


def test_entries_end_where_the_next_heading_begins():
    code: dict[str, Any] = {"cell_type": "code", "source": "1", "metadata": {"tags": []}, "outputs": []}
    page = [
        {"cell_type": "markdown", "source": "# T\n\n## S\n"},
        code,
        {"cell_type": "markdown", "source": "### A\n\nprinted"},
        code,
        {"cell_type": "markdown", "source": "right\n\n<small>Rows: 004 x</small>\n\n### B\n\n## End\n"},
        code,
    ]
    a, b = entries(page)
    assert (a.title, a.rows, len(a.code)) == ("A", ["004 x"], 1)
    assert (b.title, b.rows, b.code) == ("B", [], [])
    assert not computes(a), "its cell is not checked"
