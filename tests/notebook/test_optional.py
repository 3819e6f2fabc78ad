"""A cell that needs a package says so where it is missing, and runs where it is there."""

import subprocess
import sys

import pytest

CODE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from rlnotes.notebook.optional import skip_without
shell = InteractiveShell.instance()
for name in {missing}:
    sys.modules[name] = None
skip_without("csv")
skip_without("trl", module={module!r})
for cell in ("# needs trl\\nprint('trl ran')", "# needs csv\\nprint('csv ran')", "print('the rest ran')"):
    assert shell.run_cell(cell).success
"""


def printed(missing: list[str], module: str) -> list[str]:
    code = CODE.format(missing=missing, module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def test_a_cell_of_a_missing_package_says_how_to_get_it_and_the_others_run():
    said, *rest = printed(["trl"], "trl")
    assert said.startswith(f'this cell needs trl: "{sys.executable}" -m pip install trl; then restart')
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


@pytest.mark.parametrize("module", ["trl", "rlnotes.bridge.trl"])
def test_without_torch_nothing_that_needs_it_runs(module: str):
    said = printed(["torch", "csv"], module)
    assert [line.split(":")[0] for line in said] == ["this cell needs trl", "this cell needs csv", "the rest ran"]
