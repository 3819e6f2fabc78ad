"""Divergences estimated from samples, by value and by gradient, on NumPy arrays and torch tensors alike."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlnotes.estimators.divergences import KLEstimator, kl, kl_estimate, tv, tv_estimate, tv_from_ratios
from rlnotes.exact.checks import SupportError
from tests.estimators.arrays import array, both, gradient_of, log, log_softmax, tried
from tests.golden_audit import GOLDEN

ESTIMATORS: tuple[KLEstimator, ...] = ("k1", "k2", "k3")


wide_rows = st.lists(st.floats(-8, 8), min_size=4, max_size=4)


# --- TV from ratios


@both
def test_golden_tv_from_ratios(xp: Any):
    """000 Lemma 7.1 on both sides, and what is left of it when samples are filtered by their ratio."""
    inputs, outputs = GOLDEN["G04"]["inputs"], GOLDEN["G04"]["outputs"]
    mu, old, new = (log(xp, inputs[name]) for name in ("pi_i", "pi_k", "pi_k1"))
    np.testing.assert_allclose(tv_from_ratios(mu, new, old), outputs["U"], rtol=1e-10)
    np.testing.assert_allclose(tv(new, old), outputs["TV_pk1_pk"], rtol=1e-10)
    np.testing.assert_allclose(tv(old, mu), outputs["TV_pk_mu"], rtol=1e-10)
    estimates = np.asarray(tv_estimate(old - mu))
    kept = 2 * estimates <= inputs["eps_stale"]
    np.testing.assert_array_equal(kept, outputs["kept"])
    retained = inputs["pi_i"] * kept / (inputs["pi_i"] @ kept.astype(float))
    np.testing.assert_allclose(retained @ estimates, outputs["half_E_retained_abs"], rtol=1e-10)
    np.testing.assert_allclose(tv(old, log(xp, retained)), outputs["TV_pk_retained"], rtol=1e-10)


@both
def test_tv_from_samples_fails_without_support(xp: Any):
    """A behaviour that only ever does action 0 sees no change there, and the change elsewhere is 1/4."""
    mu, old, new = log(xp, [1.0, 0, 0]), log(xp, [0.5, 0.25, 0.25]), log(xp, [0.5, 0.5, 0])
    assert float(tv_estimate(new[:1] - mu[:1], old[:1] - mu[:1])[0]) == 0
    np.testing.assert_allclose(tv(new, old), 0.25, rtol=1e-15)
    with pytest.raises(SupportError, match=r"logp_behavior\[1\] is -inf"):
        tv_from_ratios(mu, new, old)


@tried
@given(behavior=wide_rows, first=wide_rows, second=wide_rows)
def test_tv_from_ratios_is_tv(behavior: list[float], first: list[float], second: list[float]):
    mu, p, q = (np.array(row) - np.logaddexp.reduce(row) for row in (behavior, first, second))
    np.testing.assert_allclose(tv_from_ratios(mu, p, q), tv(p, q), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.exp(mu) @ tv_estimate(p - mu), tv(p, mu), rtol=1e-10, atol=1e-12)


@both
def test_tv_from_ratios_where_nobody_goes(xp: Any):
    mu, p, q = log(xp, [[0.6, 0.4, 0]]), log(xp, [[1.0, 0, 0]]), log(xp, [[0.3, 0.7, 0]])
    np.testing.assert_allclose(tv_from_ratios(mu, p, q), [0.7], rtol=1e-14)


# --- KL from samples: k1, k2, k3

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


def kl_value(pi: np.ndarray, ref: list[float]) -> float:
    return float(pi @ np.log(pi / ref))


def second_value(pi: np.ndarray, ref: list[float]) -> float:
    return float(pi @ np.log(pi / ref) ** 2 / 2)


def differences(value: Callable[[np.ndarray], float], pi: list[float]) -> np.ndarray:
    """Gradient on the logits of pi, by central differences."""

    def at(logits: np.ndarray) -> float:
        return value(np.exp(logits) / np.exp(logits).sum())

    return np.array([(at(np.log(pi) + row) - at(np.log(pi) - row)) / 2e-5 for row in 1e-5 * np.eye(len(pi))])


@pytest.mark.parametrize(("pi", "ref"), [(PI, REF), ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5])])
def test_the_table_of_gradients_by_enumeration(pi: list[float], ref: list[float]):
    """Every entry of the table in the docstring, against finite differences of what it names."""
    kl_pi_ref = differences(lambda p: kl_value(p, ref), pi)
    kl_ref_pi = differences(lambda p: kl_value(np.array(ref), list(p)), pi)
    half_square = differences(lambda p: second_value(p, ref), pi)
    in_loss = {"k1": np.zeros(len(pi)), "k2": kl_pi_ref, "k3": kl_ref_pi}
    in_reward = {"k1": kl_pi_ref, "k2": half_square - kl_pi_ref, "k3": kl_pi_ref - kl_ref_pi}
    for estimator in ESTIMATORS:
        np.testing.assert_allclose(estimator_gradient(pi, ref, estimator), in_loss[estimator], atol=1e-9)
        np.testing.assert_allclose(reward_gradient(pi, ref, estimator), in_reward[estimator], atol=1e-9)


def reward_gradient(pi: list[float], ref: list[float], estimator: KLEstimator) -> Tensor:
    """Mean gradient on the logits of an estimate as a reward: it is held fixed and multiplies log pi."""
    logits = log(torch, pi).requires_grad_()
    logp = log_softmax(logits)
    estimate = kl_estimate(logp - log(torch, ref), estimator).detach()
    return gradient_of(logp.detach().exp() * estimate * logp, logits)


def test_three_gradients_of_a_kl_penalty():
    """The same log-ratio is worth nothing in the loss and the gradient of KL in the reward."""
    np.testing.assert_allclose(estimator_gradient(PI, REF, "k1"), [0, 0], atol=1e-15)
    np.testing.assert_allclose(reward_gradient(PI, REF, "k1"), [0.1779326, -0.1779326], atol=5e-8)
    np.testing.assert_allclose(estimator_gradient(PI, REF, "k3"), [0.2, -0.2], atol=1e-15)


@both
def test_the_log_ratio_the_wrong_way_round_is_no_kl(xp: Any):
    mean = float((array(xp, PI) * kl_estimate(log(xp, REF) - log(xp, PI), "k3")).sum())
    np.testing.assert_allclose(mean, 0.077717, atol=5e-7)


@both
def test_the_mean_of_k3_misses_what_the_sampler_never_does(xp: Any):
    """roll = (.5, .5, 0), theta = (.25, .25, .5): KL is ln 2, and half of theta is out of sight."""
    roll, theta = log(xp, [0.5, 0.5, 0]), log(xp, [0.25, 0.25, 0.5])
    mean = float((xp.exp(roll[:2]) * kl_estimate(roll[:2] - theta[:2], "k3")).sum())
    np.testing.assert_allclose(kl(roll, theta), math.log(2), rtol=1e-15)
    np.testing.assert_allclose(mean, math.log(2) - 0.5, rtol=1e-14)
    np.testing.assert_allclose(mean, 0.1931471806, atol=5e-11)


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


@both
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 80.72), ("float64", 701.78)])
def test_k3_is_finite_and_the_same_where_it_always_was(xp: Any, dtype: str, limit: float):
    """What is far off counts as being at the limit, and an infinite log-ratio the other way stays infinite."""
    x = xp.asarray([-limit + 0.1, -3.0, 0.0, 5.0, 1e4, xp.inf], dtype=getattr(xp, dtype))
    np.testing.assert_array_equal(kl_estimate(x, "k3"), xp.expm1(-x) + x)
    far = kl_estimate(xp.asarray([-89.0, -200.0, -1e4, -1e30], dtype=getattr(xp, dtype)), "k3")
    assert bool(xp.all(xp.isfinite(far)))
    np.testing.assert_allclose(np.log(np.asarray(far)), np.minimum([89, 200, 1e4, 1e30], limit), rtol=1e-4)


def test_k3_pulls_back_from_wherever_it_is():
    x = torch.tensor([-5.0, -89.0, -1e30], requires_grad=True)
    estimate = kl_estimate(x, "k3")
    (gradient,) = torch.autograd.grad(estimate.sum(), x)
    torch.testing.assert_close(gradient[0], 1 - torch.exp(torch.tensor(5.0)))
    torch.testing.assert_close(gradient[1:], -estimate.detach()[1:], rtol=1e-6, atol=0)
