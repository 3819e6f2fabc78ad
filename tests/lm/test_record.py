"""A run's folder holds one run, and its log each step once, whatever cut it."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.cli import main
from rlnotes.lm import record
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.lm.trainer import Trainer
from tests.processes import full_disk, writing

SMALL = TrainConfig(prompts=4, group_size=4, steps=3)


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files, but for the lock of who writes there."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lock")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def steps(out: Path) -> list[float]:
    return [row["step"] for row in read_metrics(out)]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Three steps, of which the newest checkpoint holds two."""
    out = tmp_path / "kept"
    run = recorded(Trainer(SMALL), out, checkpoint_every=2)
    for _ in range(3):
        next(run)
    killed = shutil.copytree(out, tmp_path / "killed", ignore=shutil.ignore_patterns(".lock*"))
    run.close()
    return killed


def test_another_run_is_refused_before_anything_is_changed(tmp_path: Path):
    list(recorded(Trainer(SMALL), tmp_path))
    before = contents(tmp_path)
    for config, said in (
        (
            replace(SMALL, seed=7, steps=2),
            r"holds another run \(steps 3, here 2; seed 0, here 7\); choose another folder",
        ),
        (SMALL, r"holds another run \(of the same settings\)"),
    ):
        with pytest.raises(ValueError, match=said):
            next(recorded(Trainer(config), tmp_path))
        with pytest.raises(ValueError, match=said):
            Trainer(config).save(tmp_path / "checkpoints")
    assert contents(tmp_path) == before
    list(recorded(Trainer.load(tmp_path / "checkpoints", steps=4), tmp_path))
    assert steps(tmp_path) == [1, 2, 3, 4]


def test_a_run_that_has_gone_on_elsewhere_is_refused(tmp_path: Path):
    run = recorded(Trainer(SMALL), tmp_path)
    next(run)
    run.close()
    behind = Trainer.load(tmp_path / "checkpoints")
    list(recorded(Trainer.load(tmp_path / "checkpoints"), tmp_path))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="holds step 3 of this run, which stands at 1 here; load it again"):
        next(recorded(behind, tmp_path))
    assert contents(tmp_path) == before


def test_a_second_writer_of_this_process_is_refused(tmp_path: Path):
    run = recorded(Trainer(SMALL), tmp_path)
    next(run)
    with pytest.raises(ValueError, match="is being written by process"):
        next(recorded(Trainer.load(tmp_path / "checkpoints"), tmp_path))
    with pytest.raises(ValueError, match="is being written by process"):
        Trainer.load(tmp_path / "checkpoints").save(tmp_path / "checkpoints")
    list(run)
    assert steps(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("kind", [Trainer, AsyncTrainer])
def test_no_trainer_saves_where_another_process_writes(tmp_path: Path, kind: type[Trainer]):
    with writing(tmp_path) as process:
        with pytest.raises(ValueError, match=f"is being written by process {process.pid} on"):
            kind(SMALL).save(tmp_path)
        assert contents(tmp_path) == {}


@pytest.mark.parametrize("command", [["resume"], ["train", "--steps", "1", "--prompts", "4", "--group-size", "4"]])
def test_a_command_is_refused_where_another_process_writes(tmp_path: Path, monkeypatch, capsys, command: list[str]):
    if command[0] == "resume":
        Trainer(SMALL).save(tmp_path / "checkpoints")
    with writing(tmp_path / "checkpoints") as process:
        before = contents(tmp_path)
        monkeypatch.setattr(sys, "argv", ["rlnotes", *command, "--out", str(tmp_path)])
        assert main() != 0
        said = capsys.readouterr().err
        assert f"is being written by process {process.pid} on" in said and said.count("\n") == 1
        assert contents(tmp_path) == before
        process.kill()
        process.wait()
        assert main() == 0


def test_metrics_of_a_run_whose_checkpoints_are_gone_stay(tmp_path: Path):
    list(recorded(Trainer(SMALL), tmp_path))
    shutil.rmtree(tmp_path / "checkpoints")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is of a run whose checkpoints are gone"):
        next(recorded(Trainer(SMALL), tmp_path))
    assert contents(tmp_path) == before and not (tmp_path / "checkpoints").exists()


@pytest.mark.filterwarnings("ignore:.*ends in the middle of a line")
def test_a_log_cut_at_any_byte_of_its_last_line_gives_each_step_once(kept: Path, tmp_path: Path):
    whole = (kept / "metrics.jsonl").read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    rows = read_metrics(kept)
    for cut in range(start, len(whole)):
        (kept / "metrics.jsonl").write_bytes(whole[:cut])
        assert read_metrics(kept) == rows[: 3 if cut == len(whole) - 1 else 2]
    for cut in (*range(start, len(whole), 60), len(whole) - 1):
        out = shutil.copytree(kept, tmp_path / str(cut))
        (out / "metrics.jsonl").write_bytes(whole[:cut])
        list(recorded(Trainer.load(out / "checkpoints"), out))
        assert steps(out) == [1, 2, 3]
        assert (out / "metrics.jsonl").read_bytes().count(b"\n") == 3


def test_a_mark_a_blank_line_and_a_missing_line_break_drop_nothing(kept: Path):
    log = kept / "metrics.jsonl"
    first, second, third = log.read_bytes().splitlines()
    log.write_bytes(b"\xef\xbb\xbf" + first + b"\r\n\n  \n" + second + b"\n" + third)
    assert steps(kept) == [1, 2, 3]
    list(recorded(Trainer.load(kept / "checkpoints", steps=4), kept))
    assert steps(kept) == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", [b'{"phase": 1, "st', b"[]", b'{"step": 2}', b"\x00\x00"])
def test_a_broken_line_in_the_middle_is_named_and_nothing_is_dropped(kept: Path, broken: bytes):
    log = kept / "metrics.jsonl"
    first, _, third = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join((first, broken, third, b"")))
    before = contents(kept)
    with pytest.raises(ValueError, match=re.escape("metrics.jsonl, line 2, holds no metrics of a step; mend it")):
        next(recorded(Trainer.load(kept / "checkpoints"), kept))
    assert contents(kept) == before


