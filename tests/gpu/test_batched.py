"""Many runs as one piece of work, held against the same runs alone. On a CPU it runs unrecorded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlnotes.gpu import batched
from rlnotes.gpu.batched import BatchedStep, alone, unbatched
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.parts import Parts
from rlnotes.lm.shard import Shard
from rlnotes.lm.tasks import Reverse
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, RECIPES, KLPenalty
from tests.gpu.test_static_step import Questions
from tests.gpu.varying import VARYING
from tests.lm.breaking import breaking

SMALL = TrainConfig(task="sort", size=8, prompts=4, group_size=4, epochs=2, minibatches=2)
RUNS = (  # recipe, seed, learning rate
    ("grpo", 0, 1e-3),
    ("grpo", 1, 3e-4),
    ("dppo_tv", 0, 1e-3),
    ("trm", 1, 1e-3),
    ("gspo", 0, 5e-4),
    ("sapo", 2, 1e-3),
    ("decoupled_ppo", 0, 1e-3),
    ("dppo_topk_tv", 0, 1e-3),
    ("ppo_clip", 1, 3e-4),
)
BEHAVIORS: dict[str, dict[str, Any]] = {
    "mu is pi": {},
    "a rounded copy samples": dict(rollout_weights="int4"),
    "older weights sample": dict(lags=(8,)),
    "noise, and likely tokens only": dict(logit_noise=0.3, top_p=0.98, temperature=1.2),
}


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    """Nobody asks whether all responses are done: random numbers are drawn for their whole length."""
    monkeypatch.setattr(Shard, "any", lambda self, own: True)


def runs(**changes: Any) -> list[Trainer]:
    config = replace(SMALL, **changes)
    return [Trainer(replace(config, seed=seed, learning_rate=rate, recipe=name)) for name, seed, rate in RUNS]


def moved(one: Trainer, start: list[Tensor]) -> Tensor:
    """How far the weights are from ``start``, all in a row."""
    return torch.cat([(p.detach() - q).flatten() for p, q in zip(one.model.parameters(), start, strict=True)])


def weights(one: Trainer) -> list[Tensor]:
    return [weight.detach().clone() for weight in one.model.parameters()]


@contextmanager
def gradients() -> Iterator[list[Tensor]]:
    """The gradients of the updates that are made, before they are clipped: (P,) of a trainer, (R, P) of a batch."""
    seen: list[Tensor] = []
    usual, clip = torch.nn.utils.clip_grad_norm_, batched.clip

    def watched(parameters: Iterator[Tensor], limit: float) -> Tensor:
        own = list(parameters)
        seen.append(torch.cat([weight.grad.flatten() for weight in own if weight.grad is not None]))
        return usual(own, limit)

    def watched_rows(rows: Tensor, limits: Tensor) -> Tensor:
        seen.append(rows.clone())
        return clip(rows, limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", watched)
        patch.setattr(batched, "clip", watched_rows)
        yield seen


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_runs_of_a_batch_have_the_gradient_and_the_weights_that_they_have_alone(behavior: str):
    config = BEHAVIORS[behavior] | dict(epochs=1, minibatches=1)
    usual, others = runs(**config), runs(**config)
    start = weights(usual[0])
    step = BatchedStep(others)
    with gradients() as seen:
        metrics = [one.rl_step() for one in usual]
        same = step()
    for r, (one, other) in enumerate(zip(usual, others, strict=True)):
        a, b = seen[r], seen[-1][r]
        assert float((a - b).norm()) <= 1e-6 * float(a.norm()), RUNS[r]
        way, same_way = moved(one, start), moved(other, start)
        assert float((way - same_way).norm()) <= 1e-4 * float(way.norm()), RUNS[r]
        # where a gradient is nothing but rounding, Adam makes a part of a step of it
        assert float((way - same_way).abs().max()) <= 0.01 * one.config.learning_rate
        of_run = same[r]
        assert of_run is not None and of_run["loss"] == pytest.approx(metrics[r]["loss"], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_whole_runs_of_a_batch_are_the_runs_alone(behavior: str):
    usual, others = runs(**BEHAVIORS[behavior]), runs(**BEHAVIORS[behavior])
    step = BatchedStep(others)
    for _ in range(3):
        expected, found = [one.rl_step() for one in usual], step()
        for r, (by_itself, together) in enumerate(zip(expected, found, strict=True)):
            assert together is not None and [*together, "seconds"] == list(by_itself)
            for name, value in together.items():
                assert value == pytest.approx(by_itself[name], rel=1e-3, abs=2e-4), (RUNS[r], name)
            assert (together["reward"], together["tokens"]) == (by_itself["reward"], by_itself["tokens"])
    for one, other in zip(usual, others, strict=True):
        assert (other.step, other.updates, other.tokens) == (one.step, one.updates, one.tokens)
        for name in ("generator", "data_generator"):
            assert torch.equal(getattr(one, name).get_state(), getattr(other, name).get_state())
    assert step.evaluate(64) == [one.evaluate(64) for one in usual]


def swapped_weights(step: BatchedStep) -> None:
    step.models.load_state_dict({name: value.roll(1, 0) for name, value in step.models.state_dict().items()})


def swapped_objectives(step: BatchedStep) -> None:
    others = step.objectives[::-1]
    step.objectives = [(choices, part) for (choices, _), (_, part) in zip(others, step.objectives, strict=True)]


def swapped_random_numbers(step: BatchedStep) -> None:
    step.shard.of_run.copy_(step.shard.of_run.roll(1))


def swapped_rates(step: BatchedStep) -> None:
    step.trainers[0].config, step.trainers[1].config = step.trainers[1].config, step.trainers[0].config


@pytest.mark.parametrize("swap", [swapped_weights, swapped_objectives, swapped_random_numbers, swapped_rates])
def test_a_wrong_wiring_would_be_noticed(swap: Callable[[BatchedStep], None]):
    usual, others = runs(), runs()
    step = BatchedStep(others)
    usual[0].rl_step()
    step()
    swap(step)
    start = weights(usual[0])
    usual[0].rl_step()
    step()
    way, other_way = moved(usual[0], start), moved(others[0], start)
    assert float((way - other_way).norm()) > 0.1 * float(way.norm())


def test_runs_of_one_seed_share_their_random_numbers_and_others_do_not():
    step = BatchedStep(runs())
    assert step.of_run.tolist() == [0, 1, 0, 1, 0, 2, 0, 0, 1]
    step.prepare()
    drawn = step.prompts_buffer.unflatten(0, (len(RUNS), -1))
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])


def test_a_lost_run_stays_as_it_was_and_does_not_stop_the_others():
    choices = (GRPO, breaking(after=5), RECIPES["trm"])
    usual, others = ([Trainer(SMALL, choices=one) for one in choices] for _ in range(2))
    step = BatchedStep(others)
    assert all(metrics is not None for metrics in step())
    first = weights(others[1])
    found = step()
    assert [metrics is None for metrics in found] == [False, True, False]
    after = weights(others[1])
    assert all(bool(weight.isfinite().all()) for weight in after)
    assert not all(torch.equal(a, b) for a, b in zip(first, after, strict=True))  # one more update, then the break
    found = step()
    assert [metrics is None for metrics in found] == [False, True, False]
    assert all(torch.equal(a, b) for a, b in zip(after, weights(others[1]), strict=True))
    assert (others[1].step, others[0].step) == (1, 3)
    for r in (0, 2):
        start = weights(usual[r])
        for _ in range(3):
            usual[r].rl_step()
        way = moved(usual[r], start)
        assert float((way - moved(others[r], start)).norm()) < 1e-3 * float(way.norm())


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_a_rehearsal_changes_nothing(behavior: str):
    usual, others = runs(**BEHAVIORS[behavior]), runs(**BEHAVIORS[behavior])
    step, compared = BatchedStep(others), BatchedStep(usual)
    rehearse(step)
    for _ in range(2):
        assert step() == compared()
        rehearse(step)
    for one, other in zip(usual, others, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def rehearse(step: BatchedStep) -> None:
    step.rehearsing.fill_(True)
    states = [one.get_state() for one in step.shard.generators]
    step.work()
    for one, state in zip(step.shard.generators, states, strict=True):
        one.set_state(state)
    step.rehearsing.fill_(False)


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_the_work_asks_the_device_for_nothing(behavior: str):
    rows = RECIPES["dppo_topk_tv"].needs_divergence  # its likeliest tokens come from NumPy on a CPU
    step = BatchedStep([one for one in runs(**BEHAVIORS[behavior]) if one.choices.needs_divergence != rows])
    step.prepare()
    with Questions() as questions:
        step.work()
    assert set(questions.asked) <= {"_local_scalar_dense"}  # whether all responses are done, on a CPU only
    assert len(questions.asked) <= step.learner.task.max_response_length


@pytest.mark.parametrize(("setting", "named"), VARYING, ids=str)
def test_what_cannot_be_batched_is_named(setting: dict[str, Any], named: str):
    config = replace(SMALL, warm_start="none", **setting)
    reason = alone(config, RECIPES[config.recipe])
    assert reason is not None and named in reason
    with pytest.raises(ValueError, match=f"cannot be one batch: .*{named}"):
        BatchedStep([Trainer(config), Trainer(config)])


def test_an_objective_with_a_penalty_is_named():
    reason = alone(SMALL, replace(GRPO, kl=KLPenalty(0.1)))
    assert reason is not None and "kl" in reason


def test_runs_that_do_not_go_together_are_told_why():
    first, started = Trainer(SMALL), Trainer(SMALL)
    started.rl_step()

    class OwnParts(Parts):
        pass

    class OwnDraw(Trainer):
        def make_parts(self) -> Parts:
            return OwnParts(self)

    cases = {
        "differ in temperature, and may differ in seed, start, recipe, learning_rate, gradient_clip alone": Trainer(
            replace(SMALL, temperature=0.9)
        ),
        "differ in task": Trainer(SMALL, task=Reverse(8)),
        "start of RL": started,
        "OwnDraw": OwnDraw(SMALL),
    }
    for said, other in cases.items():
        reason = unbatched([first, other])
        assert reason is not None and said in reason
    assert unbatched([first, Trainer(replace(SMALL, seed=3), choices=GRPO)]) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_a_graph_of_a_batch_is_the_runs_alone(behavior: str):
    usual, others = (runs(device="cuda", **BEHAVIORS[behavior]) for _ in range(2))
    start, step = weights(usual[0]), BatchedStep(others).graphed()
    for _ in range(2):
        expected, found = [one.rl_step() for one in usual], step()
        for by_itself, together in zip(expected, found, strict=True):
            assert together is not None
            assert (together["reward"], together["tokens"]) == (by_itself["reward"], by_itself["tokens"])
        if step.version == step.n_updates:  # later ones may part: a gate that opens by rounding, and Adam's small steps
            for one, other in zip(usual, others, strict=True):
                way = moved(one, start)
                assert float((way - moved(other, start)).norm()) < 1e-2 * float(way.norm())
    for one, other in zip(usual, others, strict=True):
        assert torch.equal(one.generator.get_state(), other.generator.get_state())
