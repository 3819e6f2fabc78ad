"""The actor-critic's loss by hand: which number is held constant, which ending keeps its value, which sign is whose."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.control.a2c import A2CConfig, a2c, a2c_loss
from rlnotes.control.collector import Collector, Steps
from rlnotes.control.networks import ActorCritic
from tests.control.tiny_envs import BOTH_MODES, Count, Fixed, Pays, register, ten_then_two, vector

PLAIN = A2CConfig(gamma=0.9, lam=0.5, normalize=False, entropy_coefficient=0.0)


def boundary(mode=BOTH_MODES[0], truncate: bool = True) -> Steps:
    """Two steps of an episode with V = 10, which ends; two of the next one, V = 2."""
    envs = vector([lambda: Count((2,), truncate, first=100.0)], mode)
    return Collector(envs, torch.Generator().manual_seed(0), 0).collect(Fixed(), 4 + (mode is BOTH_MODES[1]))


@pytest.mark.parametrize("mode", BOTH_MODES)
@pytest.mark.parametrize(("truncate", "errors"), [(True, [0, 0, 0.8, 0.8]), (False, [0, -9, 0.8, 0.8])])
def test_the_critics_loss_is_the_mean_squared_td_error(mode, truncate, errors):
    _, seen = a2c_loss(PLAIN, Fixed(ten_then_two), boundary(mode, truncate))
    assert seen["value_loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert seen["entropy"] == pytest.approx(np.log(2))


@pytest.mark.parametrize("mode", BOTH_MODES)
@pytest.mark.parametrize(("truncate", "advantages"), [(True, [0, 0, 1.16, 0.8]), (False, [-4.05, -9, 1.16, 0.8])])
def test_the_actors_gradient_weighs_scores_with_advantages(mode, truncate, advantages):
    network, steps = Fixed(ten_then_two), boundary(mode, truncate)
    a2c_loss(PLAIN, network, steps)[0].backward()
    scores = np.eye(2)[steps.actions[steps.valid]] - 0.5
    assert network.table.grad is not None
    np.testing.assert_allclose(network.table.grad, -(scores.T @ advantages) / 4, atol=1e-5)


def test_the_critics_target_is_held_constant():
    """The gradient is -2 mean(delta grad V), without the part through the next value: finite differences see both."""
    steps = boundary()
    level = torch.tensor(2.0, requires_grad=True)
    network = Fixed(lambda obs: level * obs)
    a2c_loss(replace(PLAIN, value_coefficient=1.0), network, steps)[0].backward()
    obs, following = steps.obs[..., 0].numpy(), steps.next_obs[..., 0].numpy()
    delta = 1 + 0.9 * 2 * following - 2 * obs  # nothing is terminated
    assert level.grad is not None
    assert level.grad.item() == pytest.approx(np.mean(-2 * delta * obs), rel=1e-5)
    assert level.grad.item() != pytest.approx(np.mean(2 * delta * (0.9 * following - obs)), rel=0.1)


def test_normalised_advantages_take_the_sample_standard_deviation():
    network, steps = Fixed(ten_then_two), boundary(truncate=False)
    a2c_loss(replace(PLAIN, normalize=True), network, steps)[0].backward()
    advantages = np.array([-4.05, -9, 1.16, 0.8])
    advantages = (advantages - advantages.mean()) / advantages.std(ddof=1)
    scores = np.eye(2)[steps.actions[:, 0]] - 0.5
    assert network.table.grad is not None
    np.testing.assert_allclose(network.table.grad, -(scores.T @ advantages) / 4, atol=1e-5)


@pytest.mark.parametrize(
    ("coefficient", "probabilities", "expected"),
    [(1.0, [0.5, 0.5], 0.693147), (-1.0, [0.999133, 0.000867], 0.006977)],
)
def test_a_positive_coefficient_raises_the_entropy(coefficient, probabilities, expected):
    """200 plain gradient steps of size .5 from logits 1, 0 on the entropy term alone: no advantage, no critic."""
    steps = replace(boundary(), rewards=torch.zeros(4, 1))
    network = Fixed(logits=(1.0, 0.0))
    config = replace(PLAIN, value_coefficient=0.0, entropy_coefficient=coefficient)
    assert a2c_loss(config, network, steps)[1]["entropy"] == pytest.approx(0.582203, abs=1e-5)
    for _ in range(200):
        (gradient,) = torch.autograd.grad(a2c_loss(config, network, steps)[0], network.table)
        network.table.data -= 0.5 * gradient
    np.testing.assert_allclose(network.table.softmax(0).detach(), probabilities, atol=1e-5)
    assert a2c_loss(config, network, steps)[1]["entropy"] == pytest.approx(expected, abs=1e-5)


# --- Runs


def test_it_learns_what_pays():
    *_, last = a2c(A2CConfig(register("tests/PaysA2C-v0", Pays), updates=100, envs=4, steps=8, learning_rate=1e-2))
    assert last["return_mean"] > 1.8 and last["env_steps"] == 100 * 4 * 8


def test_a_seed_fixes_a_run_and_another_one_does_not():
    config = A2CConfig(updates=5, envs=4)
    first, again, other = (list(a2c(replace(config, seed=seed))) for seed in (0, 0, 1))
    assert repr(first) == repr(again) and repr(first) != repr(other)  # repr, for NaN is not itself
    assert [row["update"] for row in first] == [1, 2, 3, 4, 5]


def test_a_network_that_is_given_is_the_one_that_learns():
    network = ActorCritic(4, 2, torch.Generator())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    list(a2c(A2CConfig(updates=1), network))
    assert all(not torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_the_kl_says_how_far_an_update_moved_the_policy():
    still, moved, far = (next(iter(a2c(A2CConfig(learning_rate=rate))))["kl"] for rate in (0.0, 1e-3, 2e-3))
    assert still == 0 < moved
    assert far == pytest.approx(4 * moved, rel=0.2)  # a KL grows with the square of the step
