"""The generator on a small repository that the test makes: no library is needed."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.golden import arrays, manifest
from tests.golden.make import __main__ as command
from tests.golden.make.batches import Case, Made
from tests.golden.make.inputs import SPREADS, batch
from tests.golden.make.source import Repository, SourceError, locals_of

LOSS = """
import math
from dataclasses import dataclass

import heavy.engine as engine
import torch
from small.tools import masked_mean
from .tools import *

SCALE = {scale}


@dataclass
class Options:
    width: float | None = None


@engine.register("loss")
def decorated(x):
    return x


@torch.compile
def loss(logp, mask: engine.Mask | None):
    weighted = -SCALE * logp
    return masked_mean(weighted, mask)


def uses_the_engine():
    return engine.run()


class Trainer:
    @staticmethod
    def scaled(x):
        return SCALE * x

    def step(self, rewards):
        for _ in range(1):
            kept = 0
            mean = rewards.mean()
            advantages = rewards - mean
            raise RuntimeError(engine.send(advantages))
"""
TOOLS = "def masked_mean(x, mask):\n    return (x * mask).sum() / mask.sum()\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def library(tmp_path: Path) -> tuple[Path, str]:
    """A repository with two commits, and the first of them."""
    git(tmp_path, "init", "-q")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "tools.py").write_text(TOOLS, encoding="utf-8")
    for scale in (1.0, 2.0):
        (tmp_path / "small" / "loss.py").write_text(LOSS.replace("{scale}", str(scale)), encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", f"scale {scale}")
    return tmp_path, git(tmp_path, "rev-parse", "HEAD~1").strip()


def entry(commit: str, file: str = "small/loss.py") -> dict[str, object]:
    return {
        "id": "oat/tiny_loss@tiny",
        "peer": "oat",
        "commit": commit,
        "file": file,
        "function": "loss",
        "batch": "tiny",
    }


def adapter(case: Case) -> Made:
    code, logp = case.code(), case.leaf()
    value, seen = locals_of(code["loss"], lambda: code["loss"](logp, case.mask))
    return {"loss": value, "per_token": seen["weighted"]}


def stored(scale: float) -> dict[str, np.ndarray]:
    logp, mask = arrays()["in/tiny/logp"], arrays()["in/tiny/mask"]
    return {
        "oat/tiny_loss@tiny/loss": np.asarray(-scale * (logp * mask).sum() / mask.sum()),
        "oat/tiny_loss@tiny/per_token": -scale * logp,
    }


def made(monkeypatch: pytest.MonkeyPatch, folder: Path, case: dict[str, object], scale: float) -> command.Run:
    monkeypatch.setitem(command.ADAPTERS, "oat", {"loss": adapter})
    return command.make({"oat": folder}, [case], stored(scale))


def test_a_function_is_taken_at_the_commit_and_compared(library, monkeypatch):
    folder, commit = library
    run = made(monkeypatch, folder, entry(commit), 1.0)
    assert not (run.different or run.not_made or run.errors)
    np.testing.assert_allclose(run.arrays["oat/tiny_loss@tiny/loss"], stored(1.0)["oat/tiny_loss@tiny/loss"], 1e-12)


def test_another_commit_gives_other_numbers(library, monkeypatch):
    folder, _ = library
    run = made(monkeypatch, folder, entry(git(folder, "rev-parse", "HEAD").strip()), 1.0)
    assert set(run.different["oat/tiny_loss@tiny"]) == {"loss", "per_token"}
    lines = list(command.report(run, [entry("")]))
    assert lines[1].split() == ["oat", "1", "0", "0", "1", "0"]
    assert any(line.startswith("different: oat/tiny_loss@tiny: loss by") for line in lines)


def test_an_output_that_is_not_made_is_a_difference(library, monkeypatch):
    folder, commit = library
    monkeypatch.setitem(command.ADAPTERS, "oat", {"loss": lambda case: {"loss": adapter(case)["loss"]}})
    run = command.make({"oat": folder}, [entry(commit)], stored(1.0))
    assert list(run.different["oat/tiny_loss@tiny"]) == ["per_token"]


def test_an_absent_commit_names_library_commit_and_folder(library, monkeypatch):
    folder, _ = library
    absent = "0" * 40
    with pytest.raises(SourceError, match=f"^oat: commit {absent} is not in {folder}: give a git directory"):
        Repository("oat", folder, absent)
    run = made(monkeypatch, folder, entry(absent), 1.0)
    assert run.errors == {run.not_made["oat/tiny_loss@tiny"]} and f"commit {absent}" in run.errors.pop()


def test_an_absent_file_names_library_file_and_commit(library, monkeypatch):
    folder, commit = library
    run = made(monkeypatch, folder, entry(commit, "small/gone.py"), 1.0)
    assert run.not_made["oat/tiny_loss@tiny"] == f"oat: no file small/gone.py at commit {commit} in {folder}"


def test_a_library_without_a_folder_is_not_made_and_no_failure():
    run = command.make({}, [entry("")], {})
    assert run.not_made == {"oat/tiny_loss@tiny": "no folder given: oat=PATH"} and not run.errors


def test_what_is_heavy_is_a_stub_that_fails_when_it_is_called(library):
    folder, commit = library
    code = Repository("oat", folder, commit).code("small/loss.py")
    with pytest.raises(SourceError, match=r"heavy\.engine\.run is a stub"):
        code["uses_the_engine"]()
    with pytest.raises(SourceError, match=r"heavy\.engine\.register is a stub"):
        code["decorated"]


def test_classes_methods_and_blocks(library):
    folder, commit = library
    code = Repository("oat", folder, commit).code("small/loss.py")
    assert code["Options"]().width is None
    assert code.method("Trainer", "scaled")(3.0) == 3.0
    block = code.block("step", "mean =", "advantages =", "rewards")
    np.testing.assert_array_equal(block(np.array([1.0, 3.0]))["advantages"], [-1.0, 1.0])
    with pytest.raises(SourceError, match=r"no statements from 'mean' to 'gone' in small/loss\.py"):
        code.block("step", "mean", "gone", "rewards")
    with pytest.raises(SourceError, match="no function gone in"):
        code.block("gone", "mean", "mean", "rewards")
    with pytest.raises(SourceError, match="0 definitions of gone"):
        code.method("Trainer", "gone")


@pytest.mark.parametrize("name", SPREADS)
def test_seeded_batches_are_the_stored_ones(name: str):
    for key, value in batch(name).items():
        assert command.difference(value, arrays()[f"in/{name}/{key}"]) <= command.TOLERANCE, key


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([np.inf], [-np.inf])])
def test_what_cannot_be_compared_is_infinitely_different(a, b):
    assert command.difference(np.array(a), np.array(b)) == np.inf


def test_differences_are_relative_above_one():
    assert command.difference(np.array([100.0, np.nan]), np.array([101.0, np.nan])) == pytest.approx(1 / 101)
    assert command.difference(np.array([1.0], np.float32), np.array([1.0])) == np.inf


def test_every_case_of_the_manifest_has_an_adapter():
    for case in manifest().values():
        assert command.adapter_of(case)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone=."], "'gone=.': give LIBRARY=PATH with one of oat, openrlhf"),
        (["oat=/no/such/folder"], "no folder /no/such/folder: give the library's git directory"),
        (["oat=."], "nothing to do: give --out DIR, --check or both"),
    ],
)
def test_arguments_that_are_wrong_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err
