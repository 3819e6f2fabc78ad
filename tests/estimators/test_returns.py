"""Returns and advantages along time, on NumPy arrays and torch tensors alike, held to direct sums."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnotes.estimators.returns import (
    discounted_return,
    discounted_reward_to_go,
    gae,
    reward_to_go,
    td_error,
    td_target,
)
from tests.estimators.arrays import array, both, tried
from tests.golden_audit import GOLDEN

# --- Returns


@both
def test_the_weights_of_reinforce(xp: Any):
    """Rewards 2, 0, 1 at gamma 1/2: the returns, the weights of the true gradient, and three wrong weights."""
    rewards, logp = array(xp, [2, 0, 1]), array(xp, [-1, -2, -3])
    ended = xp.asarray([False, False, True])
    returns = reward_to_go(rewards, 0.5, ended)
    weights = discounted_reward_to_go(rewards, 0.5, ended)
    np.testing.assert_allclose(returns, [2.25, 0.5, 1], rtol=1e-15)
    np.testing.assert_allclose(weights, [2.25, 0.25, 0.25], rtol=1e-15)
    np.testing.assert_allclose(-(logp * returns).sum(), 6.25, rtol=1e-15)
    np.testing.assert_allclose(discounted_return(rewards, 0.5), 2.25, rtol=1e-15)
    for wrong in ([2, 0, 0.25], [2.25, 2.25, 2.25], [1.25, 1.25, 1.25]):
        assert not np.allclose(returns, wrong) and not np.allclose(weights, wrong)


@both
def test_discounted_return_of_columns(xp: Any):
    rewards = array(xp, [[1, 0], [1, 2], [1, 4]])
    np.testing.assert_allclose(discounted_return(rewards, 0.9), [1 + 0.9 + 0.81, 1.8 + 3.24], rtol=1e-15)


def chain(gamma: float, logits: list[float], rewards: list[float], weight: Callable[..., Any]) -> np.ndarray:
    """Mean over all paths of the sum of weight_t times the score: always advance, action 1 pays rewards[t]."""
    right = 1 / (1 + np.exp(-np.array(logits)))
    ended = np.arange(len(logits)) == len(logits) - 1
    total = np.zeros(len(logits))
    for path in itertools.product((0, 1), repeat=len(logits)):
        action = np.array(path)
        probability = np.prod(np.where(action == 1, right, 1 - right))
        total += probability * weight(action * np.array(rewards), gamma, ended) * (action - right)
    return total


def test_golden_policy_gradient_of_a_chain():
    """The discount of time belongs to the gradient, 002 eq. (36); eq. (35) leaves it out."""
    golden = GOLDEN["G07"]
    inputs, expected = golden["inputs"], golden["outputs"]
    arguments = inputs["gamma"], inputs["logits"], inputs["rew"]
    true = chain(*arguments, discounted_reward_to_go)
    np.testing.assert_allclose(true, expected["grad_eq36_correct"], rtol=1e-10)
    np.testing.assert_allclose(chain(*arguments, reward_to_go), expected["grad_eq35_as_printed"], rtol=1e-10)

    def value(logits: np.ndarray) -> float:
        right = 1 / (1 + np.exp(-logits))
        return float(inputs["gamma"] ** np.arange(3) @ (right * np.array(inputs["rew"])))

    moves = 1e-6 * np.eye(3)
    logits = np.array(inputs["logits"])
    np.testing.assert_allclose(true, [(value(logits + m) - value(logits - m)) / 2e-6 for m in moves], atol=1e-9)


def test_the_weight_that_practice_uses_is_off_by_the_discount():
    """Reward only at the second of two steps, p = .6, gamma = .9: gamma p (1 - p) = .216, and 0.24 without it."""
    logits, rewards = [0.0, math.log(0.6 / 0.4)], [0.0, 1.0]
    assert chain(0.9, logits, rewards, discounted_reward_to_go)[1] == pytest.approx(0.216, rel=1e-12)
    assert chain(0.9, logits, rewards, reward_to_go)[1] == pytest.approx(0.24, rel=1e-12)


# --- TD


@both
def test_a_td_update_by_hand(xp: Any):
    """002 Example 1.9: A to B with reward 1, V(A) = .2, V(B) = .7."""
    rewards, values, following = array(xp, [1.0]), array(xp, [0.2]), array(xp, [0.7])
    going_on, over = xp.asarray([False]), xp.asarray([True])
    np.testing.assert_allclose(td_target(rewards, following, going_on, 0.9), [1.63], rtol=1e-15)
    np.testing.assert_allclose(td_error(rewards, values, following, going_on, 0.9), [1.43], rtol=1e-15)
    np.testing.assert_array_equal(td_target(rewards, following, over, 0.9), [1.0])


# --- GAE at the ends of episodes

REWARDS, VALUES, NEXT = [1.0, 1, 1, 1], [10.0, 10, 2, 2], [10.0, 10, 2, 2]
NONE, SECOND = [False] * 4, [False, True, False, False]


def advantages(xp: Any, following: list[float], terminated: list[bool], truncated: list[bool]) -> Any:
    flags = xp.asarray(terminated), xp.asarray(truncated)
    return gae(array(xp, REWARDS), array(xp, VALUES), array(xp, following), *flags, 0.9, 0.5)


@both
def test_a_truncated_episode_keeps_its_value_and_a_terminated_one_does_not(xp: Any):
    """Episode A of two steps, V = 10 throughout, then B, cut by the end of the rollout with V = 2."""
    np.testing.assert_allclose(advantages(xp, NEXT, NONE, SECOND), [0, 0, 1.16, 0.8], atol=1e-14)
    np.testing.assert_allclose(advantages(xp, NEXT, SECOND, NONE), [-4.05, -9, 1.16, 0.8], atol=1e-14)
    np.testing.assert_allclose(advantages(xp, NEXT, SECOND, SECOND), [-4.05, -9, 1.16, 0.8], atol=1e-14)


@both
def test_the_faults_that_one_flag_for_two_endings_makes(xp: Any):
    """Each fault of a caller, or of code with one mask, gives another number: none is the right one by chance."""
    nothing_stops = advantages(xp, NEXT, NONE, NONE)
    next_row = advantages(xp, [10.0, 2, 2, 2], NONE, SECOND)
    next_row_and_nothing_stops = advantages(xp, [10.0, 2, 2, 2], NONE, NONE)
    np.testing.assert_allclose(nothing_stops[:2], [0.2349, 0.522], atol=1e-12)
    np.testing.assert_allclose(next_row[:2], [-3.24, -7.2], atol=1e-12)
    np.testing.assert_allclose(next_row_and_nothing_stops[:2], [-3.0051, -6.678], atol=1e-12)


# --- GAE against its definition


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Rewards, values, next values, terminated, truncated (T, N)."""
    shape = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    numbers = [rng.normal(size=shape) for _ in range(3)]
    share = draw(st.sampled_from([0.0, 0.2, 0.6]))
    return *numbers, rng.random(shape) < share, rng.random(shape) < share


