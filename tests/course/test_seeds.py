"""Every seed of a loop is run by one of the two commands that test: none by both, none by neither."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("marks", "seeds"), [("not sweep", "0"), ("sweep", "12")])
def test_of_a_loops_seeds_make_test_runs_the_first_and_make_audit_the_others(marks: str, seeds: str):
    path = "tests/course/test_loops.py"
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", marks, path]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8").stdout
    assert re.findall(rf"^{path}::\w+\[(\d)\]$", found, re.MULTILINE) == list(seeds)
