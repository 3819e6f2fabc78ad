"""An RL step without a question to the device, held against the ordinary one. On a CPU it runs unrecorded."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlnotes.estimators.checks import readable
from rlnotes.gpu.static_step import StaticStep, unsupported
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.shard import Shard
from rlnotes.lm.tasks import Reverse
from rlnotes.lm.tasks.countdown import Countdown
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, RECIPES, Choices, KLPenalty
from tests.gpu.varying import VARYING

SMALL = TrainConfig(prompts=8, group_size=4, steps=4)
MANY = replace(SMALL, epochs=2, minibatches=2)
CASES: dict[str, tuple[TrainConfig, Choices]] = {
    "grpo": (SMALL, GRPO),
    "many updates": (MANY, GRPO),
    "a mask": (MANY, RECIPES["dppo_tv"]),
    "rows of likeliest tokens": (MANY, RECIPES["dppo_topk_tv"]),
    "a sequence ratio": (MANY, RECIPES["gspo"]),
    "pi before the update": (MANY, RECIPES["decoupled_ppo"]),
    "a penalty in the loss, and a bonus": (MANY, replace(GRPO, kl=KLPenalty(0.1), entropy=0.01)),
    "a penalty in the reward": (MANY, replace(GRPO, kl=KLPenalty(0.1, where="reward"))),
    "a sampler that differs": (replace(MANY, top_p=0.98, logit_noise=0.3, temperature=1.2), RECIPES["minirl_tis"]),
    "another task": (replace(SMALL, task="sort"), GRPO),
}
ASKING = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique", "_unique2", "lift_fresh"}


class Questions(TorchDispatchMode):
    """Takes down the operations for which a GPU's host would wait: a value is read, or a shape depends on one."""

    def __init__(self):
        super().__init__()
        self.asked: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            isinstance(one, Tensor) and one.dtype == torch.bool for one in args[1] if isinstance(args[1], (list, tuple))
        )
        if name in ASKING or by_mask:
            self.asked.append(name)
        return func(*args, **(kwargs or {}))


def pair(config: TrainConfig, choices: Choices) -> tuple[Trainer, Trainer, StaticStep]:
    """A trainer to step as usual, and another to step statically."""
    usual, other = Trainer(config, choices=choices), Trainer(config, choices=choices)
    return usual, other, StaticStep(other)


def apart(a: Trainer, b: Trainer) -> float:
    """Largest difference of two models' weights."""
    both = zip(a.model.parameters(), b.model.parameters(), strict=True)
    return max(float((p - q).detach().abs().max()) for p, q in both)


@pytest.mark.parametrize("case", CASES)
def test_a_static_step_is_the_usual_step(case: str):
    usual, other, step = pair(*CASES[case])
    start = [weight.detach().clone() for weight in usual.model.parameters()]
    for _ in range(3):
        expected, found = usual.rl_step(), step()
        assert list(found) == list(expected)
        for name in expected.keys() - {"seconds"}:
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert apart(usual, other) < 1e-6
    moved = max(float((p - q).detach().abs().max()) for p, q in zip(start, usual.model.parameters(), strict=True))
    assert moved > 1e-4
    assert (other.step, other.updates, other.tokens) == (usual.step, usual.updates, usual.tokens)
    for one in ("generator", "data_generator"):
        assert torch.equal(getattr(usual, one).get_state(), getattr(other, one).get_state())


def test_a_static_step_and_a_usual_one_can_follow_each_other():
    usual, other, step = pair(*CASES["many updates"])
    for one in (step, other.rl_step, step, other.rl_step):
        usual.rl_step()
        one()
    assert apart(usual, other) < 1e-6


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out checks of values, as while a graph is recorded."""
    users = [module for name, module in sys.modules.items() if name.startswith("rlnotes.")]
    for module in users:
        if getattr(module, "readable", None) is readable:
            monkeypatch.setattr(module, "readable", lambda array: False)


def test_prompts_drawn_ahead_are_dropped_where_the_generator_was_moved():
    usual, other, step = pair(*CASES["many updates"])
    usual.rl_step()
    step()
    for trainer in (usual, other):
        trainer.data_generator.manual_seed(5)
    expected, found = usual.rl_step(), step()
    assert found["reward"] == expected["reward"] and apart(usual, other) < 1e-6
    assert torch.equal(usual.data_generator.get_state(), other.data_generator.get_state())


def asks_for_nothing(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the work has no question but one that is asked on a CPU only: whether all responses are done."""
    step = StaticStep(trainer)
    step.prepare()
    unread(monkeypatch)
    done: list[bool] = []
    monkeypatch.setattr(Shard, "any", lambda self, own: done.append(own) or own)
    with Questions() as questions:
        step.work()
    return questions.asked == ["_local_scalar_dense"] * len(done)