@pytest.fixture
def without_tensorboard(monkeypatch):
    """Its thread of its own complains of a full disk, too."""
    monkeypatch.setattr(record, "_tensorboard", lambda out: None)


@pytest.mark.usefixtures("without_tensorboard")
def test_a_full_disk_loses_no_step_and_doubles_none(tmp_path: Path):
    run = recorded(Trainer(SMALL), tmp_path, checkpoint_every=2)
    next(run)
    size = (tmp_path / "metrics.jsonl").stat().st_size
    with pytest.raises(OSError, match=r"metrics\.jsonl"), full_disk(size + 20):
        next(run)
    assert steps(tmp_path) == [1]
    list(recorded(Trainer.load(tmp_path / "checkpoints", steps=3), tmp_path))
    assert steps(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("room", [0, 100, 10_000])
def test_a_disk_that_is_full_while_a_checkpoint_is_saved_leaves_the_older_one(tmp_path: Path, room: int):
    folder = tmp_path / "checkpoints"
    trainer = Trainer(SMALL)
    trainer.save(folder)
    before = contents(tmp_path)
    next(trainer.run())
    with full_disk(room), pytest.raises(OSError, match=r"step_00000001 cannot be written \(.*large.*\); make room"):
        trainer.write_checkpoint(folder)
    assert contents(tmp_path) == before and [path.name for path in folder.iterdir()] == ["step_00000000"]
    assert Trainer.load(folder).step == 0
    trainer.save(folder)
    assert Trainer.load(folder).step == 1


def broken(*_: object) -> object:
    raise RuntimeError("a step that fails")


@pytest.mark.parametrize("room", [0, 10_000])
def test_a_run_whose_first_checkpoint_finds_no_room_is_one_line_and_leaves_no_folder(tmp_path: Path, capsys, room: int):
    with full_disk(room):
        assert main(["train", "--out", str(tmp_path / "a" / "run"), "--steps", "1"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "a/run/checkpoints" in said
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_a_new_run_that_fails_in_its_first_step_leaves_what_was_there(tmp_path: Path, monkeypatch, there: bool):
    out = tmp_path / "run"
    if there:
        out.mkdir()
        (out / "notes.txt").touch()
    monkeypatch.setattr(Trainer, "rl_step", broken)
    with pytest.raises(RuntimeError, match="a step that fails"):
        list(recorded(Trainer(SMALL), out))
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "notes.txt"] * there


def test_a_run_that_fails_later_or_goes_on_keeps_what_it_has(tmp_path: Path, monkeypatch):
    run = recorded(Trainer(SMALL), tmp_path)
    next(run)
    monkeypatch.setattr(Trainer, "rl_step", broken)
    with pytest.raises(RuntimeError, match="a step that fails"):
        next(run)
    assert steps(tmp_path) == [1]
    with pytest.raises(RuntimeError, match="a step that fails"):
        list(recorded(Trainer.load(tmp_path / "checkpoints"), tmp_path))
    assert Trainer.load(tmp_path / "checkpoints").step == 0
