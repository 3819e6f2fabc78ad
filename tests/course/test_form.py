"""Pages of the second edition keep its form. A page of the first is exempt until it is written anew."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.course.form import CHAPTER, EVERYWHERE, TAGS, Page, faults, measured, rows_of

COURSE = Path(__file__).parents[2] / "course"
TEMPLATE, DEEPER = COURSE / "book" / "template.ipynb", COURSE / "book" / "deeper" / "template.ipynb"
PAGES = [Page.read(path) for folder in ("", "deeper") for path in sorted((COURSE / folder).glob("[0-9][0-9]_*.ipynb"))]
SECOND = [page for page in PAGES if page.is_second_edition] + [Page.read(TEMPLATE), Page.read(DEEPER)]

Notebook = dict[str, Any]
Change = Callable[[Notebook], None]


@pytest.mark.parametrize("page", SECOND, ids=lambda page: page.path.relative_to(COURSE).with_suffix("").as_posix())
def test_the_page_keeps_the_form(page: Page):
    assert faults(page) == []


def test_templates_and_deeper_pages_are_of_the_second_edition():
    assert all(page.is_second_edition for page in SECOND)
    assert [page.path.name for page in PAGES if page.is_deeper and not page.is_second_edition] == []
    assert not Page.read(COURSE / "errata.ipynb").is_second_edition  # a page to look things up in


# --- Each rule can fail: a fault is planted in the template


def replace(old: str, new: str) -> Change:
    """``old`` stands somewhere, and ``new`` in its place."""

    def change(notebook: Notebook) -> None:
        assert old in "\0".join("".join(cell["source"]) for cell in notebook["cells"]), old
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"]).replace(old, new)

    return change


def cell_of(notebook: Notebook, name: str) -> Notebook:
    (found,) = (cell for cell in notebook["cells"] if cell["id"] == name)
    return found


def on(name: str, change: Callable[[Notebook], Any]) -> Change:
    """A change of the cell of this name."""
    return lambda notebook: change(cell_of(notebook, name))


def untag(name: str, tag: str) -> Change:
    return on(name, lambda cell: cell["metadata"]["tags"].remove(tag))


def tagged(name: str, tag: str) -> Change:
    return on(name, lambda cell: cell["metadata"].update(tags=[tag]))


def drop(name: str) -> Change:
    return lambda notebook: notebook["cells"].remove(cell_of(notebook, name))


def append(text: str, name: str = "run-seen") -> Change:
    return on(name, lambda cell: cell.update(source="".join(cell["source"]) + text))


def unfold(name: str) -> Change:
    def change(cell: Notebook) -> None:
        cell["metadata"]["tags"].remove("hide-input")
        del cell["metadata"]["jupyter"]

    return on(name, change)


def to_the_end(name: str) -> Change:
    def change(notebook: Notebook) -> None:
        cell = cell_of(notebook, name)
        notebook["cells"].remove(cell)
        notebook["cells"].append(cell)

    return change


def repeat(name: str, times: int) -> Change:
    def change(notebook: Notebook) -> None:
        notebook["cells"] += [copy.deepcopy(cell_of(notebook, name)) for _ in range(times)]

    return change


def both(*changes: Change) -> Change:
    def change(notebook: Notebook) -> None:
        for one in changes:
            one(notebook)

    return change


def picture(text: str) -> Callable[[Notebook], None]:
    """The last picture of a cell gets this alternative text."""
    return lambda cell: cell["outputs"][-1]["metadata"].update({"image/png": {"alt": text}})


def printed(text: str) -> Callable[[Notebook], None]:
    return lambda cell: cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": text})


def as_printed(cell: Notebook) -> None:
    """The text of a cell is what its folded code prints."""
    output = {"output_type": "execute_result", "data": {"text/markdown": cell["source"]}}
    cell.update(cell_type="code", source="card()", outputs=[output])
    cell["metadata"].update(tags=["hide-input"], jupyter={"source_hidden": True})


P = "| $p$ | a probability |\n"  # of the list of symbols
BOX = "\n> **Fact 7.2.** True.\n>\n> <small>Source 002.</small>\n"
PLANTED: list[tuple[str, str, Change, str]] = [
    ("opening", "no question", replace("> The question as", "The question as"), "the question"),
    ("opening", "no picture", on("figure", lambda cell: cell.update(outputs=[])), "no picture"),
    ("opening", "four promises", replace("3. choose", "3. more;\n4. choose"), "4 promises"),
    ("opening", "too much for a screen", append("\nword" * 200, "promises"), "words above the first section"),
    ("honest_time", "words", append("\nword" * 260), "write \"core path"),
    ("honest_time", "two open cells", repeat("run", 2), "write \"core path"),
    ("honest_time", "too little", replace("everything 26", "everything 25"), "less than is computed"),
    ("honest_time", "not stated", replace("everything", "all"), "no time"),
    ("honest_time", "a longer exercise", replace("07.4 On paper ●● · 5", "07.4 On paper ●● · 6"), "everything 27"),
    ("honest_time", "a long core path", replace("* ● · 2 minutes", "* ● · 40 minutes"), "core path takes 44 minutes"),
    ("honest_time", "too long", append("\nword" * 130 * 50), "takes 76 minutes; 75"),
    ("size", "words", append("\nword" * 4500), "words; 4500 at most"),
    ("size", "cells", repeat("run-seen", 60), "cells; 65 at most"),
    ("size", "boxes", append("".join(BOX.replace("7.2", f"7.{i}") for i in range(2, 8))), "boxes; 6 at most"),
    ("core_path", "no mark", both(replace(" *\n", "\n"), replace("run * ●", "run ●")), "mark the headings"),
    ("boxes", "a number left out", replace("**Theorem 7.1.**", "**Theorem 7.2.**"), "box 7.2 is the 1."),
    ("boxes", "not in order", append(BOX.replace("7.2", "7.9") + BOX.replace("7.2", "7.8")), "8 comes after box 9"),
    ("boxes", "no source", replace("> <small>Source 002, section 5.2.3.</small>", ""), "must say its source"),
    ("run_first", "no run", untag("run", "run"), "no open cell"),
    ("run_first", "late", to_the_end("run"), "no open cell"),
    ("run_first", "set-up open", unfold("setup"), "set-up, is not folded"),
    ("folding", "JupyterLab only", untag("setup", "hide-input"), "only one of"),
    ("folding", "book only", on("setup", lambda cell: cell["metadata"].pop("jupyter")), "only one of"),
    ("lesson_only", "drawing open", unfold("picture"), "only prints or draws"),
    ("lesson_only", "import open", append("\nimport math", "run"), "imports stand in a folded cell"),
    ("lesson_only", "long", append("\nx = 1" * 20, "run"), "at most are open"),
    ("rendered_tables", "a loop", append("\nfor row in rows:\n    print(row)", "run"), "prints in a loop"),
    ("rendered_tables", "columns", on("run", printed("a  b  c\n1  2  3\n")), "prints columns"),
    ("exercises", "one less", drop("ex-formula"), "4 exercises"),
    ("exercises", "long", replace("7.2 Read this log ●● · 5", "7.2 Read this log ●● · 15"), "take 31 minutes"),
    ("exercises", "no kind", untag("ex-log", "log"), "one tag of"),
    *[
        ("exercises", f"no {kind}", tagged(f"ex-{kind}", "formula"), f'no exercise has the tag "{kind}"')
        for kind in ("predict", "log", "repair", "paper")
    ],
    ("exercises", "two formulas", tagged("ex-log", "formula"), "more than one"),
    ("slider", "no main picture", untag("picture", "main"), "no cell with the tag"),
    ("slider", "a still one", replace('explorer(EXPLORERS["group"])', "show(figure, 'x')"), "no cell with the tag"),
    ("monday", "no card", replace("> **Monday card**", "> **Monday**"), "0 boxes begin"),
    ("monday", "printed below no heading", on("monday", as_printed), "needs a heading"),
    ("monday", "printed, and empty", both(replace("| above 0.5 |", "| |"), on("monday", as_printed)), "empty cell"),
    ("monday", "in an exercise", replace("## On Monday *\n", ""), "needs a heading"),
    ("monday", "after the summary", to_the_end("monday"), "not the last box"),
    ("monday", "a box after it", append(BOX, "summary"), "not the last box"),
    ("monday", "four columns", replace("| worry at |", "|"), "columns are"),
    ("monday", "an empty cell", replace("| above 0.5 |", "| |"), "empty cell"),
    ("monday", "rests on nothing", replace("[the theorem](#The-theorem-*)", "theory"), "links to no cell"),
    ("links_inside", "beyond ASCII", both(replace("# The experiment", "# The λ"), replace("#The-experiment", "#The-λ")),
     "beyond ASCII"),
    ("links_inside", "a heading that is none", replace("(#The-experiment)", "(#An-experiment)"), "no heading"),
    ("quiz", "none", drop("quiz"), "0 cells call quiz"),
    ("quiz", "two", repeat("quiz", 1), "2 cells call quiz"),
    ("summary", "a row less", replace("| choose | which setting | [the experiment]", "[the experiment]"), "2 rows"),
    ("deeper", "no link", replace("(deeper/template.ipynb)", "(deeper)"), "no margin note"),
    ("deeper", "no margin note", replace("> *Deeper.* The proof", "The proof"), "no margin note"),
    ("alternatives", "says nothing", on("figure", picture("Three curves that fall and rise")), "has no number"),
    ("alternatives", "ends only", both(append("\nLivePlot({}, 'a')", "figure"), on("figure", picture("from 0 to 1"))),
     "no minimum and maximum"),
    ("symbols", "none listed", drop("symbols"), "0 folded lists"),
    ("symbols", "one lacks", replace(P, ""), "must have once: | $p$"),
    ("symbols", "one twice", replace(P, P * 2), "must have once: | $p$"),
    ("symbols", "explained otherwise", replace(P, "| $p$ | a price |\n"), "explains $p$ otherwise"),
    ("symbols", "another epsilon", append("\n$\\varepsilon$"), "no symbol $\\varepsilon$"),
    ("symbols", "unknown", append("\n$Y_t$"), "no symbol $Y"),
    ("symbols", "not used", replace("| $p$ |", "| $x$ | a prompt |\n| $p$ |"), "which no formula uses"),
]  # fmt: skip


def spoilt(path: Path, change: Change) -> Page:
    page = Page.read(path)
    change(page.notebook)
    return page


@pytest.mark.parametrize(("rule", "change", "said"), [(rule, c, said) for rule, _, c, said in PLANTED],
                         ids=[f"{rule}: {name}" for rule, name, _, _ in PLANTED])  # fmt: skip
def test_a_planted_fault_is_found(rule: str, change: Change, said: str):
    found = faults(spoilt(TEMPLATE, change))
    assert any(name == rule and said in fault for name, fault in found), found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace("(../template.ipynb)", "(template.ipynb)"), "no link to the chapter"),
        (replace("7.2.", "7.1."), "box 7.1 is the 2."),
        (drop("symbols"), "0 folded lists"),
        (unfold("setup"), "imports stand in a folded cell"),
    ],
    ids=["no way back", "counted from 1", "no symbols", "imports"],
)
def test_a_fault_of_a_deeper_page_is_found(change: Change, said: str):
    assert [fault for _, fault in faults(spoilt(DEEPER, change)) if said in fault]


def test_a_missing_deeper_page_is_found(tmp_path: Path):
    page = Page(tmp_path / "template.ipynb", Page.read(TEMPLATE).notebook)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "symbols.csv").write_bytes((COURSE / "book" / "symbols.csv").read_bytes())
    assert [rule for rule, _ in faults(page)] == ["deeper"]


def test_each_rule_has_a_planted_fault():
    assert {rule.__name__ for rule in (*CHAPTER, *EVERYWHERE)} == {rule for rule, *_ in PLANTED}


def test_the_minutes_of_readers_may_be_more_than_is_computed():
    notebook = copy.deepcopy(Page.read(TEMPLATE).notebook)
    replace("(\\*) 6 minutes, everything 26", "(\\*) 9 minutes, everything 40")(notebook)
    assert faults(Page(TEMPLATE, notebook)) == []


def test_chapter_00_is_shorter():
    page = Page(COURSE / "book" / "00_start_here.ipynb", Page.read(TEMPLATE).notebook)
    found = [fault for _, fault in faults(page)]
    assert "the page takes 26 minutes; 20 at most" in found and "5 exercises; this page has 3" in found


# --- Time, by hand


def page_of(*cells: tuple[str, str, list[str]]) -> Page:
    made = [
        {"cell_type": kind, "source": text, "metadata": {"tags": tags}, "outputs": []} for kind, text, tags in cells
    ]
    return Page(COURSE / "book" / "page.ipynb", {"metadata": {}, "cells": made})


HIDDEN = "<details><summary>Solution</summary>\n\nwords that are not read\n\n</details>"
COUNTED = page_of(
    ("markdown", "# 06 · A title\n\n" + "word " * 127, []),  # with "06", "A" and "title" 130
    ("code", "import numpy", ["hide-input"]),
    ("code", "a = 1", []),
    ("markdown", "## Section *", []),
    ("code", "b = 1", []),
    ("markdown", f"| a | b |\n|---|---|\n| c | $x = 1$ |\n\n```python\nnot words\n```\n\n{HIDDEN}", []),  # 5
    ("markdown", "## Another", []),
    ("markdown", "### 06.1 Name ●● · 4 minutes", ["paper"]),  # "06.1", "Name", "4", "minutes"
    ("code", 'x = ...\n\ncheck("06.1", x)', []),
    ("code", 'quiz("06")', []),
    ("markdown", "### 06.2 Name * ● · 1 minute", ["log"]),
)


def test_time_is_words_open_code_and_exercises_rounded_up():
    words = 130 + 1 + 5 + 1 + 4 + 4
    assert sum(cell.words for cell in COUNTED.cells) == words
    assert COUNTED.minutes() == math.ceil(words / 130 + 2 / 2 + 5) == 8
    assert COUNTED.minutes(core=True) == math.ceil((130 + 1 + 5 + 4) / 130 + 2 / 2 + 1) == 4
    assert measured(COUNTED) == "145 words, 8 cells, 0 boxes; 8 minutes, of which exercises 5; core path 4"


def test_a_whole_number_of_minutes_is_not_rounded_up():
    assert page_of(("markdown", "word " * 130, []), ("code", "a", []), ("code", "b", [])).minutes() == 2


def test_a_table_is_read_in_a_quote_and_out_of_it():
    rows = [["a", "b"], ["1", r"$\|x\|$"]]
    text = "| a | b |\n|---|---|\n| 1 | $\\|x\\|$ |\n\nafter | it"
    assert rows_of(text) == rows_of("> " + text.replace("\n", "\n> ")) == rows


def test_tags_are_those_that_tests_of_all_notebooks_know():
    assert {tag for page in SECOND for cell in page.cells for tag in cell.tags} <= TAGS
