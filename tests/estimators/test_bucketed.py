"""DPPO's binary and top-k divergences, on NumPy arrays and torch tensors alike, held to those of full rows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnotes.estimators.bucketed import (
    binary_kl,
    binary_tv,
    kept_tokens,
    topk_kl,
    topk_tv,
    topk_tv_as_printed,
    topk_tv_gap_bound,
)
from rlnotes.estimators.divergences import kl, tv
from tests.estimators.arrays import both, log, tried
from tests.golden_audit import GOLDEN


def by_definition(mu: Any, pi: Any, kept: list[int]) -> tuple[float, float]:
    """TV and KL of the rows reduced to the kept tokens and "other", token by token."""
    rest = [a for a in range(len(mu)) if a not in kept]
    reduced = [[*(row[a] for a in kept), sum(row[a] for a in rest)] for row in (mu, pi)]
    distance = sum(abs(m - p) for m, p in zip(*reduced, strict=True)) / 2
    return distance, sum(m * math.log(m / p) for m, p in zip(*reduced, strict=True) if m > 0)


# --- Golden numbers, and the source's own example


@both
def test_golden_divergences(xp: Any):
    golden = GOLDEN["G15"]
    inputs, expected = golden["inputs"], golden["outputs"]
    mu, pi = log(xp, inputs["mu"]), log(xp, inputs["pi"])
    token, k = xp.asarray(inputs["a_t"]), inputs["K"]
    ours = {
        "A_prime": np.flatnonzero(np.asarray(kept_tokens(mu, token, k))),
        "TV": tv(mu, pi),
        "KL": kl(mu, pi),
        "bin_TV": binary_tv(mu[inputs["a_t"]], pi[inputs["a_t"]]),
        "bin_KL": binary_kl(mu[inputs["a_t"]], pi[inputs["a_t"]]),
        "topk_TV_correct": topk_tv(mu, pi, token, k),
        "topk_TV_eq15_as_printed": topk_tv_as_printed(mu, pi, token, k),
        "topk_KL": topk_kl(mu, pi, token, k),
        "gap_bound_sharp": topk_tv_gap_bound(mu, pi, token, k),
    }
    assert ours.keys() == expected.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-10, err_msg=name)


# Tokens low, high and the rest of 004 section 4.2
MU, PI = [1e-4, 0.99, 0.0099], [1e-2, 0.80, 0.19]


@both
def test_the_richer_divergence_as_printed_is_half_the_cheap_one(xp: Any):
    """A large move of a probable token, inside PPO's band. 004 eq. (15) without "other" loses half of it."""
    mu, pi, high = log(xp, MU), log(xp, PI), xp.asarray(1)
    np.testing.assert_allclose(xp.exp(pi - mu)[:2], [100, 0.80808], rtol=1e-5)
    np.testing.assert_allclose(tv(mu, pi), 0.19, rtol=1e-13)
    np.testing.assert_allclose(kl(mu, pi), 0.18125232207, rtol=1e-10)
    np.testing.assert_allclose(topk_tv_as_printed(mu, pi, high, 1), 0.095, rtol=1e-13)
    np.testing.assert_allclose(binary_tv(mu[1], pi[1]), 0.19, rtol=1e-13)
    np.testing.assert_allclose(topk_tv(mu, pi, high, 1), 0.19, rtol=1e-13)


@both
@pytest.mark.parametrize("tiny", [0.0, 1e-12])
def test_a_binary_divergence_of_zero_certifies_nothing(xp: Any, tiny: float):
    mu, pi = log(xp, [0.2, 0.8 - tiny, tiny]), log(xp, [0.2, tiny, 0.8 - tiny])
    assert float(binary_tv(mu[0], pi[0])) == float(binary_kl(mu[0], pi[0])) == 0
    np.testing.assert_allclose(tv(mu, pi), 0.8, rtol=1e-11)
    np.testing.assert_allclose(topk_tv(mu, pi, xp.asarray(0), 1), 0.8, rtol=1e-11)


