import itertools

import numpy as np
import pytest

from rlnotes.estimators.baselines import group_mean, group_mean_std, leave_one_out
from rlnotes.exact.groups import gradient_scale, mean_deviation, wasted_share


def scale_by_listing(advantage, group_size: int, p: float) -> float:
    """The same number from all 2^G outcomes, with a gradient by finite differences."""
    total = 0.0
    for outcome in itertools.product((0.0, 1.0), repeat=group_size):
        rewards = np.array(outcome)
        probability = np.prod(np.where(rewards == 1, p, 1 - p))
        total += probability * np.mean(advantage(rewards, group_size) * (rewards - p))

    def success(parameter: float) -> float:
        return 1 / (1 + np.exp(-parameter))

    at = np.log(p / (1 - p))
    return total / ((success(at + 1e-6) - success(at - 1e-6)) / 2e-6)


@pytest.mark.parametrize("advantage", [group_mean, group_mean_std, leave_one_out])
@pytest.mark.parametrize(("group_size", "p"), [(2, 0.5), (3, 0.2), (6, 0.9)])
def test_by_counts_equals_by_listing(advantage, group_size, p):
    assert gradient_scale(advantage, group_size, p) == pytest.approx(scale_by_listing(advantage, group_size, p), 1e-6)


@pytest.mark.parametrize("group_size", [2, 4, 6, 16])
@pytest.mark.parametrize("p", [0.01, 0.3, 0.95])
def test_what_each_baseline_does_to_the_gradient(group_size, p):
    assert gradient_scale(group_mean, group_size, p) == pytest.approx((group_size - 1) / group_size, abs=1e-12)
    assert gradient_scale(leave_one_out, group_size, p) == pytest.approx(1, abs=1e-12)
    assert gradient_scale(group_mean_std, group_size, p) <= np.sqrt(group_size - 1) + 1e-9


def test_wasted_share():
    assert wasted_share(4, 0.35) == pytest.approx(0.35**4 + 0.65**4)
    assert wasted_share(2, 0.5) == 0.5


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_a_certain_prompt_has_no_gradient_to_compare_with(p):
    with pytest.raises(ValueError, match="must lie strictly between 0 and 1"):
        gradient_scale(group_mean, 4, p)


def test_the_mean_deviation_is_the_push_of_the_normalised_advantage_and_is_bounded_as_the_chapter_says():
    for size in (2, 5, 16):
        p = np.array([0.01, 0.2, 0.5, 0.98])
        factor = mean_deviation(size, p) / (p * (1 - p))
        assert factor == pytest.approx([gradient_scale(group_mean_std, size, q) for q in p], rel=1e-6)
        assert (factor <= (size - 1) ** 0.5 + 1e-9).all() and (factor < (p * (1 - p)) ** -0.5).all()
