"""Checkpoints that cannot be used, and checkpoints of another device."""

import json
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlnotes.cli import main
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.checkpoint import STATE, TENSORS, BrokenCheckpoint
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import RECIPES

SMALL = TrainConfig(prompts=2, group_size=2, steps=2)
REFUSED = 2  # the exit status of a command that cannot be done
OLDER, NEWEST = "step_00000001", "step_00000002"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("made")
    list(recorded(Trainer(SMALL), out, checkpoint_every=1))
    return out


@pytest.fixture
def out(made, tmp_path) -> Path:
    """A run of two steps in a folder of its own, whose name has a space."""
    return Path(shutil.copytree(made, tmp_path / "a run"))


def change_state(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def changed(path: Path) -> None:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        change(state)
        (path / STATE).write_text(json.dumps(state), encoding="utf-8")

    return changed


def change_tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def changed(path: Path) -> None:
        tensors = load_file(path / TENSORS)
        change(tensors)
        save_file(tensors, path / TENSORS)

    return changed


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


NAN = torch.tensor(torch.nan)
FAULTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no tensors": (lambda path: (path / TENSORS).unlink(), TENSORS, "is missing"),
    "no state": (lambda path: (path / STATE).unlink(), STATE, "is missing"),
    "empty tensors": (lambda path: emptied(path / TENSORS), TENSORS, "cannot be read"),
    "empty state": (lambda path: emptied(path / STATE), STATE, "cannot be read"),
    "cut tensors": (lambda path: cut(path / TENSORS, 0.7), TENSORS, "cannot be read"),
    "cut state": (lambda path: cut(path / STATE, 0.7), STATE, "cannot be read"),
    "not JSON": (lambda path: (path / STATE).write_bytes(b"\xff\xfe{}"), STATE, "cannot be read"),
    "a list": (lambda path: (path / STATE).write_text("[]", encoding="utf-8"), STATE, "holds no settings"),
    "unknown setting": (change_state(lambda s: s["config"].update(speed=3)), STATE, "has the setting 'speed', which"),
    "unknown field": (change_state(lambda s: s.update(speed=3)), STATE, "has the field 'speed', which"),
    "missing setting": (change_state(lambda s: s["config"].pop("seed")), STATE, "lacks the setting 'seed'"),
    "missing field": (change_state(lambda s: s.pop("step")), STATE, "lacks the field 'step'"),
    "a word for a number": (change_state(lambda s: s.update(step="two")), STATE, "has step 'two', which must be a"),
    "a setting that cannot be": (change_state(lambda s: s["config"].update(prompts=0)), STATE, "prompts is 0"),
    "wrong version": (change_state(lambda s: s.update(format=99)), STATE, "is of format 99, and this version"),
    "another shape": (
        change_tensors(lambda t: t.update({"model.head.weight": torch.zeros(3, 4)})),
        TENSORS,
        r"has model\.head\.weight of shape \(3, 4\), torch\.float32; here it is",
    ),
    "another type": (
        change_tensors(lambda t: t.update({"model.head.weight": t["model.head.weight"].double()})),
        TENSORS,
        r"has model\.head\.weight of shape .*float64; here it is",
    ),
    "a missing tensor": (
        change_tensors(lambda t: t.pop("model.head.weight")),
        TENSORS,
        r"lacks model\.head\.weight",
    ),
    "a missing moment": (change_tensors(lambda t: t.pop("optimizer.3.step")), TENSORS, r"lacks optimizer\.3\.step"),
    "an unknown tensor": (change_tensors(lambda t: t.update(x=torch.ones(1))), TENSORS, "holds x, for which there is"),
    "nan": (change_tensors(lambda t: t["model.head.weight"][0].fill_(NAN)), TENSORS, "head.weight that are not finite"),
    "inf": (
        change_tensors(lambda t: t["optimizer.0.exp_avg"].fill_(torch.inf)),
        TENSORS,
        r"optimizer\.0\.exp_avg that are not finite",
    ),
    "no random state": (change_tensors(lambda t: t["rng.data"].fill_(255)), TENSORS, "has no state of a generator"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_checkpoint_is_named_and_the_older_one_goes_on(out, fault):
    spoil, file, wrong = FAULTS[fault]
    spoil(out / "checkpoints" / NEWEST)
    with pytest.raises(BrokenCheckpoint, match=wrong) as raised:
        Trainer.load(out / "checkpoints")
    message = str(raised.value)
    assert message.startswith(str(out / "checkpoints" / NEWEST / file)) and "\n" not in message
    assert message.endswith(f"load with checkpoint='{OLDER}'")
    assert Trainer.load(out / "checkpoints", checkpoint=OLDER).step == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_the_command_line_offers_the_command_that_goes_on(out, fault, monkeypatch, capsys):
    spoil, file, wrong = FAULTS[fault]
    spoil(out / "checkpoints" / NEWEST)
    whole = sorted(path.relative_to(out) for path in out.rglob("*"))
    for command in ("resume", "sample"):
        assert run(monkeypatch, command, "--out", str(out)) == REFUSED
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and re.search(wrong, error)
        assert f"{NEWEST}/{file} " in error.replace("\\", "/")
        offered = f"rlnotes {command} --out '{out}' --checkpoint {OLDER}"
        assert error.endswith(f"the one before it can be read: {offered}\n")
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == whole


def test_what_is_offered_goes_on_to_the_same_bits(out, made, monkeypatch, capsys):
    emptied(out / "checkpoints" / NEWEST / TENSORS)
    assert run(monkeypatch, "resume", "--out", str(out), "--checkpoint", OLDER) == 0
    again, whole = (Trainer.load(folder / "checkpoints") for folder in (out, made))
    assert again.step == whole.step == 2
    assert all(torch.equal(weight, whole.tensors()[name]) for name, weight in again.tensors().items())
    assert [row["step"] for row in read_metrics(out)] == [1, 2]
    aside = out / "checkpoints" / f"{NEWEST}.aside1"
    assert sorted(path.name for path in aside.iterdir()) == [STATE, TENSORS]
    assert run(monkeypatch, "sample", "--out", str(out), "--prompts", "1") == 0
    assert run(monkeypatch, "sample", "--out", str(out), "--checkpoint", "step_00000009") == REFUSED
    assert (
        f"no checkpoint step_00000009 in {out / 'checkpoints'}; there are {OLDER}, {NEWEST}" in capsys.readouterr().err
    )


def test_where_no_older_one_can_be_read_none_is_offered(out):
    for name in (OLDER, NEWEST):
        emptied(out / "checkpoints" / name / TENSORS)
    with pytest.raises(BrokenCheckpoint, match="there is no older one that can be read: start the run again"):
        Trainer.load(out / "checkpoints")


@pytest.mark.parametrize("seed", range(20))
def test_a_run_of_random_settings_goes_on_to_the_same_bits(tmp_path, seed):
    draw = random.Random(seed)
    settings: dict[str, Any] = dict(
        recipe=draw.choice(sorted(name for name, choices in RECIPES.items() if not choices.needs_whole_batch)),
        task=draw.choice(["reverse", "sort", "needle", "countdown"]),
        preset=draw.choice(["tiny", "moe-top2"]),
        epochs=draw.choice([1, 2]),
        minibatches=draw.choice([1, 2]),
        temperature=draw.choice([0.7, 1.0]),
        top_k=draw.choice([None, 5]),
        rollout_weights=draw.choice(["float32", "int8"]),
        lags=draw.choice([(), (0, 2)]),
        lora_rank=draw.choice([0, 2]),
        warm_start=draw.choice(["train", "none"]),
        warm_limit=3,
        warm_batch=4,
        seed=draw.randrange(2**31),
    )
    config = TrainConfig(prompts=4, group_size=2, steps=3, **settings)
    whole, first = Trainer(config), Trainer(config)
    expected, run = list(whole.run()), first.run()
    cut = draw.randrange(1, len(expected))
    for _ in range(cut):
        next(run)
    first.save(tmp_path)
    again = Trainer.load(tmp_path)
    for row, wanted in zip(again.run(), expected[cut:], strict=True):
        assert row | dict(seconds=0) == wanted | dict(seconds=0)
    saved, wanted = again.tensors(), whole.tensors()
    assert saved.keys() == wanted.keys()
    assert all(torch.equal(saved[name], wanted[name]) for name in wanted)


# --- Another device


@pytest.fixture
def of_a_gpu(out) -> Path:
    """The run as a GPU would have kept it."""

    def random_state(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["rng.sample.cpu"]
        tensors["rng.sample.cuda"] = torch.arange(16, dtype=torch.uint8)  # seed and offset

    path = out / "checkpoints" / NEWEST
    change_tensors(random_state)(path)
    change_state(lambda state: state["config"].update(device="cuda:1", precision="bfloat16", cuda_graph=True))(path)
    return out


@pytest.mark.parametrize("trainer", [Trainer, AsyncTrainer])
def test_a_run_of_a_gpu_goes_on_on_a_cpu_and_keeps_its_random_state(of_a_gpu, trainer, capsys):
    folder = of_a_gpu / "checkpoints"
    before = load_file(folder / NEWEST / TENSORS)
    on_cpu = trainer.load(folder, device="cpu")
    (line,) = capsys.readouterr().err.splitlines()
    assert "a run of device cuda:1 goes on with device cpu, not bit for bit" in line
    assert "the random numbers of tokens begin there; precision bfloat16 becomes float32" in line
    assert on_cpu.config == replace(SMALL, cuda_graph=True)
    after = on_cpu.tensors()
    assert torch.equal(after.pop("rng.sample.cpu"), Trainer(SMALL).generator.get_state())
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_who_comes_back_finds_the_random_state_that_was_left(of_a_gpu, tmp_path, capsys):
    path = Trainer.load(of_a_gpu / "checkpoints", device="cpu").save(tmp_path / "moved")
    capsys.readouterr()
    tensors = load_file(path / TENSORS)
    assert torch.equal(tensors["rng.sample.cuda"], torch.arange(16, dtype=torch.uint8))
    change_state(lambda state: state["config"].update(device="cuda"))(path)  # as if it had been there once more
    again = Trainer.load(tmp_path / "moved", device="cpu")
    assert "random numbers of tokens go on there" in capsys.readouterr().err
    assert torch.equal(again.generator.get_state(), tensors["rng.sample.cpu"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a GPU")
def test_a_run_of_a_gpu_says_how_to_go_on_without_one(of_a_gpu, monkeypatch, capsys):
    with pytest.raises(
        ValueError, match=r"was on device cuda:1, and torch finds no GPU here; load it with device='cpu'"
    ):
        Trainer.load(of_a_gpu / "checkpoints")
    for command in ("resume", "sample"):
        assert run(monkeypatch, command, "--out", str(of_a_gpu)) == REFUSED
        assert "--device cpu" in capsys.readouterr().err
    assert run(monkeypatch, "sample", "--out", str(of_a_gpu), "--device", "cpu", "--prompts", "2") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    with pytest.warns(UserWarning, match="a CUDA graph needs a GPU"):
        assert run(monkeypatch, "resume", "--out", str(of_a_gpu), "--device", "cpu", "--steps", "3") == 0
    assert [row["step"] for row in read_metrics(of_a_gpu)] == [1, 2, 3]


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rlnotes", *arguments])
    return main()