@pytest.mark.parametrize("case", [case for case in CASES if case != "rows of likeliest tokens"])  # NumPy on a CPU
def test_the_work_asks_the_device_for_nothing(case: str, monkeypatch: pytest.MonkeyPatch):
    config, choices = CASES[case]
    assert asks_for_nothing(Trainer(config, choices=choices), monkeypatch)


@pytest.mark.parametrize("recipe", [name for name, one in RECIPES.items() if one.needs_divergence is None])
def test_a_recipe_asks_for_nothing_or_is_named(recipe: str, monkeypatch: pytest.MonkeyPatch):
    trainer, choices = Trainer(replace(MANY, recipe=recipe)), RECIPES[recipe]
    whole = choices.dynamic_sampling or choices.needs_whole_batch
    assert whole == (unsupported(trainer) is not None)
    assert whole or asks_for_nothing(trainer, monkeypatch)


@pytest.mark.parametrize("ask", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero()])
def test_a_question_would_be_noticed(ask: Callable[[Tensor], object]):
    with Questions() as questions:
        ask(torch.ones(3))
    assert questions.asked


def test_a_rehearsal_changes_nothing():
    usual, other, step = pair(*CASES["many updates"])
    usual.rl_step()
    step()
    step.rehearsing.fill_(True)
    state = other.generator.get_state()
    step.work()
    other.generator.set_state(state)
    step.rehearsing.fill_(False)
    usual.rl_step()
    step()
    assert apart(usual, other) < 1e-6
    counts = [float(moments["step"]) for moments in other.optimizer.state.values()]
    assert counts == [8.0] * len(counts)


class NotANumber(Reverse):
    """Rewards that a loss cannot bear, from the second step on."""

    bad = False

    def reward(self, rollout: Rollout) -> Tensor:
        return super().reward(rollout) * (float("nan") if self.bad else 1.0)


def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch):
    trainer = Trainer(MANY, task=NotANumber())
    step = StaticStep(trainer)
    step()

    def everything() -> list[Tensor]:
        moments = [value for of_one in trainer.optimizer.state.values() for value in of_one.values()]
        return [value.detach().clone() for value in (*trainer.model.parameters(), *moments)]

    before = everything()
    unread(monkeypatch)
    monkeypatch.setattr(NotANumber, "bad", True)
    with pytest.raises(ValueError, match="gradient norm is nan; the weights were left as they were"):
        step()
    assert all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    assert (trainer.step, trainer.updates) == (1, 4)


@pytest.mark.parametrize(("setting", "named"), [*VARYING, (dict(rollout_weights="int8"), "rollout_weights")], ids=str)
def test_what_cannot_be_static_is_named(setting: dict[str, Any], named: str):
    trainer = Trainer(replace(SMALL, warm_start="none", **setting))
    reason = unsupported(trainer)
    assert reason is not None and named in reason
    with pytest.raises(ValueError, match="cannot be static"):
        StaticStep(trainer)


def test_without_a_gpu_the_setting_warns_once_and_the_run_is_the_usual_one():
    trainer, usual = Trainer(replace(SMALL, cuda_graph=True)), Trainer(SMALL)
    with pytest.warns(UserWarning, match="device is 'cpu', and a CUDA graph needs a GPU"):
        trainer.rl_step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.rl_step()
    usual.rl_step()
    usual.rl_step()
    assert apart(usual, trainer) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES)
def test_a_graph_is_the_usual_step(case: str):
    config, choices = CASES[case]
    config = replace(config, device="cuda")
    usual, graphed = Trainer(config, choices=choices), Trainer(replace(config, cuda_graph=True), choices=choices)
    first, second = usual.rl_step(), graphed.rl_step()
    assert second["tokens"] == first["tokens"] and second["reward"] == first["reward"]
    assert apart(usual, graphed) < 1e-5
    usual.rl_step()
    graphed.rl_step()
    assert isinstance(graphed.step_in_use, StaticStep) and graphed.updates == usual.updates
    assert torch.equal(usual.generator.get_state(), graphed.generator.get_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_task_that_scores_on_the_cpu_is_named():
    config = TrainConfig(prompts=4, group_size=4, device="cuda", cuda_graph=True, warm_start="none")
    usual, trainer = (Trainer(replace(config, cuda_graph=graph), task=Countdown()) for graph in (False, True))
    with pytest.warns(UserWarning, match="the reward of Countdown waits for the GPU"):
        trainer.rl_step()
    usual.rl_step()
    assert apart(usual, trainer) == 0


def test_values_are_not_read_while_a_graph_is_recorded_or_waiting_is_forbidden(monkeypatch: pytest.MonkeyPatch):
    on_gpu = SimpleNamespace(is_cuda=True)
    for recording, mode, expected in ((False, 0, True), (True, 0, False), (False, 1, True), (False, 2, False)):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda recording=recording: recording)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda mode=mode: mode)
        assert readable(on_gpu) == expected
        assert readable(torch.ones(1)) and readable(np.ones(1))
