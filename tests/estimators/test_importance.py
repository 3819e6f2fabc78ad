"""Importance sampling on NumPy arrays and torch tensors alike, held to the mean over every possible batch."""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnotes.estimators.importance import (
    balanced_cap,
    clipped,
    effective_sample_size,
    expected_effective_sample_size,
    importance_sampling,
    importance_weights,
    monte_carlo,
    require_support,
    sampled_log_ratio,
    self_normalized,
)
from rlnotes.exact.checks import SupportError
from tests.estimators.arrays import array, both, log, tried

INF, NAN = math.inf, math.nan

BEHAVIOR, TARGET, VALUE = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), np.array([1.0, -2.0, 3.0])
LOG_RATIO = np.log(TARGET / BEHAVIOR)
TRUE = float(TARGET @ VALUE)


def batches(n: int) -> Iterator[tuple[float, np.ndarray]]:
    """Every batch of n samples of the behaviour, with its probability."""
    for batch in itertools.product(range(len(BEHAVIOR)), repeat=n):
        index = np.array(batch)
        yield float(np.prod(BEHAVIOR[index])), index


def mean_over_batches(estimate: Callable[[np.ndarray], Any], n: int) -> float:
    return sum(probability * float(estimate(index)) for probability, index in batches(n))


# --- Monte Carlo


@both
def test_monte_carlo_by_hand(xp: Any):
    mean, error = monte_carlo(array(xp, [1, 2, 3, 6]))
    np.testing.assert_allclose(mean, 3, rtol=1e-15)
    np.testing.assert_allclose(error, math.sqrt((4 + 1 + 0 + 9) / 3 / 4), rtol=1e-15)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_squared_standard_error_is_the_variance_of_the_mean_on_average(n: int):
    variance = BEHAVIOR @ VALUE**2 - (BEHAVIOR @ VALUE) ** 2
    assert mean_over_batches(lambda i: monte_carlo(VALUE[i]).mean, n) == pytest.approx(BEHAVIOR @ VALUE, rel=1e-12)
    squared = mean_over_batches(lambda i: monte_carlo(VALUE[i]).standard_error ** 2, n)
    assert squared == pytest.approx(variance / n, rel=1e-12)


# --- Weights and support


@both
def test_weights_of_a_calculation_by_hand(xp: Any):
    """002 Example 1.5."""
    weights = importance_weights(sampled_log_ratio(log(xp, [0.5, 0.5]), log(xp, [0.8, 0.2])))
    np.testing.assert_allclose(weights, [1.6, 0.4], rtol=1e-14)
    np.testing.assert_allclose((array(xp, [0.5, 0.5]) * weights * array(xp, [1, 3])).sum(), 1.4, rtol=1e-14)


@both
def test_a_sample_that_the_target_never_does_has_weight_zero(xp: Any):
    ratio = sampled_log_ratio(log(xp, [0.5, 0.5]), log(xp, [0, 1]))
    np.testing.assert_array_equal(importance_weights(ratio), [0, 2])


@both
def test_a_sample_without_behaviour_probability_is_refused(xp: Any):
    with pytest.raises(SupportError, match=r"logp_behavior\[1\] is -inf; the behaviour cannot have sampled this"):
        sampled_log_ratio(log(xp, [0.5, 0.0, 0.0]), log(xp, [0.5, 0.2, 0.3]))


@both
def test_rows_where_the_behaviour_misses_an_outcome_of_the_target_are_refused(xp: Any):
    behavior, target = log(xp, [[0.5, 0.5, 0], [1, 0, 0]]), log(xp, [[0.9, 0.1, 0], [0.5, 0.5, 0]])
    with pytest.raises(SupportError, match=r"logp_behavior\[1, 1\] is -inf; the target gives this outcome"):
        require_support(behavior, target)
    with pytest.raises(SupportError, match=r"logp_behavior\[0, 2\] is -inf"):
        require_support(behavior, log(xp, [[0.5, 0.5 - 1e-9, 1e-9], [1, 0, 0]]))
    require_support(behavior[:1], target[:1])
    require_support(target, behavior)


@both
@pytest.mark.parametrize(
    ("behavior", "target", "message"),
    [
        ([-1.0, NAN], [-1.0, -1.0], r"logp_behavior\[1\] is nan; a log-probability is at most 0; pass logarithms"),
        ([-1.0, -1.0], [0.3, -1.0], r"logp\[0\] is 0.3; a log-probability is at most 0"),
        ([-1.0, -1.0], [[-1.0], [-1.0]], r"logp_behavior has shape \(2,\) and logp has shape \(2, 1\)"),
    ],
)
def test_what_is_no_log_probability_is_refused(xp: Any, behavior: Any, target: Any, message: str):
    for check in (sampled_log_ratio, require_support):
        with pytest.raises(ValueError, match=message):
            check(array(xp, behavior), array(xp, target))


