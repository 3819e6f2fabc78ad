"""DAPO's parts outside the loss: penalties by length, and groups with a signal."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnotes.objectives.shaping import OverlongPenalty, informative
from tests.cases import cases


def test_a_penalty_on_paper():
    """Lengths around a limit of 20 with a buffer of 4."""
    lengths = torch.tensor([1, 16, 17, 18, 20, 21, 25])
    assert OverlongPenalty(20, 4)(lengths).tolist() == [0, 0, -0.25, -0.5, -1, -1, -1]
    assert OverlongPenalty(20, 4, floor=False)(lengths).tolist() == [0, 0, -0.25, -0.5, -1, -1.25, -2.25]
    assert (OverlongPenalty(20, 4)(lengths.numpy()) == OverlongPenalty(20, 4)(lengths).numpy()).all()


@pytest.mark.parametrize("buffer", [0, -1, 21])
def test_a_buffer_that_cannot_be_is_refused(buffer: int):
    with pytest.raises(ValueError, match=f"buffer is {buffer}; it must be at least 1 and at most max_length 20"):
        OverlongPenalty(20, buffer)


@settings(deadline=None, derandomize=True, max_examples=cases())
@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_for_rewards_of_0_and_1_the_rules_agree(groups: int, size: int, seed: int, torch_array: bool):
    rewards = np.random.default_rng(seed).integers(0, 2, groups * size).astype(float)
    expected = np.repeat([0 < group.sum() < size for group in rewards.reshape(groups, size)], size)
    given_rewards = torch.from_numpy(rewards) if torch_array else rewards
    for rule in ("std", "mean"):
        np.testing.assert_array_equal(informative(given_rewards, size, rule=rule), expected)


def test_where_the_rules_differ():
    rewards = np.array([0.3] * 4 + [-1.0, 1.0, -1.0, -1.0])
    assert informative(rewards, 4).tolist() == [False] * 4 + [True] * 4
    assert informative(rewards, 4, rule="mean").tolist() == [True] * 4 + [False] * 4


def test_equal_float32_rewards_carry_no_signal():
    assert not informative(torch.full((7,), 0.1), 7).any()


def test_a_threshold_is_one_on_the_sample_standard_deviation():
    rewards = np.array([0.0, 0.0, 0.0, 1.0])
    std = rewards.std(ddof=1)
    assert informative(rewards, 4, threshold=std * 0.999).all()
    assert not informative(rewards, 4, threshold=std * 1.001).any()


def test_an_unknown_rule_and_a_group_of_one_are_refused():
    with pytest.raises(ValueError, match="rule is 'range'; choose 'std' or 'mean'"):
        informative(np.ones(4), 2, rule="range")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="a group of one"):
        informative(np.ones(4), 1)
