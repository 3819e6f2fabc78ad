"""A run of a real model: it learns, goes on to the same bits, and refuses in one line what it cannot do."""

# pyright: reportMissingImports=false

import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlnotes import cli
from rlnotes.bridge.real import models
from rlnotes.bridge.real import trainer as trainers
from rlnotes.bridge.real.config import RealConfig
from rlnotes.bridge.real.trainer import RealTrainer
from rlnotes.lm.checkpoint import BrokenCheckpoint
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.logs import read
from tests.bridge.with_model import tiny

pytestmark = pytest.mark.extras

TIMES = ("seconds", "sampling_seconds", "tokens_per_second")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.folder(tmp_path_factory.mktemp("model"))


def weights(trainer: RealTrainer) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


def without_times(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def test_it_goes_on_to_the_same_bits(place: str, tmp_path: Path):
    """With an old sampler of few bits, so that its weights matter, too."""
    settings = dict(refresh=2, rollout_weights="int4", epochs=2, minibatches=2, recipe="minirl", spread=4)
    config = tiny.config(place, **settings, measure_shift=True, count_clipped=True, evaluate_every=2)
    whole = RealTrainer(config)
    rows = list(whole.run())
    part = RealTrainer(replace(config, steps=1))
    list(recorded(part, tmp_path))
    again = RealTrainer.load(tmp_path / "checkpoints", steps=3)
    list(recorded(again, tmp_path))
    assert torch.equal(weights(whole), weights(again))
    kept, made = without_times(read_metrics(tmp_path)), without_times(rows)
    for name in ("accuracy", "greedy"):  # the shorter run measured at its own end, too
        for row in (*kept, *made):
            row.pop(name, None)
    assert kept == made
    assert [row["lag"] for row in rows] == [0, 4, 0]
    assert rows[-1]["mismatch"] > 1e-3 and rows[1]["kl_steps"] != 0 and math.isfinite(rows[-1]["ess"])


def test_what_is_paid_rises(place: str, monkeypatch: pytest.MonkeyPatch):
    """Here digits are paid for."""
    monkeypatch.setattr(trainers, "reward", lambda *given: sum(map(str.isdigit, given[2])) / 6)
    config = tiny.config(
        place, steps=40, prompts=4, group_size=8, recipe="rloo", learning_rate=3e-3, evaluate_every=1000
    )
    rows = list(RealTrainer(replace(config, heldout=1)).run())
    first, last = (sum(row["reward"] for row in part) / 5 for part in (rows[:5], rows[-5:]))
    assert last > first + 0.2


def test_commands_make_go_on_with_show_and_read_a_run(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    small = ["--prompts", "2", "--group-size", "2", "--heldout", "2", "--length", "4", "--device", "cpu"]
    made = ["real", "--model", place, "--task", "add", "--recipe", "dppo_tv", "--out", str(out), *small]
    assert cli.main([*made, "--steps", "2"]) == 0
    said = capsys.readouterr()
    assert "seconds a step of 2 questions on this CPU" in said.err and "step 2: held-out accuracy" in said.out
    assert cli.main(["resume", "--out", str(out), "--steps", "3"]) == 0
    assert cli.main(["sample", "--out", str(out), "--prompts", "2", "--temperature", "0"]) == 0
    assert "Answer with the number only." in capsys.readouterr().out
    assert [row["step"] for row in read_metrics(out)] == [1, 2, 3]
    assert {"reward", "entropy", "kl_old", "mismatch_prob", "length"} <= set(read(out).log.series)
    assert cli.main(made) == 2
    assert "already holds a run" in capsys.readouterr().err


def test_a_torn_checkpoint_is_named_with_the_older_one(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    list(recorded(RealTrainer(tiny.config(place, steps=1)), tmp_path))
    newest = tmp_path / "checkpoints" / "step_00000001" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.raises(BrokenCheckpoint, match="step_00000000"):
        RealTrainer.load(tmp_path / "checkpoints")
    assert cli.main(["resume", "--out", str(tmp_path)]) == 2
    assert "--checkpoint step_00000000" in capsys.readouterr().err


def test_a_checkpoint_of_other_settings_or_shapes_is_refused(place: str, tmp_path: Path):
    list(recorded(RealTrainer(tiny.config(place, steps=1)), tmp_path))
    state = tmp_path / "checkpoints" / "step_00000001" / "state.json"
    kept = json.loads(state.read_text(encoding="utf-8"))
    for change, message in (
        (dict(task="nothing"), "unknown task"),
        (dict(refresh=2), "lacks sampler."),
        (dict(prompts="two"), "prompts is 'two'"),
    ):
        state.write_text(json.dumps(kept | dict(config=kept["config"] | change)), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            RealTrainer.load(tmp_path / "checkpoints")


def without_weights(place: Path) -> str:
    tiny.folder(place)
    (place / "model.safetensors").unlink()
    return str(place)


def without_end(place: Path) -> str:
    tiny.folder(place)
    made = tiny.tokenizer()
    made.eos_token = None
    made.save_pretrained(place)
    return str(place)


PLACES: dict[str, Callable[[Path], str]] = {
    "none": lambda place: str(place / "none"),
    "empty": str,
    "no weights": without_weights,
    "no template": lambda place: tiny.folder(place, template=None),
    "no 7": lambda place: tiny.folder(place, characters=tiny.CHARACTERS.replace("7", "")),
    "no end": without_end,
    "short": lambda place: tiny.folder(place, max_position_embeddings=40),
    "narrow": lambda place: tiny.folder(place, hidden_size=48),
    "good": tiny.folder,
}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("none", {}, "does not exist; give a folder that save_pretrained wrote"),
        ("empty", {}, "holds neither a config.json nor one GGUF file"),
        ("no weights", {}, "is no causal language model that transformers can read"),
        ("no template", {}, "has no chat template; ask without one (--plain)"),
        ("no 7", {}, "cannot write"),
        ("no end", {}, "has no token that ends a text"),
        ("short", {}, "reads 40 tokens at most"),
        ("narrow", dict(rollout_weights="int4"), "no multiple of 32"),
        ("good", dict(task="nothing"), "unknown task 'nothing'; choose one of add"),
        ("good", dict(recipe="nothing"), "unknown recipe 'nothing'"),
        ("good", dict(recipe="dppo_topk_tv"), "only the sampled token is recorded here"),
        ("good", dict(length=3), "make length larger"),
        ("good", dict(device="cuda:77"), "device is 'cuda:77', a GPU, and torch finds"),
        ("good", dict(prompts=3, minibatches=2), "minibatches 2 does not divide prompts 3"),
        ("good", dict(group_size=1), "group_size is 1"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(
    kind: str, options: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "model").mkdir()
    place = PLACES[kind](tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    small = dict(steps=1, prompts=2, group_size=2, heldout=1, device="cpu") | options
    line = [word for name, value in small.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert cli.main(["real", "--model", place, "--out", str(tmp_path / "run"), *line]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_without_a_template_can_be_asked_plainly(tmp_path: Path):
    config = tiny.config(tiny.folder(tmp_path, template=None), plain=True, steps=1)
    assert next(RealTrainer(config).run())["step"] == 1


def test_a_disk_without_room_is_one_line(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(trainers.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    line = ["--steps", "1", "--prompts", "2", "--group-size", "2", "--heldout", "1", "--device", "cpu"]
    assert cli.main(["real", "--model", place, "--out", str(tmp_path / "run"), *line]) == 2
    assert "GB free, and the checkpoints of this model need" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pass_at_k_is_that_of_the_samples(place: str, monkeypatch: pytest.MonkeyPatch):
    trainer = RealTrainer(tiny.config(place, heldout=4))
    said = [(None, "", right) for right in (True, False, False, False)]
    monkeypatch.setattr(trainer, "answers", lambda prompts, samples: said)
    assert trainer.pass_at(k=2, samples=4) == 0.5


def test_looking_does_not_disturb(place: str):
    config = tiny.config(place, steps=2)
    quiet, looked = RealTrainer(replace(config, evaluate_every=1000)), RealTrainer(replace(config, evaluate_every=1))
    list(quiet.run())
    looked.expected()
    for _ in looked.run():
        looked.pass_at(k=1, samples=2)
    assert torch.equal(weights(quiet), weights(looked))


@pytest.mark.parametrize(("steps", "every"), [(0, 2), (1, 2), (2, 2), (3, 2), (4, 2)])
def test_how_often_is_measured_is_known_before(place: str, steps: int, every: int, monkeypatch: pytest.MonkeyPatch):
    trainer, measured = RealTrainer(tiny.config(place, steps=steps, evaluate_every=every)), []
    monkeypatch.setattr(trainer, "accuracies", lambda: measured.append(trainer.step) or {})
    list(trainer.run())
    assert trainer.measurements() == len(measured)


def test_what_a_cpu_is_asked_for_is_little_and_said_whole(place: str, monkeypatch: pytest.MonkeyPatch):
    """As long as responses take, so long a step and a measurement are said to take."""
    config = RealConfig(place, length=6, device="cpu")
    trainer = RealTrainer(config)
    assert (trainer.config.prompts, trainer.config.heldout) == (4, 64)
    gpu, given = config.on("cuda:1"), replace(config, prompts=7, heldout=9).on("cuda")
    assert (gpu.prompts, gpu.heldout, given.prompts, given.heldout) == (32, 512, 7, 9)
    with pytest.raises(ValueError, match="minibatches 8 does not divide prompts 4"):
        RealTrainer(replace(config, minibatches=8))
    answers, waits = trainer.answers, 0.3
    monkeypatch.setattr(trainer, "answers", lambda *given: (time.sleep(waits), answers(*given)))
    step, measuring = trainer.expected()  # from 2 x 16 responses
    assert step > 2 * waits and measuring > 4 * waits  # 4 x 16, and 2 x 64


def test_nothing_is_said_while_a_model_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    """Neither of spaces that a tokenizer would take away, nor of the tensors of a GGUF file; errors are."""
    place = tiny.folder(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | dict(clean_up_tokenization_spaces=True)), "utf-8")
    read_whole = models.AutoModelForCausalLM.from_pretrained
    gguf: Any = models.modeling_gguf_pytorch_utils

    def with_bar(*given: Any, **options: Any) -> Any:
        list(gguf.tqdm([1, 2], desc="tensors"))
        return read_whole(*given, **options)

    plain = gguf.tqdm
    capfd.readouterr()  # of the writing
    monkeypatch.setattr(models.AutoModelForCausalLM, "from_pretrained", with_bar)
    loaded = models.load(place)
    assert loaded.tokenizer.decode([5]) and capfd.readouterr().err == "" and gguf.tqdm is plain


def test_settings_are_told_apart(place: str):
    settings: list[dict[str, Any]] = [
        dict(length=1), dict(refresh=0), dict(spread=9), dict(paid="much"), dict(device="gpu")
    ]  # fmt: skip
    for wrong in settings:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            RealConfig(place, **wrong)
