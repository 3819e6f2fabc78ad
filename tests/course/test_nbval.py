"""What turns the notebook run red, and what does not: the command of `make notebooks` on small notebooks."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]

Cell = tuple[str, str, str]  # source, stored text, tag


def write(folder: Path, name: str, *cells: Cell) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for count, (source, text, tag) in enumerate(cells, 1):
        output = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
        cell = nbformat.v4.new_code_cell(source, outputs=output, execution_count=count)
        cell.metadata["tags"] = [tag] if tag else []
        notebook.cells.append(cell)
    nbformat.write(notebook, folder / f"{name}.ipynb")


def run(folder: Path, *names: str, seconds: int) -> str:
    """Outcome of each cell, as pytest writes it."""
    command = [sys.executable, "-m", "pytest", "-v", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    command += ["--rootdir", str(folder), "--nbval-lax", f"--nbval-cell-timeout={seconds}"]
    result = subprocess.run(
        [*command, *(str(folder / f"{name}.ipynb") for name in names)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return result.stdout


CHECK = "nbval-check-output"
SLIDER = """
import ipywidgets
def respond(change):
    raise ValueError("the callback's own error")
slider = ipywidgets.IntSlider()
slider.observe(respond, names="value")
"""
NOISE = """
import sys, warnings
print("a")
warnings.warn("a library changes", DeprecationWarning, stacklevel=1)
warnings.warn("a library's other warning", stacklevel=1)
print(" 10%|#         | 1/10 [00:00<00:01, 7.3it/s]", file=sys.stderr)
print("b")
"""
NEVER_RUN = "1 / 0"
NOTEBOOKS: dict[str, tuple[Cell, ...]] = {
    "line magic": ((f"%nosuchmagic\n{NEVER_RUN}", "", ""), ("print(1)", "", "")),
    "cell magic": ((f"%%nosuchmagic\n{NEVER_RUN}", "", ""), ("print(1)", "", "")),
    "wrong magic": ((f"%timeit -n\n{NEVER_RUN}", "", ""), ("%time 1 + 1", "", "")),
    "exact": (("print(0.5)", "0.5\n", CHECK), ("print(0.25)", "0.2500001\n", CHECK), ("print(3)", "4\n", "")),
    "callback": ((SLIDER, "", ""), ("slider.value = 9", "", "")),
    "noise": ((NOISE, "", ""), ("object()", "", ""), ("print(1)", "1\n", CHECK)),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[bool]]:
    """Whether each cell of a notebook passed; one pytest runs all notebooks."""
    folder = tmp_path_factory.mktemp("notebooks")
    for name, cells in NOTEBOOKS.items():
        write(folder, name, *cells)
    text = run(folder, *NOTEBOOKS, seconds=60)

    def passed(name: str) -> list[bool]:
        lines = [line for line in text.splitlines() if f"{name}::ipynb::Cell " in line and "%]" in line]
        assert len(lines) == len(NOTEBOOKS[name]), text
        return ["PASSED" in line for line in lines]

    return passed


@pytest.mark.parametrize("name", ["line magic", "cell magic", "wrong magic"])
def test_a_cell_that_stops_before_its_end_is_red(outcome: Callable[[str], list[bool]], name: str):
    """Of which IPython writes on stderr, and reports no error."""
    assert outcome(name) == [False, True]


def test_a_changed_exact_output_is_red_where_the_cell_is_tagged(outcome: Callable[[str], list[bool]]):
    assert outcome("exact") == [True, False, True]


def test_an_error_in_a_callback_that_a_later_cell_sets_off_is_red(outcome: Callable[[str], list[bool]]):
    assert outcome("callback") == [True, False]


def test_what_libraries_write_on_stderr_is_not_red(outcome: Callable[[str], list[bool]]):
    assert outcome("noise") == [True, True, True]


def test_a_cell_over_the_limit_is_named_and_the_run_ends(tmp_path: Path):
    write(tmp_path, "slow", ("print(1)", "", ""), ("import time\ntime.sleep(600)", "", ""), ("print(3)", "", ""))
    started = time.monotonic()
    text = run(tmp_path, "slow", seconds=2)
    assert time.monotonic() - started < 60
    assert "Timeout of 2 seconds exceeded" in text and "time.sleep(600)" in text
    (failed,) = [line for line in text.splitlines() if line.startswith("FAILED")]
    assert "Cell 1" in failed