def by_definition(
    rewards: np.ndarray,
    values: np.ndarray,
    following: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """The sum of (gamma lam)^k times TD errors, step by step for one environment after the other."""
    found = np.zeros_like(rewards)
    for t, n in np.ndindex(rewards.shape):
        for k in range(len(rewards) - t):
            at = t + k, n
            error = rewards[at] + gamma * following[at] * (not terminated[at]) - values[at]
            found[t, n] += (gamma * lam) ** k * error
            if terminated[at] or truncated[at]:
                break
    return found


@both
@tried
@given(rollout=rollouts(), gamma=st.floats(0, 1), lam=st.floats(0, 1))
def test_gae_is_the_direct_sum(xp: Any, rollout: tuple[np.ndarray, ...], gamma: float, lam: float):
    ours = gae(*map(xp.asarray, rollout), gamma=gamma, lam=lam)
    np.testing.assert_allclose(ours, by_definition(*rollout, gamma=gamma, lam=lam), rtol=1e-9, atol=1e-12)
    one_environment = gae(*(xp.asarray(part[:, 0]) for part in rollout), gamma=gamma, lam=lam)
    np.testing.assert_array_equal(one_environment, ours[:, 0])


def monte_carlo(rollout: tuple[np.ndarray, ...], gamma: float) -> np.ndarray:
    """Return of each step up to the end of its episode, with what a cut one was still worth."""
    rewards, _, following, terminated, truncated = rollout
    found = np.zeros_like(rewards)
    for t, n in np.ndindex(rewards.shape):
        ends = np.flatnonzero((terminated | truncated)[t:, n])
        last = t + ends[0] if ends.size else len(rewards) - 1
        power = gamma ** np.arange(last - t + 1)
        left = 0.0 if terminated[last, n] else gamma ** (last - t + 1) * following[last, n]
        found[t, n] = power @ rewards[t : last + 1, n] + left
    return found


@tried
@given(rollout=rollouts(), gamma=st.floats(0, 1))
def test_the_ends_of_lambda(rollout: tuple[np.ndarray, ...], gamma: float):
    """0 is the TD error. 1 is the return minus the value, if next_values are the values of the next rows."""
    rewards, values, following, terminated, truncated = rollout
    np.testing.assert_array_equal(gae(*rollout, gamma=gamma, lam=0), td_error(*rollout[:4], gamma=gamma))
    inside = ~(terminated | truncated)[:-1]
    following[:-1][inside] = values[1:][inside]
    returns = monte_carlo(rollout, gamma)
    np.testing.assert_allclose(gae(*rollout, gamma=gamma, lam=1), returns - values, rtol=1e-9, atol=1e-12)
    without = monte_carlo((rewards, values, 0 * following, terminated, truncated), gamma)
    ended = terminated | truncated
    np.testing.assert_allclose(reward_to_go(rewards, gamma, ended), without, rtol=1e-9, atol=1e-12)


@tried
@given(rollout=rollouts(), gamma=st.floats(0, 1))
def test_time_starts_again_with_an_episode(rollout: tuple[np.ndarray, ...], gamma: float):
    rewards, ended = rollout[0], rollout[3]
    age = np.zeros(rewards.shape)
    for t in range(1, len(rewards)):
        age[t] = np.where(ended[t - 1], 0, age[t - 1] + 1)
    expected = gamma**age * reward_to_go(rewards, gamma, ended)
    np.testing.assert_allclose(discounted_reward_to_go(rewards, gamma, ended), expected, rtol=1e-9, atol=1e-12)


@both
def test_no_episode_sees_the_next(xp: Any):
    """A change after an end changes nothing before it."""
    ended = xp.asarray([False, True, False])
    first, second = (array(xp, [1.0, 2.0, last]) for last in (3.0, -50.0))
    off = xp.asarray([False] * 3)
    for compute in (
        lambda rewards: reward_to_go(rewards, 0.9, ended),
        lambda rewards: discounted_reward_to_go(rewards, 0.9, ended),
        lambda rewards: gae(rewards, first, first, ended, off, 0.9, 0.9),
        lambda rewards: gae(rewards, first, first, off, ended, 0.9, 0.9),
    ):
        np.testing.assert_array_equal(compute(first)[:2], compute(second)[:2])


# --- Gradients


def test_gradients_of_gae_are_those_of_finite_differences():
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(5, 2)) for _ in range(3)]
    flags = [rng.random((5, 2)) < 0.3 for _ in range(2)]
    pull = rng.normal(size=(5, 2))
    made = [torch.tensor(part, requires_grad=True) for part in parts]
    value = (gae(*made, *map(torch.tensor, flags), gamma=0.9, lam=0.8) * torch.tensor(pull)).sum()
    gradients = torch.autograd.grad(value, made)
    for which, gradient in enumerate(gradients):
        for at in np.ndindex(5, 2):
            sums = []
            for step in (0.5, -0.5):  # gae is linear: any step will do
                moved = [part.copy() for part in parts]
                moved[which][at] += step
                sums.append((gae(*moved, *flags, gamma=0.9, lam=0.8) * pull).sum())
            np.testing.assert_allclose(gradient[at], sums[0] - sums[1], atol=1e-12)