# --- Properties


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Log-probabilities of mu and pi, near or far, a token, and k."""
    size = draw(st.integers(2, 7))
    logits = st.lists(st.floats(-6, 6), min_size=size, max_size=size)
    first, second = np.array(draw(logits)), np.array(draw(logits))
    second = first + draw(st.sampled_from([1e-3, 0.1, 1.0])) * second
    rows = [row - np.logaddexp.reduce(row) for row in (first, second)]
    return rows[0], rows[1], draw(st.integers(0, size - 1)), draw(st.integers(0, size))


@both
@tried
@given(drawn=pairs())
def test_cheap_divergences_are_lower_bounds_and_their_gap_is_bounded(xp: Any, drawn: Any):
    mu, pi = xp.asarray(drawn[0]), xp.asarray(drawn[1])
    token, k = xp.asarray(drawn[2]), drawn[3]
    full, topk, binary = float(tv(mu, pi)), float(topk_tv(mu, pi, token, k)), float(binary_tv(mu[token], pi[token]))
    printed = float(topk_tv_as_printed(mu, pi, token, k))
    slack = 1e-12
    assert binary <= topk + slack <= full + 2 * slack
    assert binary / 2 <= printed + slack <= topk + 2 * slack
    assert full - topk <= float(topk_tv_gap_bound(mu, pi, token, k)) + slack
    assert full - binary <= float(topk_tv_gap_bound(mu, pi, token, 0)) + slack
    divergences = float(binary_kl(mu[token], pi[token])), float(topk_kl(mu, pi, token, k)), float(kl(mu, pi))
    slack += 1e-15 / -np.expm1(float(pi[token]))  # what rounding in log pi leaves of 1 - pi
    assert divergences[0] <= divergences[1] + slack <= divergences[2] + 2 * slack


@both
@tried
@given(drawn=pairs())
def test_the_definition_token_by_token(xp: Any, drawn: Any):
    mu, pi, token, k = drawn
    kept = sorted({*np.argsort(-mu, kind="stable")[:k].tolist(), token})
    arguments = xp.asarray(mu), xp.asarray(pi), xp.asarray(token)
    assert np.flatnonzero(np.asarray(kept_tokens(arguments[0], arguments[2], k))).tolist() == kept
    distance, divergence = by_definition(np.exp(mu), np.exp(pi), kept)
    np.testing.assert_allclose(topk_tv(*arguments, k), distance, atol=1e-12)
    np.testing.assert_allclose(topk_kl(*arguments, k), divergence, rtol=1e-11, atol=1e-14)


@tried
@given(drawn=pairs())
def test_top_zero_is_binary_and_top_all_is_full(drawn: Any):
    mu, pi, index, _ = drawn
    token, size = np.asarray(index), len(mu)
    np.testing.assert_allclose(topk_tv(mu, pi, token, 0), binary_tv(mu[token], pi[token]), atol=1e-13)
    rounding = 1e-12 + 1e-15 / -np.expm1(pi[token])
    np.testing.assert_allclose(topk_kl(mu, pi, token, 0), binary_kl(mu[token], pi[token]), rtol=0, atol=rounding)
    np.testing.assert_allclose(topk_tv(mu, pi, token, size), tv(mu, pi), atol=1e-15)
    np.testing.assert_allclose(topk_kl(mu, pi, token, size), kl(mu, pi), atol=1e-14)


# --- When they are exact

BUCKET_ONE_WAY = [0.4, 0.3, 0.2, 0.1], [0.6, 0.22, 0.13, 0.05]  # tokens 1, 2 and 3 all lose, by unequal factors
BUCKET_ONE_FACTOR = [0.4, 0.3, 0.2, 0.1], [0.7, 0.15, 0.1, 0.05]  # tokens 1, 2 and 3 all halve


@both
def test_binary_tv_is_exact_if_and_only_if_the_rest_moves_one_way(xp: Any):
    for mu, pi in (BUCKET_ONE_WAY, BUCKET_ONE_FACTOR):
        np.testing.assert_allclose(binary_tv(log(xp, mu[0]), log(xp, pi[0])), tv(log(xp, mu), log(xp, pi)), rtol=1e-13)
    mu, pi = [0.4, 0.3, 0.3], [0.6, 0.05, 0.35]
    gap = float(tv(log(xp, mu), log(xp, pi)) - binary_tv(log(xp, mu[0]), log(xp, pi[0])))
    assert gap == pytest.approx(0.05, rel=1e-12)


@both
def test_binary_kl_is_exact_if_and_only_if_the_rest_changes_by_one_factor(xp: Any):
    mu, pi = BUCKET_ONE_FACTOR
    np.testing.assert_allclose(binary_kl(log(xp, mu[0]), log(xp, pi[0])), kl(log(xp, mu), log(xp, pi)), rtol=1e-13)
    mu, pi = BUCKET_ONE_WAY
    assert float(binary_kl(log(xp, mu[0]), log(xp, pi[0]))) < float(kl(log(xp, mu), log(xp, pi))) - 1e-3


@both
def test_the_gap_bound_is_attained_by_buckets_without_a_common_token(xp: Any):
    mu, pi, token = log(xp, [0.5, 0.5, 0, 0]), log(xp, [0.7, 0, 0.2, 0.1]), xp.asarray(0)
    gap = tv(mu, pi) - topk_tv(mu, pi, token, 1)
    np.testing.assert_allclose(gap, topk_tv_gap_bound(mu, pi, token, 1), rtol=1e-13)
    np.testing.assert_allclose(gap, 0.3, rtol=1e-13)


# --- Batches, ties, gradients


@both
def test_a_batch_is_its_rows(xp: Any):
    rng = np.random.default_rng(0)
    mu, pi = (np.log(rng.dirichlet(np.ones(5), size=(2, 3))) for _ in range(2))
    tokens = rng.integers(5, size=(2, 3))
    for divergence in (topk_tv, topk_tv_as_printed, topk_kl, topk_tv_gap_bound):
        whole = divergence(xp.asarray(mu), xp.asarray(pi), xp.asarray(tokens), 2)
        assert tuple(whole.shape) == (2, 3)
        for at in np.ndindex(2, 3):
            np.testing.assert_allclose(whole[at], divergence(mu[at], pi[at], np.asarray(tokens[at]), 2), rtol=1e-12)


@both
def test_of_equal_tokens_the_first_are_kept(xp: Any):
    kept = kept_tokens(log(xp, [0.2, 0.2, 0.2, 0.2, 0.2]), xp.asarray(4), 2)
    np.testing.assert_array_equal(kept, [True, True, False, False, True])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits)


Divergence = Callable[[Any, Any, Any], Any]
OF_ROWS: dict[str, Divergence] = {
    "binary_tv": lambda mu, pi, token: binary_tv(mu[token], pi[token]),
    "binary_kl": lambda mu, pi, token: binary_kl(mu[token], pi[token]),
    "topk_tv": lambda mu, pi, token: topk_tv(mu, pi, token, 2),
    "topk_tv_as_printed": lambda mu, pi, token: topk_tv_as_printed(mu, pi, token, 2),
    "topk_kl": lambda mu, pi, token: topk_kl(mu, pi, token, 2),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_gradients_are_those_of_finite_differences(name: str):
    divergence = OF_ROWS[name]
    mu, logits = log_softmax(np.array([1.0, 0.2, -0.3, 0.5, -1.0])), np.array([0.4, 0.6, -0.2, 0.1, -0.7])
    made = torch.tensor(logits, requires_grad=True)
    value = divergence(torch.tensor(mu), made.log_softmax(-1), torch.tensor(2))
    (gradient,) = torch.autograd.grad(value, made)

    def at(change: np.ndarray) -> float:
        return float(divergence(mu, log_softmax(logits + change), np.asarray(2)))

    np.testing.assert_allclose(value.detach(), at(np.zeros(5)), rtol=1e-12)
    expected = [(at(row) - at(-row)) / 2e-6 for row in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_token_without_alternative_gives_zero_and_a_finite_gradient(dtype: torch.dtype):
    """After the end of a sequence the end token has probability 1 under both, where log(1 - p) is -inf."""
    logp = torch.zeros(2, dtype=dtype, requires_grad=True)
    for divergence in (binary_tv, binary_kl):
        value = divergence(torch.zeros(2, dtype=dtype), logp)
        (gradient,) = torch.autograd.grad(value.sum(), logp)
        assert (value == 0).all()
        assert torch.isfinite(gradient).all()


@both
def test_kl_is_infinite_where_pi_lacks_what_mu_has(xp: Any):
    assert float(binary_kl(log(xp, 0.5), log(xp, 1.0))) == math.inf
    assert float(binary_kl(log(xp, 0.5), log(xp, 0.0))) == math.inf
    np.testing.assert_allclose(binary_kl(log(xp, 1.0), log(xp, 0.5)), math.log(2), rtol=1e-15)
    assert float(topk_kl(log(xp, [0.5, 0.25, 0.25]), log(xp, [1.0, 0, 0]), xp.asarray(0), 1)) == math.inf


# --- Errors


@both
def test_errors(xp: Any):
    mu, tokens = log(xp, [[0.5, 0.5], [0.9, 0.1]]), xp.asarray([0, 1])
    with pytest.raises(ValueError, match=r"logp_behavior has shape \(2, 2\) and logp has shape \(2,\)"):
        topk_tv(mu, mu[0], tokens, 1)
    with pytest.raises(ValueError, match=r"logp\[1\] is 0.1; a log-probability is at most 0; pass logarithms"):
        binary_tv(mu[1], xp.exp(mu[1]) * xp.asarray([-1.0, 1.0]))
    with pytest.raises(ValueError, match=r"k is 3; choose from 0 to the 2 tokens of a row"):
        topk_kl(mu, mu, tokens, 3)
    with pytest.raises(ValueError, match=r"tokens\[1\] is 2; pass an index from 0 to 1"):
        topk_kl(mu, mu, xp.asarray([0, 2]), 1)
    for wrong in (xp.asarray([0]), xp.asarray([0.0, 1.0])):
        with pytest.raises(ValueError, match=r"one integer per row is needed, of shape \(2,\)"):
            topk_tv(mu, mu, wrong, 1)