# --- Means over all batches


@pytest.mark.parametrize("n", [2, 3, 4])
def test_importance_sampling_is_unbiased_and_so_is_its_squared_standard_error(n: int):
    weight = TARGET / BEHAVIOR
    variance = BEHAVIOR @ (weight * VALUE) ** 2 - TRUE**2
    mean = mean_over_batches(lambda i: importance_sampling(LOG_RATIO[i], VALUE[i]).mean, n)
    squared = mean_over_batches(lambda i: importance_sampling(LOG_RATIO[i], VALUE[i]).standard_error ** 2, n)
    assert mean == pytest.approx(TRUE, rel=1e-12)
    assert squared == pytest.approx(variance / n, rel=1e-12)


@pytest.mark.parametrize("cap", [0.3, 1.0, 2.0, 3.0, 50.0])
def test_the_bias_of_clipping_is_what_the_docstring_says(cap: float):
    weight = TARGET / BEHAVIOR
    bias = BEHAVIOR @ ((np.minimum(weight, cap) - weight) * VALUE)
    mean = mean_over_batches(lambda i: clipped(LOG_RATIO[i], VALUE[i], cap).mean, 3)
    assert mean - TRUE == pytest.approx(bias, abs=1e-12)
    assert (abs(bias) > 1e-3) == (cap < 2.9), "only a cap below the largest weight biases"


def test_self_normalisation_is_biased_less_and_less():
    """Its bias is about -Cov(w, w (f - mean)) / n = E[w^2 (mean - f)] / n."""
    weight = TARGET / BEHAVIOR
    expected = BEHAVIOR @ (weight**2 * (TRUE - VALUE))

    def bias(n: int) -> float:
        return mean_over_batches(lambda i: self_normalized(LOG_RATIO[i], VALUE[i]).mean, n) - TRUE

    assert abs(bias(2)) > abs(bias(4)) > abs(bias(7)) > 0.1
    assert 7 * bias(7) == pytest.approx(expected, rel=0.25)


def test_a_self_normalised_constant_is_that_constant_and_an_ordinary_one_is_not():
    for _, index in batches(3):
        assert self_normalized(LOG_RATIO[index], np.full(3, 5.0)).mean == pytest.approx(5, rel=1e-14)
    assert importance_sampling(LOG_RATIO[[0, 0, 2]], np.full(3, 5.0)).mean == pytest.approx(5 * (0.4 + 0.4 + 3) / 3)


def test_the_delta_method_error_of_self_normalisation():
    """With 200 000 samples, against the asymptotic variance E[w^2 (f - mean)^2] / n."""
    index = np.random.default_rng(0).choice(3, size=200_000, p=BEHAVIOR)
    mean, error = self_normalized(LOG_RATIO[index], VALUE[index])
    variance = BEHAVIOR @ (TARGET / BEHAVIOR * (VALUE - TRUE)) ** 2
    assert error == pytest.approx(math.sqrt(variance / len(index)), rel=0.02)
    assert abs(mean - TRUE) < 4 * error


@both
@pytest.mark.parametrize("shift", [-800.0, 900.0])
def test_what_does_not_need_the_size_of_the_weights_does_not_overflow(xp: Any, shift: float):
    ratio, values = array(xp, [0.5, -1.0, 2.0]), array(xp, [1.0, 2.0, -1.0])
    np.testing.assert_allclose(self_normalized(ratio + shift, values).mean, self_normalized(ratio, values).mean, 1e-12)
    np.testing.assert_allclose(effective_sample_size(ratio + shift), effective_sample_size(ratio), rtol=1e-12)
    if shift > 0:
        np.testing.assert_allclose(clipped(ratio + shift, values, 2.0).mean, 4 / 3, rtol=1e-12)
        with pytest.raises(ValueError, match=r"log_ratio\[0\] is 900.5; its weight overflows .*float64; use self_norm"):
            importance_sampling(ratio + shift, values)


# --- Effective sample size


@both
def test_effective_sample_size(xp: Any):
    np.testing.assert_allclose(effective_sample_size(array(xp, [-3.0] * 7)), 7, rtol=1e-14)
    np.testing.assert_allclose(effective_sample_size(array(xp, [0.0, -INF, -INF])), 1, rtol=1e-14)
    np.testing.assert_allclose(effective_sample_size(log(xp, [1, 2, 3])), 36 / 14, rtol=1e-14)


