"""Moments of importance-sampling estimates, against walks over all ordered samples."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from rlnotes.estimators.divergences import chi2
from rlnotes.estimators.importance import clipped, effective_sample_size, importance_sampling, self_normalized
from rlnotes.exact.checks import SupportError
from rlnotes.exact.importance import (
    best_baseline,
    clipped_bias,
    sample_moments,
    self_normalized_bias,
    weighted_moments,
)
from rlnotes.exact.token_families import one_step
from rlnotes.exact.token_gradients import reinforce_weights, total_variance
from tests.cases import cases

TARGET, BEHAVIOR, VALUES = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1]), np.array([0.0, 1.0, 2.0])


def random_cases(divisor: int):
    rng = np.random.default_rng(0)
    for _ in range(max(1, cases() // divisor)):
        size = int(rng.integers(2, 5))
        yield rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size)), rng.normal(size=size)


def by_walking(statistic, behavior, log_ratio, values, n):
    """Over all ordered samples, one after another."""
    mean = square = 0.0
    for drawn in itertools.product(range(len(behavior)), repeat=n):
        probability = math.prod(behavior[i] for i in drawn)
        found = float(statistic(log_ratio[list(drawn)], values[list(drawn)]))
        mean, square = mean + probability * found, square + probability * found**2
    return mean, square - mean**2


STATISTICS = {
    "weighted": lambda log_ratio, values: importance_sampling(log_ratio, values).mean,
    "normalised": lambda log_ratio, values: self_normalized(log_ratio, values).mean,
    "clipped": lambda log_ratio, values: clipped(log_ratio, values, 1.5).mean,
    "size": lambda log_ratio, values: effective_sample_size(log_ratio),
}


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS.keys())
def test_counting_samples_equals_walking_over_them(statistic):
    for target, behavior, values in random_cases(divisor=20):
        log_ratio = np.log(target / behavior)
        for n in (2, 4):
            found = sample_moments(statistic, behavior, log_ratio, values, n)
            np.testing.assert_allclose(found, by_walking(statistic, behavior, log_ratio, values, n), atol=1e-9)


def test_a_weighted_sample_has_the_mean_of_the_target_and_chi2_is_the_variance_of_the_weight():
    for target, behavior, values in random_cases(divisor=1):
        found = weighted_moments(target, behavior, values)
        assert found.mean == pytest.approx(target @ values, abs=1e-12)
        assert found.variance == pytest.approx(target**2 / behavior @ values**2 - (target @ values) ** 2, rel=1e-9)
        weight = weighted_moments(target, behavior, np.ones_like(values))
        assert weight == pytest.approx((1, chi2(np.log(target), np.log(behavior))), rel=1e-9)


def test_the_bias_of_clipped_weights_does_not_depend_on_the_sample_size():
    for target, behavior, values in random_cases(divisor=20):
        bias = clipped_bias(target, behavior, values, 1.5)
        for n in (2, 5):
            mean = sample_moments(STATISTICS["clipped"], behavior, np.log(target / behavior), values, n).mean
            assert mean - target @ values == pytest.approx(bias, abs=1e-9)


def test_the_bias_of_normalised_weights_falls_like_one_over_n():
    limit, log_ratio = self_normalized_bias(TARGET, BEHAVIOR, VALUES), np.log(TARGET / BEHAVIOR)
    scaled = []
    for n in (50, 100, 200):
        mean = sample_moments(STATISTICS["normalised"], BEHAVIOR, log_ratio, VALUES, n).mean
        scaled.append(n * (mean - TARGET @ VALUES))
    errors = np.abs(np.array(scaled) - limit)
    assert errors[2] < 0.6 * errors[1] < 0.36 * errors[0]  # what is left falls like 1 / n in its turn
    assert errors[2] < 0.05 * abs(limit)


def test_the_best_baseline_minimises_the_total_variance():
    for _, probs, values in random_cases(divisor=20):
        scores = np.eye(len(probs)) - probs
        model, policy, _ = one_step(probs.tolist(), probs.tolist(), values.tolist())

        def spread(baseline, model=model, policy=policy):
            return total_variance(model, policy, policy, reinforce_weights(model, float(baseline)))

        best = best_baseline(probs, values, scores)
        found: Any = minimize_scalar(spread)
        assert best == pytest.approx(found.x, abs=1e-5)
        assert spread(best) < spread(best + 0.1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: weighted_moments([0.5, 0.5], [1.0, 0.0], [1, 1]), SupportError, r"behavior\[1\] is 0 and target\[1\]"),
        (lambda: weighted_moments([0.5, 0.5], [1.0], [1, 1]), ValueError, "2 outcomes and behavior 1"),
        (lambda: weighted_moments([0.5, 0.6], [0.5, 0.5], [1, 1]), ValueError, "target sums to 1.1"),
        (lambda: clipped_bias([0.5, 0.5], [0.5, 0.5], [1.0], 1), ValueError, "values has shape"),
        (lambda: best_baseline([0.5, 0.5], [1, 0], np.zeros((2, 1))), ValueError, "all scores are 0"),
        (lambda: sample_moments(STATISTICS["weighted"], [0.5, 0.5], [0, 0], [1, 1], 0), ValueError, "n is 0"),
        (
            lambda: sample_moments(STATISTICS["weighted"], np.full(9, 1 / 9), np.zeros(9), np.ones(9), 99),
            ValueError,
            "n is 99",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_outcome_that_neither_gives_changes_nothing():
    wide = [np.append(part, 0.0) for part in (TARGET, BEHAVIOR, VALUES)]
    assert weighted_moments(*wide) == pytest.approx(weighted_moments(TARGET, BEHAVIOR, VALUES))
    log_ratio = np.append(np.log(TARGET / BEHAVIOR), 0.0)
    found = sample_moments(STATISTICS["normalised"], wide[1], log_ratio, wide[2], 3)
    assert found == pytest.approx(
        sample_moments(STATISTICS["normalised"], BEHAVIOR, log_ratio[:3], VALUES, 3), abs=1e-12
    )


def test_the_first_examples_of_the_source():
    """002 Example 1.1 is 4.9, from whatever is sampled; Example 1.2, E[x^2] of a standard normal, is 1."""
    p, squares = [0.2, 0.5, 0.3], np.array([1.0, 4.0, 9.0])
    assert weighted_moments(p, p, squares).mean == pytest.approx(4.9, abs=1e-12)
    assert weighted_moments(p, [0.6, 0.3, 0.1], squares).mean == pytest.approx(4.9, abs=1e-12)
    assert norm.expect(lambda x: x**2) == pytest.approx(1, abs=1e-8)
