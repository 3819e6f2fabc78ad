"""The files from which Binder builds the course."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from rlnotes.notebook.binder import INDEX, LABEL, needed, requirements

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
REQUIREMENTS = (BINDER / "requirements.txt").read_text(encoding="utf-8")


def names(lines: list[str]) -> set[str]:
    return {canonicalize_name(line.split("==")[0]) for line in lines}


def test_only_torch_differs_from_the_constraints():
    index, *lines = REQUIREMENTS.splitlines()
    assert index == INDEX
    (torch,) = set(lines) - set(CONSTRAINTS.splitlines())
    assert torch.startswith("torch==") and torch.removesuffix(LABEL) in CONSTRAINTS.splitlines()
    assert len(lines) == len(set(lines)) < len(CONSTRAINTS.splitlines())


def test_it_has_what_runs_the_course_and_not_what_tests_it():
    found = names(REQUIREMENTS.splitlines()[1:])
    assert {"torch", "numpy", "matplotlib", "ipywidgets", "ipykernel", "jupyterlab", "anywidget", "pexpect"} <= found
    assert not {"pytest", "ruff", "nbval", "sphinx", "trl", "transformers", "pandas", "rlnotes", "pywinpty"} & found


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not install what Binder's needs")
def test_the_requirements_are_fresh():
    pinned = dict(line.split("==") for line in REQUIREMENTS.replace(LABEL, "").splitlines()[1:])
    if any(version(name).split("+")[0] != wanted for name, wanted in pinned.items()):
        pytest.skip("this environment does not have the versions of constraints.txt")
    assert requirements(CONSTRAINTS) == REQUIREMENTS, "run `make binder`"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not install what Binder's needs")
def test_whatever_is_needed_is_pinned():
    left = needed("rlnotes", frozenset({"lab"})) - names(CONSTRAINTS.splitlines()) - {"rlnotes"}
    left -= {"setuptools"}  # pip freeze leaves it out, and Binder has it
    # the CUDA build of torch brings its own
    assert not [name for name in left if not name.startswith(("nvidia-", "cuda-", "triton"))]


def test_the_scripts_can_be_run():
    assert (BINDER / "runtime.txt").read_text(encoding="utf-8").split() == ["python-3.11"]
    post_build, start = ((BINDER / name).read_text(encoding="utf-8") for name in ("postBuild", "start"))
    assert post_build.startswith("#!/bin/bash\n") and start.startswith("#!/bin/bash\n")
    assert "pip install --no-cache-dir --no-deps -e .\n" in post_build
    assert "python -m rlnotes.notebook.settings\n" in post_build
    assert start.endswith('exec "$@"\n')


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bit")
def test_the_scripts_are_executable_and_start_hands_over():
    assert os.access(BINDER / "postBuild", os.X_OK) and os.access(BINDER / "start", os.X_OK)
    command = [BINDER / "start", sys.executable, "-c", "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv)"]
    result = subprocess.run([*command, "two words"], capture_output=True, text=True, check=True)
    assert result.stdout == "1 ['-c', 'two words']\n"


@pytest.mark.extras
def test_binder_understands_the_files():
    """A dry run: it prints what it would build and builds nothing."""
    command = [
        sys.executable,
        "-m",
        "repo2docker",
        "--no-build",
        "--debug",
        "--user-id=1000",
        "--user-name=reader",
        ".",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=120)
    shown = result.stdout + result.stderr
    assert result.returncode == 0, shown
    assert "Building conda environment for python=3.11" in shown
    for part in ('-r "binder/requirements.txt"', "RUN ./binder/postBuild", 'ENV R2D_ENTRYPOINT="'):
        assert part in shown, part