@tried
@given(st.lists(st.floats(-30, 30), min_size=2, max_size=12))
def test_effective_sample_size_lies_between_one_and_n(ratio: list[float]):
    size = float(effective_sample_size(np.array(ratio)))
    assert 1 - 1e-12 <= size <= len(ratio) * (1 + 1e-12)
    weights = np.exp(ratio)
    assert size == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-10)


@both
def test_effective_sample_size_of_the_whole_population(xp: Any):
    """Samples in exact proportion to a behaviour of tenths: n / (1 + chi2) to the last digit."""
    index = np.repeat(np.arange(3), (BEHAVIOR * 10).round().astype(int))
    chi2 = array(xp, (TARGET - BEHAVIOR) ** 2 / BEHAVIOR).sum()
    expected = expected_effective_sample_size(10, chi2)
    np.testing.assert_allclose(effective_sample_size(array(xp, LOG_RATIO[index])), expected, rtol=1e-12)
    assert float(expected) == pytest.approx(10 / (BEHAVIOR @ (TARGET / BEHAVIOR) ** 2), rel=1e-12)


# --- Gradients


def difference(function: Callable[[np.ndarray], Any], at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Gradient by central differences."""
    found = np.empty_like(at)
    for index in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[index] = step
        found[index] = (float(function(at + move)) - float(function(at - move))) / (2 * step)
    return found


ESTIMATES = {
    "importance_sampling": importance_sampling,
    "clipped": partial(clipped, cap=1.5),
    "self_normalized": self_normalized,
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_torch_has_numpys_value_and_the_gradient_of_finite_differences(name: str):
    estimate, values = ESTIMATES[name], np.array([1.0, -2.0, 3.0, 0.5])
    ratio = np.array([0.3, -0.2, 0.9, -1.0])
    made = torch.tensor(ratio, requires_grad=True)
    ours = estimate(made, torch.tensor(values))
    for found, expected in zip(ours, estimate(ratio, values), strict=True):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-14)
    (gradient,) = torch.autograd.grad(ours.mean, made)
    np.testing.assert_allclose(gradient, difference(lambda at: estimate(at, values).mean, ratio), atol=1e-8)


# --- Errors


@both
@pytest.mark.parametrize("name", ESTIMATES)
def test_errors(xp: Any, name: str):
    estimate = ESTIMATES[name]
    for ratio, values, message in [
        ([0.0], [1.0], "values holds 1 samples; a standard error needs at least two"),
        ([0.0, 0.0], [[1.0], [1.0]], r"values has shape \(2, 1\); one number per sample, \(n,\), is needed"),
        ([[0.0], [0.0]], [1.0, 1.0], r"values has shape \(2,\) and log_ratio has shape \(2, 1\)"),
        ([0.0, 0.0], [1.0, NAN], r"values\[1\] is nan; pass finite numbers"),
        ([0.0, INF], [1.0, 1.0], r"log_ratio\[1\] is inf; a log-ratio is a number or -inf"),
        ([NAN, 0.0], [1.0, 1.0], r"log_ratio\[0\] is nan"),
        ([-INF, -INF], [1.0, 1.0], "all 2 weights are 0: the target never does what was sampled"),
    ]:
        with pytest.raises(ValueError, match=message):
            estimate(array(xp, ratio), array(xp, values))


def test_a_cap_must_be_positive():
    with pytest.raises(ValueError, match="cap is 0; the largest weight must be positive"):
        clipped(LOG_RATIO, VALUE, 0)


def test_integers_are_refused():
    with pytest.raises(ValueError, match="values has dtype int64; pass floating-point numbers"):
        monte_carlo(np.array([1, 2, 3]))


def test_the_balanced_cap_is_what_it_cuts_off_and_no_other_cap_has_a_smaller_sum_of_worst_bias_and_noise():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 100):
        w = np.exp(2 * rng.normal(size=n))
        C = float(balanced_cap(np.log(w)))
        assert np.maximum(w - C, 0).sum() == pytest.approx(C)

        def price(cap: float, w: np.ndarray = w) -> float:
            return float(np.maximum(w - cap, 0).mean() ** 2 + (np.minimum(w, cap) ** 2).sum() / len(w) ** 2)

        assert price(C) <= min(price(float(cap)) for cap in np.linspace(0, w.max(), 1001)) + 1e-12
    with pytest.raises(ValueError, match="log_ratio is empty"):
        balanced_cap(np.zeros(0))
