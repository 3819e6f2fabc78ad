"""What `make refresh` stores is the same each time, and nothing is stored when a cell fails."""

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from rlnotes.notebook.refresh import refresh
from rlnotes.notebook.saving import WIDGET

CELLS = (
    "import sys, warnings\nimport ipywidgets\nipywidgets.IntSlider()",
    "from rlnotes.notebook.figures import new_figure, show\n"
    "from rlnotes.chapters.explorers import EXPLORERS\n"
    "from rlnotes.notebook import explorer\n"
    'explorer(EXPLORERS["regions"])',
    "from tqdm import tqdm\nfrom tqdm.auto import tqdm as auto\n"
    "from rlnotes.lm.progress import progress\n"
    "for _ in tqdm(range(3)):\n    pass\n"
    "for _ in auto(range(3)):\n    pass\n"
    "print(len(list(progress([dict(phase=1, step=1, reward=1.0)], total=1))))",
    'show(new_figure(1)[0], "an empty panel");',
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
)


def write(path: Path, *sources: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata["rlnotes"] = {"edition": 2, "seconds": 900}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(notebook, path)
    return path


def without_seconds(path: Path) -> str:
    text, found = re.subn(r'"seconds": \d+', '"seconds": 0', path.read_text(encoding="utf-8"))
    assert found == 1
    return text


def test_two_refreshes_store_the_same_and_nothing_that_differs_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTHONWARNDEFAULTENCODING", raising=False)  # other libraries' warnings would be stored
    path = write(tmp_path / "small.ipynb", *CELLS)
    refresh(path)
    first = without_seconds(path)
    refresh(path)
    assert without_seconds(path) == first
    notebook = json.loads(first)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info", "rlnotes"}
    assert notebook["metadata"]["rlnotes"] == {"edition": 2, "seconds": 0}  # what the author says of the page stays
    assert WIDGET not in first
    outputs = [cell["outputs"] for cell in notebook["cells"]]
    assert [len(found) for found in outputs] == [0, 1, 1, 1, 1]  # neither a widget alone nor a bar is left
    assert "need a running kernel" in first
    assert outputs[2][0]["text"] == ["1\n"]
    for cell in notebook["cells"]:
        assert "execution" not in cell["metadata"]
        assert all("transient" not in output and output.get("name") != "stderr" for output in cell["outputs"])


@pytest.mark.parametrize(("source", "said"), [("1 / 0", "ZeroDivisionError"), ("%nosuchmagic\n1 / 0", "UsageError")])
def test_a_failing_cell_raises_and_leaves_the_file(tmp_path: Path, source: str, said: str):
    path = write(tmp_path / "broken.ipynb", "print(1)", source)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match=said):
        refresh(path)
    assert path.read_bytes() == before


def test_a_warning_stays_to_be_seen(tmp_path: Path):
    path = write(tmp_path / "warns.ipynb", 'import warnings\nwarnings.warn("old")')
    refresh(path)
    (output,) = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["outputs"]
    assert output["name"] == "stderr" and "UserWarning: old" in "".join(output["text"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the seconds of processes that have ended")
def test_seconds_are_those_of_work_and_not_of_waiting(tmp_path: Path):
    waits = "import time\ntime.sleep(6)"
    works = "import time\nwhile time.process_time() < 4:\n    pass"
    assert refresh(write(tmp_path / "waits.ipynb", waits)) < 4 <= refresh(write(tmp_path / "works.ipynb", works))
