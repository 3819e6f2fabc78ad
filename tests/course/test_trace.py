"""The table that says of every equation of the sources where it stands, and whether it holds."""

import ast
import csv
import importlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "course"
COLUMNS = ["source", "label", "kind", "content", "chapter", "anchor", "function", "test", "verdict", "note"]
VERDICTS = {
    "holds", "loose", "wrong as written", "definition", "assumption", "setting", "empirical: quoted",
    "empirical: reproduced", "empirical: not visible at our scale", "not checkable",
}  # fmt: skip
EXPLAINED = {"assumption", "loose", "wrong as written", "empirical: quoted", "not checkable"}
NOTHING_TO_COMPUTE = {"definition", "assumption", "setting", "empirical: quoted", "not checkable"}
PLANNED = re.compile(r"planned:(\d\d)")


def rows(name: str) -> list[dict[str, str]]:
    with (COURSE / "book" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


TRACE = rows("trace.csv")
SYMBOLS = rows("symbols.csv")
each = pytest.mark.parametrize("row", TRACE, ids=[f"{row['source']} {row['label']}" for row in TRACE])


@cache
def chapters() -> dict[str, str]:
    """The file name of the notebook of each chapter that has one, by its two digits."""
    return {path.name[:2]: path.name for path in COURSE.glob("[0-9][0-9]_*.ipynb")}


@cache
def prose(notebook: str) -> str:
    cells = json.loads((COURSE / notebook).read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@cache
def functions_of(path: Path) -> set[str]:
    """Names of the test functions of a file, those of classes as "Class::name"."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


@pytest.mark.parametrize("name", ["trace.csv", "inventory.csv", "symbols.csv"])
def test_every_line_has_as_many_fields_as_the_first(name: str):
    """A comma without quotes makes one more, which a reader by names does not see."""
    with (COURSE / "book" / name).open(encoding="utf-8", newline="") as file:
        assert len({len(line) for line in csv.reader(file)}) == 1


def resolve(dotted: str) -> Any:
    """The object of a dotted name: a module, and attributes of it."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is None or not dotted.startswith(error.name):
                raise
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


def has_anchor(notebook: str, place: str) -> bool:
    """Whether a chapter has an equation "(97)", a statement "Lemma 2.1", or a heading of these words."""
    text = prose(notebook)
    if equation := re.fullmatch(r"\((.+)\)", place):
        return rf"\tag{{{equation[1]}}}" in text
    return bool(re.search(rf"^(?:#+ |> \*\*){re.escape(place)}(?:\.?\*\*.*|[ .●*]*)$", text, re.MULTILINE))


def test_there_is_one_row_for_each_of_the_inventory_in_its_order():
    inventory = [(row["seed"][:3], row["label"], row["kind"]) for row in rows("inventory.csv")]
    assert list(TRACE[0]) == COLUMNS
    assert [(row["source"], row["label"], row["kind"]) for row in TRACE] == inventory


@each
def test_the_verdict_is_one_of_ten_and_is_explained(row: dict[str, str]):
    assert row["verdict"] in VERDICTS
    assert row["content"]
    assert row["note"] or row["verdict"] not in EXPLAINED
    if row["verdict"] == "empirical: quoted":
        assert re.search(r"[Rr]eproduction planned in chapter \d\d", row["note"])


def test_every_chapter_is_one_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {row["chapter"] for row in TRACE} <= set(re.findall(r"^\| \[?(\d\d) ", readme, re.MULTILINE))


@each
def test_what_is_planned_belongs_to_a_chapter_without_a_notebook(row: dict[str, str]):
    for column in ("anchor", "function", "test"):
        if planned := PLANNED.fullmatch(row[column]):
            assert planned[1] == row["chapter"], column
            assert planned[1] not in chapters(), f"{column}: chapter {planned[1]} exists; say where it does this"


@each
def test_the_place_is_in_the_chapter(row: dict[str, str]):
    if not PLANNED.fullmatch(row["anchor"]):
        notebook, place = row["anchor"].split("#", 1)
        assert notebook.removeprefix("deeper/") == chapters().get(row["chapter"])
        assert has_anchor(notebook, place)


@each
def test_the_function_exists(row: dict[str, str]):
    if row["function"] == "-":
        assert row["test"] != "-" or row["verdict"] in NOTHING_TO_COMPUTE
    elif not PLANNED.fullmatch(row["function"]):
        assert row["function"].startswith("rlnotes.")
        resolve(row["function"])


@each
def test_the_test_exists(row: dict[str, str]):
    if row["test"] == "-":
        assert row["function"] == "-", "a function without a test"
    elif not PLANNED.fullmatch(row["test"]):
        path, name = row["test"].split("::", 1)
        assert name.split("[")[0] in functions_of(ROOT / path)


def test_symbols_are_named_once_and_in_five_sources():
    assert list(SYMBOLS[0]) == ["symbol", "code", "meaning", "000", "001", "002", "003", "004"]
    names = [row["symbol"] for row in SYMBOLS]
    assert len(set(names)) == len(names)
    assert all(row["meaning"] and all(row[source] for source in ("000", "001", "002", "003", "004")) for row in SYMBOLS)


# --- These checks can fail


@pytest.mark.parametrize("dotted", ["rlnotes.no_such_module", "rlnotes.objectives.gates.no_such_gate"])
def test_a_name_that_does_not_exist_is_seen(dotted: str):
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        resolve(dotted)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("(87)", True),
        ("(8)", False),
        ("The exact twin", True),
        ("The", False),
        ("Claim 7.8", True),
        ("Claim 7", False),
        ("07.1 Predict, then run", False),
    ],
)
def test_anchors_are_found_whole(place: str, found: bool):
    assert has_anchor("deeper/07_grpo.ipynb", place) is found


def test_methods_and_parametrised_tests_have_names(tmp_path: Path):
    path = tmp_path / "test_one.py"
    path.write_text("class TestOne:\n    def test_a(self): ...\n\n\ndef test_b(): ...\n", encoding="utf-8")
    assert functions_of(path) == {"TestOne::test_a", "test_b"}