# --- Errors


@both
def test_errors(xp: Any):
    rewards, flags = array(xp, [1.0, 2.0]), xp.asarray([False, True])
    with pytest.raises(ValueError, match=r"gamma is 1\.1; the discount must lie in"):
        reward_to_go(rewards, 1.1, flags)
    with pytest.raises(ValueError, match=r"lam is -0\.5; it must lie in"):
        gae(rewards, rewards, rewards, flags, flags, 0.9, -0.5)
    with pytest.raises(ValueError, match=r"rewards has shape \(2,\) and values has shape \(2, 1\)"):
        gae(rewards, rewards[:, None], rewards, flags, flags, 0.9, 0.5)
    with pytest.raises(ValueError, match=r"rewards has shape \(2,\) and truncated has shape \(1,\)"):
        gae(rewards, rewards, rewards, flags, flags[:1], 0.9, 0.5)
    with pytest.raises(ValueError, match=r"terminated has dtype .*float64; pass bool, for example terminated != 0"):
        td_target(rewards, rewards, rewards, 0.9)
    with pytest.raises(ValueError, match=r"next_values\[1\] is nan; pass finite numbers"):
        td_target(rewards, array(xp, [0.0, math.nan]), flags, 0.9)
    with pytest.raises(ValueError, match=r"rewards has shape \(0,\); \(T,\) or \(T, N\) with at least one step"):
        discounted_return(rewards[:0], 0.9)
    with pytest.raises(ValueError, match=r"rewards has shape \(1, 1, 2\)"):
        discounted_return(rewards[None, None, :], 0.9)
    with pytest.raises(ValueError, match=r"rewards has dtype .*int64; pass floating-point numbers"):
        discounted_return(xp.asarray([1, 2]), 0.9)
