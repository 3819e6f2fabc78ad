"""A cell that needs a package says so where it is missing, and runs where it is there."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from rlnotes.notebook.refresh import refresh

CODE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from rlnotes.notebook.optional import skip_without
shell = InteractiveShell.instance()
for name in {missing}:
    sys.modules[name] = None
skip_without("csv")
skip_without("trl", module={module!r}, extra="bridge")
for cell in ("# needs trl\\nprint('trl ran')", "# needs csv\\nprint('csv ran')", "print('the rest ran')"):
    assert shell.run_cell(cell).success
"""


def printed(missing: list[str], module: str) -> list[str]:
    code = CODE.format(missing=missing, module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def test_a_cell_of_a_missing_package_says_how_to_get_it_and_the_others_run():
    said, *rest = printed(["trl"], "trl")
    assert said.startswith("this cell needs trl: the extra bridge brings it; in the project folder: ")
    assert f'"{sys.executable}" -m pip install -e ".[bridge]" -c constraints.txt; then restart' in said
    assert rest == ["csv ran", "the rest ran"]


def test_a_package_that_is_there_but_lacks_what_a_module_asks_for_counts_as_missing():
    """The bridge to TRL raises an ImportError, which says more than a ModuleNotFoundError, where TRL is too old."""
    said, *rest = printed(["trl"], "rlnotes.bridge.trl")
    assert said.startswith("this cell needs trl:")
    assert rest == ["csv ran", "the rest ran"]


def test_it_is_the_module_that_counts():
    said, *rest = printed([], "rlnotes.there_is_no_such_module")
    assert said.startswith("this cell needs trl:")
    assert rest == ["csv ran", "the rest ran"]


def test_where_the_module_can_be_imported_nothing_changes():
    assert printed([], "json") == ["trl ran", "csv ran", "the rest ran"]


@pytest.mark.parametrize("module", ["rlnotes.lm.trainer", "rlnotes.bridge.trl"])
def test_without_torch_nothing_that_needs_it_runs(module: str):
    said = printed(["torch", "csv"], module)
    assert [line.split(":")[0] for line in said] == ["this cell needs trl", "this cell needs csv", "the rest ran"]


MISSING = "from rlnotes.notebook import skip_without\nskip_without('not_there', extra='bridge')"
CELL = "# needs not_there\nprint(not_there.numbers)"


def stored_notebook(path: Path, outputs: list[nbformat.NotebookNode]) -> Path:
    nbformat.write(new_notebook(cells=[new_code_cell(MISSING), new_code_cell(CELL, outputs=outputs)]), path)
    return path


def outputs_of(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"][1]["outputs"]


STORED = [
    new_output("stream", name="stdout", text="1 2\n3\n"),
    new_output("display_data", data={"text/html": "<b>a</b>\n<i>b</i>"}, metadata={"text/html": {"isolated": True}}),
]


def test_what_a_run_that_had_the_package_has_shown_stays_when_the_notebook_is_run(tmp_path: Path):
    """As in JupyterLab: the notebook is run and saved, twice, where the package is missing."""
    from nbclient import NotebookClient

    path = stored_notebook(tmp_path / "one.ipynb", STORED)
    for _ in range(2):
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
        nbformat.write(notebook, path)
        shown = outputs_of(path)
        text = "".join("".join(output["text"]) for output in shown if output["output_type"] == "stream")
        said, rest = text.split("\n", 1)
        assert said.startswith("this cell needs not_there: the extra bridge brings it;") and said.endswith("had it:")
        assert rest == "1 2\n3\n"
        (picture,) = [output for output in shown if output["output_type"] == "display_data"]
        assert "".join(picture["data"]["text/html"]) == "<b>a</b>\n<i>b</i>"
        assert picture["metadata"] == {"text/html": {"isolated": True}}


def test_refresh_keeps_the_outputs_of_a_cell_that_lacks_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTHONWARNDEFAULTENCODING", raising=False)
    path = stored_notebook(tmp_path / "one.ipynb", STORED)
    before = outputs_of(path)
    refresh(path)
    assert outputs_of(path) == before


def test_where_nothing_is_stored_only_the_command_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTHONWARNDEFAULTENCODING", raising=False)
    path = stored_notebook(tmp_path / "one.ipynb", [])
    refresh(path)
    assert outputs_of(path) == []
