"""Advantages from groups of rewards, on NumPy arrays and torch tensors alike."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnotes.estimators.baselines import group_mean, group_mean_batch_std, group_mean_std, leave_one_out
from tests.estimators.arrays import both

Advantage = Callable[[Any, int], Any]
ALL: dict[str, Advantage] = {
    "group_mean": group_mean,
    "group_mean_std": group_mean_std,
    "group_mean_batch_std": group_mean_batch_std,
    "leave_one_out": leave_one_out,
}
sample_std = partial(group_mean_std, ddof=1, eps_inside=False)

every = pytest.mark.parametrize("advantage", ALL.values(), ids=ALL)


def assert_advantages(
    ours: Any, xp: Any, expected: Any, dtype: str = "float64", rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Array, dtype and shape are those of the rewards, and the numbers are ``expected``."""
    assert type(ours) is (np.ndarray if xp is np else torch.Tensor)
    assert ours.dtype == getattr(xp, dtype)
    np.testing.assert_allclose(ours, expected, rtol, atol)
    assert ours.shape == np.shape(expected)


def rewards_of(xp: Any, values: Any, dtype: str = "float64") -> Any:
    return xp.asarray(values, dtype=getattr(xp, dtype))


# --- Numbers by hand


@both
def test_group_mean(xp: Any):
    rewards = rewards_of(xp, [1, 0, 0, 0, 3, 1, 1, 1])
    assert_advantages(group_mean(rewards, 4), xp, [0.75, -0.25, -0.25, -0.25, 1.5, -0.5, -0.5, -0.5], rtol=1e-15)


@both
def test_sample_standard_deviation_with_eps_outside(xp: Any):
    """What TRL makes of one right answer in four, and of four right answers."""
    rewards = rewards_of(xp, [1, 0, 0, 0, 1, 1, 1, 1])
    expected = [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, 0, 0, 0, 0]
    advantages = sample_std(rewards, 4, eps=1e-4)
    assert_advantages(advantages, xp, expected, rtol=1e-14)
    np.testing.assert_allclose(advantages[:4], [1.4997, -0.4999, -0.4999, -0.4999], atol=5e-5)
    assert (advantages[4:] == 0).all()


@both
@pytest.mark.parametrize(("eps", "inside", "expected"), [(1e-4, False, 1.731651), (1e-4, True, 1.731589)])
def test_population_standard_deviation(xp: Any, eps: float, inside: bool, expected: float):
    advantages = group_mean_std(rewards_of(xp, [1, 0, 0, 0]), 4, ddof=0, eps=eps, eps_inside=inside)
    assert_advantages(advantages, xp, np.array([1, -1 / 3, -1 / 3, -1 / 3]) * expected, atol=5e-7)


@both
def test_the_default_is_the_population_standard_deviation_with_eps_inside_the_root(xp: Any):
    rewards = rewards_of(xp, [1, 0, 0, 0])
    expected = np.array([0.75, -0.25, -0.25, -0.25]) / np.sqrt(0.1875 + 1e-8)
    assert_advantages(group_mean_std(rewards, 4), xp, expected, rtol=1e-14)


@both
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_sample_advantages_are_smaller_by_a_factor_of_the_group_size(xp: Any, size: int):
    rewards = rewards_of(xp, np.arange(size) ** 2)
    sample, population = (group_mean_std(rewards, size, ddof, 1e-30) for ddof in (1, 0))
    np.testing.assert_allclose(sample, population * np.sqrt((size - 1) / size), rtol=1e-12)


@both
def test_batch_standard_deviation(xp: Any):
    """Groups (0, 2) and (0, 10): both are divided by the one standard deviation of all four rewards."""
    values = [0.0, 2.0, 0.0, 10.0]
    expected = np.array([-1, 1, -5, 5]) / (np.std(values, ddof=1) + 1e-4)
    assert_advantages(group_mean_batch_std(rewards_of(xp, values), 2), xp, expected, rtol=1e-14)
    population = np.array([-1, 1, -5, 5]) / (np.std(values, ddof=0) + 1e-2)
    assert_advantages(group_mean_batch_std(rewards_of(xp, values), 2, 0, 1e-2), xp, population, rtol=1e-14)


# --- Groups without a signal


@both
@every
@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rewards_get_exact_zeros(xp: Any, advantage: Advantage, size: int, dtype: str):
    """The float32 mean of seven times 0.1 is not 0.1; divided by eps, what is left would pass for a signal."""
    advantages = advantage(rewards_of(xp, [0.1] * size, dtype), size)
    assert_advantages(advantages, xp, np.zeros(size), dtype)


@both
@pytest.mark.parametrize(("size", "dtype"), [(7, "float32"), (3, "float32"), (3, "float64")])
def test_equal_rewards_get_exact_zeros_with_a_small_eps_outside(xp: Any, size: int, dtype: str):
    rewards = rewards_of(xp, [0.1] * size, dtype)
    assert_advantages(sample_std(rewards, size, eps=1e-8), xp, np.zeros(size), dtype)


