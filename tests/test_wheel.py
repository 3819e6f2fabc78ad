"""The package as a reader gets it: a wheel in a clean environment, used from another folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_a_wheel_in_a_clean_environment_trains(tmp_path: Path):
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    binaries = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = [binaries / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    run(*pip, "torch", cwd=tmp_path)
    run(*pip, f"{wheel}[lab]", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "all is well" in run(binaries / "rlnotes", "doctor", cwd=elsewhere)
    trained = run(
        binaries / "rlnotes", "train", "--task", "reverse", "--recipe", "grpo", "--out", "run", "--steps", "3",
        cwd=elsewhere,
    )  # fmt: skip
    assert "step 3: held-out accuracy 0." in trained
    # from the shipped weights, not from nothing: package data is in the wheel
    assert float(trained.split("accuracy ")[1].split(";")[0]) > 0.25
    assert "reward" in run(binaries / "rlnotes", "sample", "--out", "run", cwd=elsewhere)
