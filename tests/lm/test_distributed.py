"""Several processes, one batch: the run of one process, up to the order of sums."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed as dist

from rlnotes.cli import follow, main
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.distributed import ParallelTrainer, check, launched, own_device, trainer_class
from rlnotes.lm.model import Transformer
from rlnotes.lm.progress import watched
from rlnotes.lm.record import read_metrics
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import warm_loss
from rlnotes.objectives import GRPO
from tests.lm.parallel import CASES, SMALL, outcome
from tests.processes import linux

ROOT = Path(__file__).parents[2]
LINES = ["--prompts", "4", "--group-size", "4"]
several = pytest.mark.skipif(sys.platform == "win32", reason="PyTorch's wheels for Windows start without torchrun")


@contextlib.contextmanager
def torchrun(processes: int, *arguments: str) -> Iterator[subprocess.Popen]:
    """So many processes, each with ``python -m`` ``arguments``. torchrun ends them when it is told to end."""
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m", *arguments]
    environment = os.environ | dict(OMP_NUM_THREADS="1")
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def outcomes(folder: Path, processes: int, *cases: str) -> dict[str, list[dict[str, Any]]]:
    """Of each case, what each of several processes found, and of their threads."""
    with torchrun(processes, "tests.lm.parallel", str(folder), *cases) as process:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return {
        case: [torch.load(folder / f"{case} {rank}.pt") for rank in range(processes)] for case in (*cases, "threads")
    }


@pytest.fixture(scope="module")
def of_two(tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    return outcomes(tmp_path_factory.mktemp("two"), 2, *CASES)


def assert_one_run(alone: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    assert [found["rank"] for found in ranks] == list(range(len(ranks)))
    for found in ranks:
        assert torch.equal(found["tokens"], alone["tokens"])
        assert torch.equal(found["weights"], ranks[0]["weights"])  # to the bit: or they would part
        assert found["rows"] == ranks[0]["rows"]
        assert (found["weights"] - alone["weights"]).abs().max() < 1e-5
        for row, expected in zip(found["rows"], alone["rows"], strict=True):
            assert row == pytest.approx(expected, rel=1e-3, abs=1e-5)
        if alone["counted"] is not None:
            assert torch.allclose(found["counted"], alone["counted"], rtol=1e-4)


@several
@pytest.mark.parametrize("case", CASES)
def test_two_processes_make_the_run_of_one(of_two, case):
    assert_one_run(outcome(case), of_two[case])


@linux
def test_who_left_has_no_thread_more_that_talks(of_two):
    """One that is there when Python ends, and frees a tensor, aborts the process."""
    for found in of_two["threads"]:
        assert any("gloo" in name for name in found["before"])
        assert not any("gloo" in name for name in found["after"])


@several
@pytest.mark.slow
def test_four_processes_make_the_run_of_one(tmp_path):
    cases = ["plain", "warm start", "old weights and noise"]
    found = outcomes(tmp_path, 4, *cases)
    for case in cases:
        assert_one_run(outcome(case), found[case])


def test_the_cases_are_what_they_are_called():
    """Else the test above would compare less than it says."""
    rows = {case: outcome(case)["rows"] for case in ("groups that teach are few", "dynamic sampling", "warm start")}
    assert max(row["wasted_groups"] for row in rows["groups that teach are few"]) >= 0.5  # a process has none
    assert max(row["rounds"] for row in rows["dynamic sampling"]) > 1
    assert any("accuracy" in row for row in rows["warm start"])
    assert outcome("likeliest tokens")["counted"].any()


@several
@pytest.mark.slow
def test_any_number_of_processes_goes_on_with_a_run_which_is_kept_once(tmp_path, monkeypatch):
    out = ["--out", str(tmp_path)]
    for processes, command in ((1, ["train", "--steps", "2", *LINES]), (2, ["resume", "--steps", "4"])):
        with torchrun(processes, "rlnotes", *command, *out) as process:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    monkeypatch.setattr(sys, "argv", ["rlnotes", "resume", "--steps", "6", *out])
    assert main() == 0
    whole = Trainer(TrainConfig(prompts=4, group_size=4, steps=6))
    expected = list(whole.run())
    logged = read_metrics(tmp_path)
    assert [row["step"] for row in logged] == [1, 2, 3, 4, 5, 6]
    assert [row["tokens"] for row in logged] == [row["tokens"] for row in expected]
    for name, weight in Trainer.load(tmp_path / "checkpoints").model.state_dict().items():
        assert torch.allclose(weight, whole.model.state_dict()[name], rtol=0, atol=1e-5), name


def wait_for_lines(process: subprocess.Popen, log: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while not log.exists() or len(log.read_text(encoding="utf-8").splitlines()) < count:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.01)


@several
def test_an_interrupt_ends_all_after_one_step_which_is_saved_once(tmp_path):
    steps = ["--steps", "3000", "--checkpoint-every", "3000"]
    with torchrun(2, "rlnotes", "train", "--out", str(tmp_path), *steps, *LINES) as process:
        wait_for_lines(process, tmp_path / "metrics.jsonl", 3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.count("stopped after step") == 1
    assert "Connection" not in errors  # nobody waited for one who was gone
    logged = read_metrics(tmp_path)
    trainer = Trainer.load(tmp_path / "checkpoints")
    assert trainer.step == len(logged) == logged[-1]["step"] < 3000
    (row,) = trainer.run(trainer.step + 1)
    assert row["step"] == len(logged) + 1


@linux
@pytest.mark.slow
def test_all_stop_where_one_is_interrupted(tmp_path):
    steps = ["--steps", "3000", "--checkpoint-every", "3000"]
    with torchrun(2, "rlnotes", "train", "--out", str(tmp_path), *steps, *LINES) as process:
        wait_for_lines(process, tmp_path / "metrics.jsonl", 3)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
        ranks = {child: Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children}
        (second,) = (child for child, variables in ranks.items() if b"RANK=1" in variables)
        os.kill(int(second), signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.count("stopped after step") == 1
    assert Trainer.load(tmp_path / "checkpoints").step == len(read_metrics(tmp_path)) < 3000


def test_somebodys_interrupt_is_everybodys(tmp_path):
    class Interrupted(Shard):
        def any(self, own: bool) -> bool:
            return trainer.step == 2

    trainer = Trainer(SMALL)
    trainer.shard = Interrupted()
    assert follow(trainer, tmp_path, checkpoint_every=20) == 130
    assert Trainer.load(tmp_path / "checkpoints").step == 2


@several
@pytest.mark.slow
def test_if_one_process_dies_the_others_end_and_the_run_can_be_gone_on_with(tmp_path):
    dying = "import os, sys; from rlnotes.lm import trainer, distributed; from rlnotes.cli import main\n"
    dying += "step = trainer.Trainer.rl_step\n"
    dying += "def rl_step(self):\n    if self.step == 4 and self.share.rank == 1: os._exit(7)\n    return step(self)\n"
    dying += "trainer.Trainer.rl_step = rl_step\nraise SystemExit(main())\n"
    script = tmp_path / "dying.py"
    script.write_text(dying, encoding="utf-8")
    out = tmp_path / "run"
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), "train"]
    command += ["--out", str(out), "--steps", "9", "--checkpoint-every", "2", *LINES]
    ended = subprocess.run([sys.executable, "-m", *command], capture_output=True, timeout=120)
    assert ended.returncode != 0
    assert Trainer.load(out / "checkpoints").step == 4


@pytest.fixture
def one_of_two(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")


@pytest.mark.parametrize(
    ("config", "choices", "message"),
    [
        (replace(SMALL, prompts=10), GRPO, r"an update has 5 groups \(prompts 10, minibatches 2\), and each of 2"),
        (replace(SMALL, prompts=6, minibatches=2), GRPO, "make prompts a multiple of 4"),
        (replace(SMALL, warm_batch=1), GRPO, "warm_batch is 1, and there are 2 processes"),
        (SMALL, replace(GRPO, divide_by="kept"), "one of 2 processes cannot know"),
        (replace(SMALL, device="cuda:1"), GRPO, "device is 'cuda:1'; each process takes the GPU of its own rank"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_before_anything_starts(one_of_two, config, choices, message):
    with pytest.raises(ValueError, match=message):
        ParallelTrainer(config, choices=choices)
    assert not dist.is_initialized()


def test_a_process_alone_is_told_how_to_start_several(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match="start them with torchrun"):
        ParallelTrainer(SMALL)


def test_a_process_without_a_gpu_of_its_own_is_refused(one_of_two, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="this is process 2 on this machine, which has 1 GPU"):
        own_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_device("cuda") == torch.device("cuda", 1)


@several
@pytest.mark.slow
def test_a_run_that_is_there_is_refused_by_all(tmp_path):
    Trainer(SMALL).save(tmp_path / "checkpoints")
    with torchrun(2, "rlnotes", "train", "--out", str(tmp_path), *LINES) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert f"{tmp_path} already holds a run" in errors


def test_an_actor_and_other_commands_are_refused(one_of_two, monkeypatch, capsys, tmp_path):
    with pytest.raises(ValueError, match="an actor has one learner; start one process only"):
        AsyncTrainer(SMALL)
    monkeypatch.setattr(sys, "argv", ["rlnotes", "compare", "reuse", "--out", str(tmp_path / "a.csv")])
    assert main() == 2
    assert "this command is for one process: start it directly, or unset WORLD_SIZE" in capsys.readouterr().err


def test_torchruns_variables_say_which_trainer_and_who_shows_progress(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for size, rank, expected, shows in (("1", "0", Trainer, True), ("2", "0", ParallelTrainer, True)):
        monkeypatch.setenv("WORLD_SIZE", size)
        monkeypatch.setenv("RANK", rank)
        assert trainer_class() is expected and watched() == shows
    monkeypatch.setenv("RANK", "1")
    assert launched() and not watched()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shards_are_everything_once_and_in_order(size):
    whole = torch.arange(12).view(6, 2)
    parts = [Shard(rank, size).of(whole) for rank in range(size)]
    assert torch.equal(torch.cat(parts), whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("size", [2, 3])
def test_a_rows_noise_does_not_depend_on_who_works_on_it(size):
    logits = torch.zeros(6, 5)

    def noise(shard: Shard, rows: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        first = shard.noise(logits[:rows], torch.Tensor.exponential_, generator)
        return torch.cat([first, shard.noise(logits[:rows], torch.Tensor.normal_, generator)], 1)

    together = torch.cat([noise(Shard(rank, size), 6 // size) for rank in range(size)])
    assert torch.equal(together, noise(ALONE, 6))


def test_who_ends_early_draws_on_until_the_last_has_ended():
    """Else the generators would part, and the next rollout with them."""
    model = Transformer(preset_config("tiny", 3, 18))  # every third token is an end
    sampler, prompts = Sampler(9, eos=0), torch.ones(4, 9, dtype=torch.long)

    def drawn(shard: Shard) -> tuple[Rollout, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        rollout = sampler.sample(model, shard.of(prompts), 2, generator, shard=shard)
        return rollout, generator.get_state()

    whole, state = drawn(ALONE)
    lengths = whole.mask.sum(-1).view(4, 2).amax(-1).tolist()
    assert min(lengths) < max(lengths) < 9

    @dataclass(frozen=True)
    class Told(Shard):
        asked: list[bool] = field(default_factory=list)

        def any(self, own: bool) -> bool:
            self.asked.append(own)
            return len(self.asked) < max(lengths)

    for rank in range(4):
        rollout, after = drawn(Told(rank, 4))
        assert torch.equal(rollout.tokens, whole.tokens[2 * rank : 2 * rank + 2])
        assert torch.equal(after, state)


def test_the_losses_of_a_warm_starts_parts_add_up_to_the_whole():
    trainer = Trainer(SMALL)
    for task in (trainer.task, Trainer(replace(SMALL, task="needle")).task):
        model = Trainer(replace(SMALL, warm_start="none"), task=task).model

        def loss(shard: Shard, task=task, model=model) -> float:
            generator = torch.Generator().manual_seed(4)
            return warm_loss(model, task, 7, generator, shard=shard).item()

        assert sum(loss(Shard(rank, 3)) for rank in range(3)) == pytest.approx(loss(ALONE), rel=1e-6)


def test_check_lets_pass_what_can_be_shared_out():
    for size in (1, 2, 4):
        check(TrainConfig(), GRPO, size)