def test_the_plain_formula_does_not_give_zeros():
    """Why there is code for equal rewards: without it, three times 0.1 is a reward below its own mean."""
    rewards = np.full(3, 0.1)
    assert (rewards - rewards.mean() != 0).all()


@both
def test_a_group_of_equals_beside_another_group(xp: Any):
    rewards = rewards_of(xp, [0.1, 0.1, 0.1, 0.0, 0.0, 3.0])
    assert_advantages(group_mean(rewards, 3), xp, [0, 0, 0, -1, -1, 2], rtol=1e-15)


# --- Leave one out


def directly(rewards: np.ndarray, size: int) -> np.ndarray:
    """Each reward minus the mean of the others in its group."""
    groups = rewards.reshape(-1, size)
    return np.array([[row[i] - np.delete(row, i).mean() for i in range(size)] for row in groups]).ravel()


def grouped_rewards(bound: float = 100.0) -> st.SearchStrategy[tuple[np.ndarray, int]]:
    """Rewards and their group size, one to three groups of two to six. They differ by 1e-6 or not at all."""

    def of(shape: tuple[int, int]) -> st.SearchStrategy[tuple[np.ndarray, int]]:
        number = st.floats(-bound, bound, allow_subnormal=False).map(lambda x: round(x, 6))
        count = shape[0] * shape[1]
        return st.lists(number, min_size=count, max_size=count).map(lambda values: (np.array(values), shape[1]))

    return st.tuples(st.integers(1, 3), st.integers(2, 6)).flatmap(of)


@both
@given(drawn=grouped_rewards())
def test_leave_one_out_is_a_multiple_of_group_mean_and_the_direct_computation(xp: Any, drawn: tuple[np.ndarray, int]):
    values, size = drawn
    rewards = rewards_of(xp, values)
    advantages = leave_one_out(rewards, size)
    np.testing.assert_allclose(advantages, group_mean(rewards, size) * (size / (size - 1)), rtol=1e-12)
    np.testing.assert_allclose(advantages, directly(values, size), rtol=1e-9, atol=1e-11)


# --- Properties


@both
@every
@given(drawn=grouped_rewards())
def test_a_group_sums_to_zero(xp: Any, advantage: Advantage, drawn: tuple[np.ndarray, int]):
    values, size = drawn
    advantages = np.asarray(advantage(rewards_of(xp, values), size)).reshape(-1, size)
    assert (np.abs(advantages.sum(-1)) <= 1e-8).all()


@every
@given(drawn=grouped_rewards())
def test_numpy_and_torch_agree(advantage: Advantage, drawn: tuple[np.ndarray, int]):
    values, size = drawn
    ours = advantage(torch.from_numpy(values.copy()), size)
    np.testing.assert_allclose(ours, advantage(values, size), rtol=1e-9, atol=1e-9)


@every
@given(drawn=grouped_rewards())
def test_a_constant_added_to_the_rewards_changes_nothing(advantage: Advantage, drawn: tuple[np.ndarray, int]):
    values, size = drawn
    np.testing.assert_allclose(advantage(values + 8.0, size), advantage(values, size), rtol=1e-6, atol=1e-8)


@every
def test_groups_do_not_see_each_other(advantage: Advantage):
    """Swapping two groups swaps their advantages."""
    first, second = [1.0, 0.0, 4.0], [2.0, 2.0, -1.0]
    forth = advantage(np.array(first + second), 3)
    back = advantage(np.array(second + first), 3)
    np.testing.assert_allclose(np.roll(forth, 3), back, rtol=1e-12)


@every
def test_the_rewards_stay_as_they_are(advantage: Advantage):
    rewards = np.array([1.0, 0.0, 0.0, 0.0])
    advantage(rewards, 4)
    np.testing.assert_array_equal(rewards, [1, 0, 0, 0])


# --- Errors say what is wrong and what to do


@both
@every
@pytest.mark.parametrize(
    ("values", "size", "message"),
    [
        ([1.0], 1, "group_size is 1: a group of one .* sample at least two responses"),
        ([1.0, 2.0], 1, "group_size is 1: a group of one .* sample at least two responses"),
        ([1.0, 2.0], 0, "group_size is 0"),
        ([1.0, 2.0, 3.0], 2, "3 rewards do not make whole groups of group_size 2"),
        ([], 2, "0 rewards do not make whole groups of group_size 2"),
        ([1.0, float("nan")], 2, "rewards holds NaN or infinity; mend the reward function"),
        ([1.0, float("-inf")], 2, "rewards holds NaN or infinity; mend the reward function"),
        ([[1.0, 2.0], [3.0, 4.0]], 2, r"rewards has shape \(2, 2\); one reward per response, \(N,\)"),
    ],
)
def test_errors(xp: Any, advantage: Advantage, values: Any, size: int, message: str):
    with pytest.raises(ValueError, match=message):
        advantage(rewards_of(xp, values), size)
