"""A comparison that is killed at any moment goes on to the same table, byte for byte."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import linux, running, wait_for_spawned, wait_until_gone

pytestmark = pytest.mark.slow

COMPARE = """
import sys
from pathlib import Path
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import DR_GRPO, GRPO
from rlnotes.studies.runner import compare
from rlnotes.studies.study import Method, Study
methods = {"GRPO": Method(GRPO), "Dr. GRPO": Method(DR_GRPO)}
study = Study("?", TrainConfig(prompts=2, group_size=2, count_clipped=True), methods, 300, prompts_evaluated=8)
if __name__ == "__main__":
    for _ in compare(study, Path(sys.argv[1], "table.csv"), seeds=2):
        pass
"""
STABILITY = ["--objectives", "pg_is", "dppo_tv", "--rates", "3e-4", "--epochs", "1", "--seeds", "1", "--tokens", "900"]


def command(name: str, folder: Path) -> list[str]:
    """Of a short study whose table is ``folder/table.csv``."""
    if name == "stability":
        return [sys.executable, "-m", "rlnotes", "stability", *STABILITY, "--out", str(folder)]
    script = folder.parent / "comparison.py"
    script.write_text(COMPARE, encoding="utf-8")
    return [sys.executable, str(script), str(folder)]


@pytest.mark.parametrize("name", ["compare", "stability"])
def test_a_killed_study_goes_on_to_the_same_table(tmp_path: Path, name: str):
    started = time.monotonic()
    subprocess.run(command(name, tmp_path / "whole"), check=True, capture_output=True)
    seconds, expected = time.monotonic() - started, (tmp_path / "whole" / "table.csv").read_bytes()
    moments = random.Random(name)
    for trial in range(3):
        folder = tmp_path / str(trial)
        with running(*command(name, folder)) as process:
            time.sleep(moments.uniform(0.3, 1.0) * seconds)
            process.kill()
            process.wait()
            ended = subprocess.run(command(name, folder), capture_output=True, text=True, encoding="utf-8")
        assert ended.returncode == 0, ended.stderr
        assert (folder / "table.csv").read_bytes() == expected
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@linux
def test_the_workers_of_a_killed_study_end_too(tmp_path: Path):
    with running(*command("compare", tmp_path / "table")) as process:
        wait_for_spawned(process.pid, 1)
        process.kill()
        process.wait()
        wait_until_gone(process.pid)
