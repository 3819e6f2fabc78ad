"""What every notebook must be, before it is even run."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.course.form import TAGS, Page

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "course"
FOLDERS = (COURSE, COURSE / "deeper", COURSE / "book", COURSE / "book" / "deeper")  # the last two hold templates
NOTEBOOKS = [path for folder in FOLDERS for path in sorted(folder.glob("*.ipynb"))]
CHAPTERS = [  # of the first edition; errata.ipynb is a page to look things up in, and test_form.py looks at the second
    path for path in NOTEBOOKS if path.stem != "errata" and not Page.read(path).is_second_edition
]
GONE = r"\bimport gym\b|\bbool8\b|\bfloat_\b|\bin1d\b|\btrapz\b"  # names that newer gymnasium and numpy do not have
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(COURSE).with_suffix("").as_posix())


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in load(path)["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


@each
def test_metadata_is_that_of_any_machine(path: Path):
    metadata = load(path)["metadata"]
    assert metadata["kernelspec"] == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert set(metadata) == {"kernelspec", "language_info", "rlnotes"}  # no widget state, no versions
    assert not any(cell["metadata"].get("execution") for cell in code_cells(path))


@each
def test_every_cell_ran_in_order_and_none_failed(path: Path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert set(cell["metadata"].get("tags", [])) <= TAGS  # one that skips a cell would let it rot unseen
        assert all(output["output_type"] != "error" for output in cell["outputs"])
        assert not any("widget-view" in str(output.get("data", {}).keys()) for output in cell["outputs"])
        assert all(output.get("name") != "stderr" for output in cell["outputs"]), "a warning is stored"
        assert "<DisplayHandle" not in json.dumps(cell["outputs"]), f"{cell['id']}: end its last line with ;"


@each
def test_cells_are_short_and_outputs_small(path: Path):
    for cell in code_cells(path):
        assert len("".join(cell["source"]).splitlines()) <= 30, cell["id"]
        assert len(json.dumps(cell["outputs"])) < 150_000, cell["id"]


@each
def test_no_path_leads_out_and_no_name_is_gone(path: Path):
    text = path.read_text(encoding="utf-8")
    up = f"](../{path.name}" if path.parent.name == "deeper" else ""  # a deeper page's way back to its chapter
    assert "../" not in (text.replace(up, "") if up else text)
    assert not re.search(r"/home/|/root/|/tmp/|/Users/|[A-Z]:\\\\", text)
    assert not re.search(GONE, text)


@each
def test_pictures_have_alternative_text(path: Path):
    for cell in code_cells(path):
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                assert len(output["metadata"]["image/png"]["alt"]) > 20, cell["id"]


@each
def test_the_stated_time_is_kept(path: Path):
    """The chapter says "less than N seconds"; its last refresh took no longer."""
    stated = re.search(r"less than (\d+) seconds on one CPU thread", path.read_text(encoding="utf-8"))
    assert stated, "the chapter does not say how long it runs"
    assert load(path)["metadata"]["rlnotes"]["seconds"] < int(stated.group(1)) <= 90


@each
def test_a_missing_package_is_explained_with_this_interpreter(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rlnotes", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f'"{sys.executable}" -m pip install')):
        exec("".join(code_cells(path)[0]["source"]), {})


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_chapter_has_its_parts(path: Path):
    text = "\n".join("".join(cell["source"]) for cell in load(path)["cells"])
    for part in (
        "**After this chapter you can**",
        "**You need**",
        "**Time**",
        "## Exercises",
        "## The loop",
        "## Summary",
    ):
        assert part in text, part


WITHOUT_TORCH = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Blocked())
shell = InteractiveShell.instance()
for cell in json.loads(open(sys.argv[1], encoding="utf-8").read())["cells"]:
    if cell["cell_type"] == "code":
        result = shell.run_cell("".join(cell["source"]))
        if not result.success:
            sys.exit(f"cell {cell['id']}: {result.error_before_exec or result.error_in_exec!r}")
print("torch" in sys.modules)
"""


@pytest.mark.slow
@each
def test_it_goes_on_without_torch(path: Path):
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(path)], capture_output=True, text=True, encoding="utf-8"
    )
    assert result.returncode == 0, result.stderr
    for package in ("torch", "trl"):  # which needs torch
        marked = sum("".join(cell["source"]).startswith(f"# needs {package}\n") for cell in code_cells(path))
        assert result.stdout.count(f"this cell needs {package}:") == marked
    assert result.stdout.endswith("False\n")


@each
def test_formulas_in_quotes_stand_on_one_line(path: Path):
    """JupyterLab takes a formula out before it reads the quote, with the quote's mark in it."""
    for cell in load(path)["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith(">"):
                assert line.count("$$") in (0, 2), line
