"""A TRPO step of a language model: what it optimises, and that it keeps its limit."""

from copy import deepcopy

import pytest
import torch

from rlnotes.estimators.baselines import group_mean
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.tasks import ShortReverse
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.trust_region import next_token_log_probs, surrogate, trpo_step

TASK = ShortReverse()


def sampled(seed: int = 0) -> tuple[Trainer, Rollout, torch.Tensor]:
    """A random model, a rollout of it, and advantages that are not all equal."""
    trainer = Trainer(TrainConfig(seed=seed, warm_start="none"), task=TASK)
    rollout = trainer.sample(prompts=4, group_size=8, split="train", seed=seed)
    rewards = (rollout.tokens == 2).float().sum(-1)  # as many a's as possible: something that a random model meets
    return trainer, rollout, group_mean(rewards, 8)


def by_hand(old: torch.nn.Module, new: torch.nn.Module, rollout: Rollout, advantages: torch.Tensor):
    """Surrogate and mean KL(old, new), token by token."""
    with torch.no_grad():
        p, q = (response_logits(model, rollout).double().softmax(-1) for model in (old, new))  # type: ignore[arg-type]
    products, kls = [], []
    for i, t in rollout.mask.nonzero().tolist():
        token = int(rollout.tokens[i, t])
        products.append(float(q[i, t, token] / p[i, t, token] * advantages[i]))
        kls.append(float((p[i, t] * (p[i, t] / q[i, t]).log()).sum()))
    return sum(products) / len(products), sum(kls) / len(kls)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_step_keeps_its_limit_and_reports_what_a_count_by_hand_finds(seed: int):
    trainer, rollout, advantages = sampled(seed)
    old = deepcopy(trainer.model)
    report = trpo_step(trainer.model, rollout, advantages, delta=0.02)
    before, none = by_hand(old, old, rollout, advantages)
    after, moved = by_hand(old, trainer.model, rollout, advantages)
    assert report.accepted and none == 0
    assert 0.002 < moved <= 0.02 * (1 + 1e-3)
    assert report.realised_kl == pytest.approx(moved, rel=1e-2)
    assert report.gained == pytest.approx(after - before, rel=1e-2)
    assert report.gained > 0


def test_tokens_after_the_end_count_nothing():
    trainer, rollout, advantages = sampled()
    with torch.no_grad():
        log_probs = next_token_log_probs(trainer.model, rollout)
    assert log_probs.shape == (int(rollout.mask.sum()), len(TASK.vocabulary))
    assert int(rollout.mask.sum()) < rollout.mask.numel()
    expected = sum(float(a) * int(n) for a, n in zip(advantages, rollout.mask.sum(-1), strict=True))
    found = float(surrogate(log_probs, rollout, advantages))
    assert found == pytest.approx(expected / int(rollout.mask.sum()), rel=1e-4)  # all ratios are 1


def test_equal_rewards_change_nothing():
    trainer, rollout, advantages = sampled()
    before = deepcopy(trainer.model.state_dict())
    report = trpo_step(trainer.model, rollout, torch.zeros_like(advantages), delta=0.02)
    assert not report.accepted
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())


def test_advantages_of_another_shape_are_refused():
    trainer, rollout, _ = sampled()
    with pytest.raises(ValueError, match=r"advantages has shape \(4,\); one per response, \(32,\)"):
        trpo_step(trainer.model, rollout, torch.zeros(4), delta=0.02)
