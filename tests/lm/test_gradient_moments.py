"""Moments of gradients against loops over batches, and the gradients against sums over tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.bounds.gradient_ascent import best_progress
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.gradient_moments import batch_gradients, gradient, inner, moments
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import PG_IS, SEQUENCE_IS

ESTIMATORS = {"none": replace(PG_IS, anchor="current"), "token": PG_IS, "sequence": SEQUENCE_IS}


def vectors(seed: int, n: int = 5, d: int = 7) -> tuple[Tensor, Tensor]:
    """n batches of an estimate and of fresh gradients, which share some of their noise."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    fresh = 1 + shared + rng.normal(size=(n, d))
    return torch.from_numpy(0.5 + shared + rng.normal(size=(n, d))), torch.from_numpy(fresh)


def of_pairs(a: Tensor, b: Tensor) -> float:
    n = len(a)
    products = [float((a[i] * b[j]).sum()) for i in range(n) for j in range(n) if i != j]
    return sum(products) / len(products)


@pytest.mark.parametrize("seed", range(5))
def test_moments_are_those_of_a_loop_over_pairs_and_batches(seed: int):
    estimates, fresh = vectors(seed)
    assert inner(estimates, fresh) == pytest.approx(of_pairs(estimates, fresh), rel=1e-12)
    found = moments(estimates, fresh)
    mean = estimates.mean(0)
    variance = sum(float(((row - mean) ** 2).sum()) for row in estimates) / (len(estimates) - 1)
    assert found.gradient_squared == pytest.approx(of_pairs(fresh, fresh), rel=1e-12)
    assert found.alignment == pytest.approx(of_pairs(estimates - fresh, fresh), rel=1e-11)
    assert found.bias_squared == pytest.approx(of_pairs(estimates - fresh, estimates - fresh), rel=1e-12)
    assert found.variance == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_progress_is_the_square_along_over_the_second_moment(seed: int):
    """The sum of all moments is that of the estimate, whatever the noise that both share."""
    estimates, fresh = vectors(seed)
    along, second = of_pairs(estimates, fresh), of_pairs(estimates, estimates) + float(estimates.var(0).sum())
    assert 2 * best_progress(1.0, moments(estimates, fresh)) == pytest.approx(max(along, 0) ** 2 / second, rel=1e-10)


def test_noise_adds_nothing_to_a_square_on_average():
    """Means of 0 but for one coordinate, and much noise: over many sets of batches the squares come out right."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4000):
        fresh = torch.from_numpy(rng.normal([1.0, 0.0, 0.0], 1.0, size=(4, 3)))
        estimates = torch.from_numpy(rng.normal([0.5, 0.0, 0.0], 2.0, size=(4, 3)))
        found.append(moments(estimates, fresh))
    means, errors = np.mean(found, 0), np.std(found, 0) / 4000**0.5
    assert (abs(means - [1.0, -0.5, 0.25, 12.0]) < 4 * errors).all()
    assert (errors < 0.1).all()


def trainers() -> tuple[Trainer, Trainer]:
    """One that samples with few bits, and one that has made four updates since."""
    config = TrainConfig(
        task="sort", size=8, prompts=4, group_size=4, epochs=2, minibatches=2, learning_rate=1e-4, warmup_updates=1,
        rollout_weights="int4",
    )  # fmt: skip
    old, new = (Trainer(config, choices=PG_IS) for _ in range(2))
    list(new.run(1))
    return old, new


def by_hand(trainer: Trainer, rollout: Rollout, kind: str) -> Tensor:
    """Gradient of the sum over tokens, response by response, without the package's loss."""
    rewards = trainer.task.reward(rollout).view(-1, rollout.group_size)
    advantages = (rewards - rewards.mean(-1, keepdim=True)).flatten()
    logp, total = token_logp(trainer.model, rollout), torch.zeros(())
    for n, own in enumerate(rollout.mask):
        log_ratio = (logp[n] - rollout.logp_behavior[n])[own]
        terms = dict(none=logp[n][own].sum(), token=log_ratio.exp().sum(), sequence=log_ratio.sum().exp())
        total = total + advantages[n] * terms[kind] / len(rollout.mask)
    slopes = torch.autograd.grad(total, list(trainer.model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes])


def test_gradients_are_those_of_a_sum_over_tokens():
    old, new = trainers()
    rollout = old.sample(prompts=4, group_size=4, seed=1)
    assert 0 < new.task.reward(rollout).mean() < 1
    for kind, choices in ESTIMATORS.items():
        expected = by_hand(new, rollout, kind)
        assert expected.norm() > 0.01
        assert (gradient(new, choices, rollout) - expected).norm() < 1e-4 * expected.norm()


def test_each_batch_has_its_own_responses_and_all_estimators_the_same():
    old, new = trainers()
    found = batch_gradients(old, new, ESTIMATORS, batches=2, prompts=4, group_size=4, seed=3)
    assert list(found) == ["fresh", *ESTIMATORS]
    for k in range(2):
        generator = torch.Generator().manual_seed(6 + k)
        prompts = old.task.sample(4, generator, "train").prompts
        stale = old.sampler.sample(old.model, prompts, 4, generator)
        fresh = replace(new.sampler, behavior=Behavior()).sample(new.model, prompts, 4, generator)
        for kind in ESTIMATORS:
            expected = by_hand(new, stale, kind)
            assert (found[kind][k] - expected).norm() < 1e-4 * expected.norm()
        expected = by_hand(new, fresh, "none")
        assert (found["fresh"][k] - expected).norm() < 1e-3 * expected.norm()
    assert not torch.allclose(found["token"][0], found["token"][1])


def test_what_has_no_pairs_is_refused():
    a, b = vectors(0)
    with pytest.raises(ValueError, match=r"estimates has shape \(5, 7\) and fresh \(4, 7\); both must be \(n, D\)"):
        moments(a, b[:4])
    with pytest.raises(ValueError, match="n >= 2"):
        moments(a[:1], b[:1])
    old, new = trainers()
    with pytest.raises(ValueError, match="batches is 1; at least 2 are needed"):
        batch_gradients(old, new, ESTIMATORS, batches=1, prompts=2, group_size=2, seed=0)
    with pytest.raises(ValueError, match="estimators has 'fresh'"):
        batch_gradients(old, new, {"fresh": PG_IS}, batches=2, prompts=2, group_size=2, seed=0)
