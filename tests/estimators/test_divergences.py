"""Entropies, divergences and their estimators, on NumPy arrays and torch tensors alike."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlnotes.estimators.divergences import KLEstimator, entropy, kl, kl_estimate

INF = math.inf
both = pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
ESTIMATORS: tuple[KLEstimator, ...] = ("k1", "k2", "k3")


def array(xp: Any, values: Any) -> Any:
    return xp.asarray(values, dtype=xp.float64)


def log(xp: Any, probs: Any) -> Any:
    """Logarithms of ``probs``, -inf for 0 without a warning."""
    with np.errstate(divide="ignore"):
        return array(xp, np.log(np.asarray(probs, dtype=np.float64)))


def log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1)


def gradient_of(value: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), logits)[0]


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


# --- Estimators

PI, REF = [0.7, 0.3], [0.5, 0.5]


@both
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", [0.336472, -0.510826]), ("k2", [0.056607, 0.130471]), ("k3", [0.050758, 0.155841])],
)
def test_estimates(xp: Any, estimator: KLEstimator, expected: list[float]):
    estimates = kl_estimate(log(xp, PI) - log(xp, REF), estimator)
    np.testing.assert_allclose(estimates, expected, atol=5e-7)


@both
@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_mean_of_k1_and_k3_is_kl(xp: Any, estimator: KLEstimator):
    estimates = kl_estimate(log(xp, PI) - log(xp, REF), estimator)
    mean = float((array(xp, PI) * estimates).sum())
    np.testing.assert_allclose(mean, 0.082283, atol=5e-7)
    np.testing.assert_allclose(mean, float(kl(log(xp, PI), log(xp, REF))), rtol=1e-12)


def estimator_gradient(pi: list[float], ref: list[float], estimator: KLEstimator) -> Tensor:
    """Mean gradient on the logits of an estimate as a loss: the samples are held fixed, so are their weights."""
    logits = log(torch, pi).requires_grad_()
    logp = log_softmax(logits)
    return gradient_of(logp.detach().exp() * kl_estimate(logp - log(torch, ref), estimator), logits)


def kl_gradient(pi: list[float], ref: list[float], reverse: bool) -> Tensor:
    """Exact gradient on the logits of KL(pi || ref), or of KL(ref || pi) if ``reverse``."""
    logits = log(torch, pi).requires_grad_()
    logp, logq = log_softmax(logits), log(torch, ref)
    return gradient_of(kl(logq, logp) if reverse else kl(logp, logq), logits)


@pytest.mark.parametrize(
    ("pi", "ref", "forward"),
    [
        (PI, REF, [0.177933, -0.177933]),
        ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.320702, -0.082466, -0.238236]),
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0, 0, 0]),
    ],
)
def test_gradients_of_the_estimators(pi: list[float], ref: list[float], forward: list[float]):
    """k1 has none; k2 has that of KL(pi || ref); k3 has pi - ref, that of KL(ref || pi)."""
    np.testing.assert_allclose(kl_gradient(pi, ref, reverse=False), forward, atol=6e-7)
    np.testing.assert_allclose(kl_gradient(pi, ref, reverse=True), np.subtract(pi, ref), atol=1e-15)
    np.testing.assert_allclose(estimator_gradient(pi, ref, "k1"), np.zeros(len(pi)), atol=1e-15)
    np.testing.assert_allclose(estimator_gradient(pi, ref, "k2"), kl_gradient(pi, ref, reverse=False), atol=1e-15)
    np.testing.assert_allclose(estimator_gradient(pi, ref, "k3"), np.subtract(pi, ref), atol=1e-15)


@both
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_are_zero_where_the_policies_agree(xp: Any, estimator: KLEstimator):
    np.testing.assert_array_equal(kl_estimate(log(xp, PI) - log(xp, PI), estimator), [0, 0])


@both
@given(log_ratio=st.floats(-20, 20))
def test_k2_and_k3_are_not_negative(xp: Any, log_ratio: float):
    for estimator in ("k2", "k3"):
        # below 1e-15 the rounding of expm1 is more than x^2 / 2
        assert float(kl_estimate(array(xp, [log_ratio]), estimator)[0]) >= -1e-28


@both
@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_small_log_ratios_keep_their_digits(xp: Any, estimator: KLEstimator):
    """exp(-x) - 1 + x by its letters is off by a percent here; expm1 is not."""
    np.testing.assert_allclose(kl_estimate(array(xp, [1e-7]), estimator), [5e-15], rtol=1e-6)


@both
def test_an_unknown_estimator_is_refused(xp: Any):
    with pytest.raises(ValueError, match="estimator is 'k4'; choose k1, k2 or k3"):
        kl_estimate(array(xp, [0.0]), cast(KLEstimator, "k4"))
