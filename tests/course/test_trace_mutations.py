"""The tests that the table names can fail: each row's function is spoilt by 1 %, and its test has to see it."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = {
    "000": ["Lemma 2.1", "Lemma 3.1", "Theorem 3.2", "6.1 compression", "Lemma 7.1"],
    "001": [
        "2.2.3 REINFORCE", "2.2.4 surrogate", "2.5.1 TRPO bound", "2.5.1 simulation lemma", "2.5.2", "2.5.3",
        "2.5.4 Pinsker-Marginal", "2.5.5 Mixed", "A.1",
    ],
    "002": [
        "eq (5)", "eq (9)", "eq (17)", "eq (36)", "eq (80)", "eq (83)", "eq (91)", "eq (96)", "Example 1.8",
        "Example 4.1.1",
    ],
    "003": ["4.2 chi2", "5.2 true gradient"],
    "004": ["eq (6)", "eq (13)", "eq (18)", "eq (20)"],
}  # fmt: skip
PICKED = [(source, label) for source, labels in ROWS.items() for label in labels]
pytestmark = pytest.mark.sweep


def trace() -> dict[tuple[str, str], dict[str, str]]:
    with (ROOT / "course" / "book" / "trace.csv").open(encoding="utf-8", newline="") as file:
        return {(row["source"], row["label"]): row for row in csv.DictReader(file)}


def outcome(spoilt: str, test: str) -> subprocess.CompletedProcess[str]:
    """A run of ``test`` with one function spoilt."""
    found = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(Path(__file__).parent), *([found] if found else [])])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "mutation", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env=os.environ | {"RLNOTES_MUTATE": spoilt, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.parametrize(("source", "label"), PICKED)
def test_a_function_that_is_one_percent_off_is_seen(source: str, label: str):
    row = trace()[source, label]
    run = outcome(row["function"], row["test"])
    assert re.search(r"\d+ failed", run.stdout), run.stdout + run.stderr


def test_another_function_may_be_off():
    row = trace()["002", "eq (9)"]
    run = outcome("rlnotes.estimators.returns.gae", row["test"])
    assert re.search(r"\d+ passed", run.stdout) and run.returncode == 0, run.stdout + run.stderr
