"""Entropies, exact divergences and what they bound, on NumPy arrays and torch tensors alike."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlnotes.estimators.divergences import (
    bretagnolle_huber,
    chi2,
    entropy,
    kl,
    kl_estimate,
    pinsker,
    tv,
    tv_bound_from_chi2,
    tv_bound_from_chi2_as_printed,
)
from tests.estimators.arrays import array, both, gradient_of, log, log_softmax, tried
from tests.golden_audit import GOLDEN

INF = math.inf


def leaf(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# --- Entropy


@both
@pytest.mark.parametrize(
    ("logits", "expected"),
    [([0, 0, -INF], 0.693147), ([1, 0, -INF], 0.582203), ([0, -INF, -INF], 0.0), ([0, 0, 0, 0], 1.386294)],
)
def test_entropy(xp: Any, logits: list[float], expected: float):
    logp = array(xp, log_softmax(leaf(logits)).detach().numpy())
    value = entropy(logp)
    assert value.shape == ()
    np.testing.assert_allclose(value, expected, atol=5e-7)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [([0, 0, -INF], [0, 0, 0]), ([1, 0, -INF], [-0.196612, 0.196612, 0]), ([0, -INF, -INF], [0, 0, 0])],
)
def test_gradient_of_entropy(logits: list[float], expected: list[float]):
    """An outcome that is masked out of the logits gets gradient 0, not NaN."""
    made = leaf(logits)
    gradient = gradient_of(entropy(log_softmax(made)), made)
    np.testing.assert_allclose(gradient, expected, atol=5e-7)
    assert gradient[-1] == 0


@both
def test_entropy_of_rows(xp: Any):
    logp = log(xp, [[[0.5, 0.5], [1.0, 0.0]]])
    value = entropy(logp)
    assert value.shape == (1, 2)
    np.testing.assert_allclose(value, [[math.log(2), 0.0]], rtol=1e-15)


# --- Exact divergence


@both
def test_kl_of_a_policy_with_itself_is_zero(xp: Any):
    logp = log(xp, [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(kl(logp, logp), 0.0)


def test_gradient_of_kl_is_finite_where_an_outcome_is_impossible():
    logp = log(torch, [0.5, 0.5, 0.0])
    made = logp.clone().requires_grad_()
    np.testing.assert_array_equal(gradient_of(kl(log_softmax(made), logp), made), [0, 0, 0])
    assert torch.isfinite(gradient_of(kl(made, logp), made)).all()
    assert torch.isfinite(gradient_of(kl(logp, log_softmax(made)), made)).all()


@both
def test_kl(xp: Any):
    np.testing.assert_allclose(kl(log(xp, [0.7, 0.3]), log(xp, [0.5, 0.5])), 0.082283, atol=5e-7)
    np.testing.assert_allclose(kl(log(xp, [0.5, 0.5]), log(xp, [0.7, 0.3])), 0.087177, atol=5e-7)
    rows = kl(log(xp, [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), log(xp, [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(rows, [0.274887, -math.log(0.2)], atol=5e-7)


@both
def test_kl_is_infinite_where_the_second_lacks_mass(xp: Any):
    assert float(kl(log(xp, [0.5, 0.5]), log(xp, [1.0, 0.0]))) == INF
    np.testing.assert_allclose(kl(log(xp, [1.0, 0.0]), log(xp, [0.5, 0.5])), math.log(2), rtol=1e-15)


rows = st.lists(st.floats(-8, 8), min_size=3, max_size=3)


@both
@given(first=rows, second=rows)
def test_kl_is_not_negative_and_zero_with_itself(xp: Any, first: list[float], second: list[float]):
    logp, logq = (array(xp, log_softmax(leaf(logits)).detach().numpy()) for logits in (first, second))
    assert float(kl(logp, logq)) >= -1e-12
    assert float(kl(logp, logp)) == 0.0


@both
@given(first=rows, second=rows)
def test_entropy_and_kl_against_the_uniform_add_up(xp: Any, first: list[float], second: list[float]):
    """KL(p || uniform) = log V - H(p), and its value does not depend on which library computes it."""
    logp, logq = (log_softmax(leaf(logits)).detach().numpy() for logits in (first, second))
    uniform = np.full(3, -math.log(3))
    total = float(kl(array(xp, logp), array(xp, uniform)) + entropy(array(xp, logp)))
    np.testing.assert_allclose(total, math.log(3), rtol=1e-12)
    np.testing.assert_allclose(kl(array(xp, logp), array(xp, logq)), kl(logp, logq), rtol=1e-9, atol=1e-12)


@both
def test_tv_and_chi2(xp: Any):
    p, q = log(xp, [[0.5, 0.3, 0.2], [0.5, 0.5, 0.0]]), log(xp, [[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]])
    np.testing.assert_allclose(tv(p, q), [0.3, 0.25], rtol=1e-14)
    np.testing.assert_allclose(chi2(p, q), [0.09 / 0.2 + 0.09 / 0.5, 0.25 + 0.25], rtol=1e-14)
    np.testing.assert_array_equal(chi2(q, p)[1], INF)
    np.testing.assert_array_equal(tv(p, p), [0, 0])
    np.testing.assert_array_equal(chi2(p, p), [0, 0])


@both
def test_golden_divergences_of_two_policies(xp: Any):
    pi, mu = (log(xp, GOLDEN["G09"]["inputs"]["div"][name]) for name in ("pi", "mu"))
    weight = xp.exp(pi - mu)
    ours = {
        "TV": tv(pi, mu),
        "chi2_pi_mu": chi2(pi, mu),
        "sqrt_half_chi2": tv_bound_from_chi2_as_printed(chi2(pi, mu)),
        "half_sqrt_chi2": tv_bound_from_chi2(chi2(pi, mu)),
        "KL_mu_pi": kl(mu, pi),
        "KL_pi_mu": kl(pi, mu),
        "pinsker_mu_pi": pinsker(kl(mu, pi)),
        "bretagnolle_huber": bretagnolle_huber(kl(mu, pi)),
        "second_moment_T": (1 + chi2(pi, mu)) ** GOLDEN["G09"]["inputs"]["div"]["T"],
        "E_mu_k3": (xp.exp(mu) * kl_estimate(mu - pi, "k3")).sum(),
    }
    expected = GOLDEN["G09"]["outputs"]["div"]
    assert ours.keys() == expected.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-10, err_msg=name)
    np.testing.assert_allclose((xp.exp(mu) * weight**2).sum() - 1, chi2(pi, mu), rtol=1e-12)


DIVERGENCES: dict[str, Callable[[Any, Any], Any]] = {"tv": tv, "kl": kl, "chi2": chi2}


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("side", [0, 1])
def test_gradients_of_divergences_are_those_of_finite_differences(name: str, side: int):
    divergence = DIVERGENCES[name]
    logits = [np.array([0.3, -0.5, 1.0, 0.1]), np.array([-0.2, 0.4, 0.3, -1.0])]
    made = [leaf(row) for row in logits]
    gradient = gradient_of(divergence(*map(log_softmax, made)), made[side])

    def value(change: np.ndarray) -> float:
        moved = [row + change * (i == side) for i, row in enumerate(logits)]
        return float(divergence(*(row - np.logaddexp.reduce(row) for row in moved)))

    step = 1e-6 * np.eye(4)
    expected = [(value(row) - value(-row)) / 2e-6 for row in step]
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_gradients_are_finite_where_both_lack_an_outcome(name: str):
    made = [log(torch, row).requires_grad_() for row in ([0.5, 0.5, 0.0], [0.3, 0.7, 0.0])]
    for gradient in torch.autograd.grad(DIVERGENCES[name](*map(log_softmax, made)), made):
        assert torch.isfinite(gradient).all()
        assert gradient[2] == 0


@both
@pytest.mark.parametrize("name", DIVERGENCES)
def test_rows_of_unequal_length_are_refused(xp: Any, name: str):
    with pytest.raises(ValueError, match=r"rows of shapes \(3, 1\) and \(3,\); pass rows of equal length"):
        DIVERGENCES[name](array(xp, [[0.0]] * 3), log(xp, [0.2, 0.3, 0.5]))


# --- What divergences bound


wide_rows = st.lists(st.floats(-8, 8), min_size=4, max_size=4)


@tried
@given(first=wide_rows, second=wide_rows)
def test_every_bound_on_tv_holds(first: list[float], second: list[float]):
    p, q = (np.array(row) - np.logaddexp.reduce(row) for row in (first, second))
    distance = tv(p, q) * (1 - 1e-12) - 1e-12
    for divergence in (kl(p, q) + 1e-15, kl(q, p) + 1e-15):  # of sums near 0, rounding is all there is
        assert distance <= pinsker(divergence)
        assert distance <= bretagnolle_huber(divergence) <= 1
    assert distance <= tv_bound_from_chi2(chi2(p, q)) <= 1
    assert tv_bound_from_chi2(chi2(p, q)) * math.sqrt(2) <= tv_bound_from_chi2_as_printed(chi2(p, q)) * (1 + 1e-12)


@both
@pytest.mark.parametrize("value", [1e-6, 0.3, 1.0, 1.5, 40.0])
def test_the_bound_from_chi2_is_attained(xp: Any, value: float):
    """Up to 1: q uniform on two outcomes, p moved by sqrt(chi2) / 2. Beyond: all of p where q has 1 / (1 + chi2)."""
    if value <= 1:
        p, q = [0.5 + math.sqrt(value) / 2, 0.5 - math.sqrt(value) / 2], [0.5, 0.5]
    else:
        p, q = [1.0, 0.0], [1 / (1 + value), value / (1 + value)]
    np.testing.assert_allclose(chi2(log(xp, p), log(xp, q)), value, rtol=1e-9)
    np.testing.assert_allclose(tv(log(xp, p), log(xp, q)), tv_bound_from_chi2(value), rtol=1e-9)


def test_a_small_tv_can_hide_a_large_chi2():
    """What shows it is the example, not the inequality: 003 section 4.2."""
    mu, pi = np.log([1e-6, 1 - 1e-6]), np.log([1e-3, 1 - 1e-3])
    np.testing.assert_allclose([tv(pi, mu), chi2(pi, mu), kl(mu, pi)], [0.000999, 0.998002, 0.000993], rtol=1e-3)
    np.testing.assert_allclose((1 + chi2(pi, mu)) ** 100, 1.147e30, rtol=1e-3)


def test_bounds_at_their_ends_and_where_they_cross():
    assert pinsker(0.0) == bretagnolle_huber(0.0) == tv_bound_from_chi2(0.0) == 0
    assert bretagnolle_huber(INF) == tv_bound_from_chi2(INF) == 1
    assert pinsker(2) == 1
    assert pinsker(1.59) < bretagnolle_huber(1.59) and pinsker(1.60) > bretagnolle_huber(1.60)
    assert tv_bound_from_chi2(-1e-17) == 0, "rounding below zero is zero"


@pytest.mark.parametrize("bound", [pinsker, bretagnolle_huber, tv_bound_from_chi2, tv_bound_from_chi2_as_printed])
def test_a_negative_divergence_is_refused(bound: Callable[[Any], Any]):
    for value in (-0.1, math.nan, np.array([0.1, -0.1])):
        with pytest.raises(ValueError, match=r"is negative or NaN: .*; a divergence is at least 0"):
            bound(value)
