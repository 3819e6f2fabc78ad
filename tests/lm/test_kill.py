"""A run that is killed without warning keeps its checkpoints."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rlnotes.lm.checkpoint import latest_checkpoint, load_checkpoint
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.lm.trainer import Trainer

TRAIN = [sys.executable, "-c", "from rlnotes.cli import main; raise SystemExit(main())", "train"]
SMALL = ["--prompts", "4", "--group-size", "4", "--steps", "100000", "--checkpoint-every", "3"]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def start(out: Path) -> subprocess.Popen:
    return subprocess.Popen([*TRAIN, "--out", str(out), *SMALL], stderr=subprocess.PIPE, text=True)


def wait_for_lines(process: subprocess.Popen, log: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while lines(log) < count:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.002)


@pytest.mark.parametrize("after", [4, 11, 17])
def test_kill_loses_at_most_the_steps_since_the_last_checkpoint(tmp_path, after):
    process = start(tmp_path)
    wait_for_lines(process, tmp_path / "metrics.jsonl", after)
    process.kill()
    process.communicate()
    done = lines(tmp_path / "metrics.jsonl")
    load_checkpoint(latest_checkpoint(tmp_path / "checkpoints"))
    trainer = Trainer.load(tmp_path / "checkpoints", steps=done + 2)
    # a kill can fall between the log line of a step and its checkpoint, so one interval may be lost, and no more
    assert done - 4 <= trainer.step <= done
    list(recorded(trainer, tmp_path))
    whole = Trainer(TrainConfig(prompts=4, group_size=4, steps=done + 2))
    expected = [row | dict(seconds=0.0) for row in whole.run()]
    assert [row | dict(seconds=0.0) for row in read_metrics(tmp_path)] == expected  # each step once, to the last bit
    for name, weight in trainer.model.state_dict().items():
        assert torch.equal(weight, whole.model.state_dict()[name]), name


def test_interrupt_saves_and_says_how_to_go_on(tmp_path):
    process = start(tmp_path)
    wait_for_lines(process, tmp_path / "metrics.jsonl", 5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"rlnotes resume --out {tmp_path}" in errors
    assert Trainer.load(tmp_path / "checkpoints").step == len(read_metrics(tmp_path))
