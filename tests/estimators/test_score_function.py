"""The log-derivative trick and normalised advantages, on NumPy arrays and torch tensors alike."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.divergences import entropy
from rlnotes.estimators.score_function import normalize_advantages, score_function, softmax_score
from tests.estimators.arrays import both

PROBS, ADVANTAGES = [0.5, 0.25, 0.8], [1.0, -2.0, 3.0]


def array(xp: Any, values: Any) -> Any:
    return xp.asarray(np.asarray(values, dtype=np.float64))


def leaf(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def differences(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    return np.array([(function(at + move) - function(at - move)) / 2e-6 for move in 1e-6 * np.eye(len(at))])


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum()


# --- The surrogate


@both
def test_log_probabilities_and_advantages_of_unequal_shape_are_refused(xp: Any):
    """Broadcast, the loss would be +.511686, or 0 once the advantages are centred: no gradient, and no error."""
    logp, advantages = xp.log(array(xp, PROBS)), array(xp, ADVANTAGES)
    np.testing.assert_allclose(-score_function(logp, advantages), -0.470004, atol=5e-7)
    centred = advantages - advantages.mean()
    np.testing.assert_allclose(-score_function(logp, centred), -0.981689, atol=5e-7)
    np.testing.assert_allclose(-(logp[:, None] * advantages).mean(), 0.511686, atol=5e-7)
    with pytest.raises(ValueError, match=r"logp has shape \(3, 1\) and weights has shape \(3,\); give them one shape"):
        score_function(logp[:, None], advantages)
    with pytest.raises(ValueError, match=r"logp has shape \(3,\) and weights has shape \(3, 1\)"):
        score_function(logp, advantages[:, None])
    with pytest.raises(ValueError, match=r"weights has shape \(3,\) and baseline has shape \(3, 1\)"):
        score_function(logp, advantages, advantages[:, None])


# A batch in exact proportion to its policy: its mean is the expectation
BATCH, LOGITS, REWARD = np.array([0, 0, 0, 1, 1, 2]), np.log([3.0, 2.0, 1.0]), np.array([1.0, -2.0, 5.0])


def gradient(weights: np.ndarray, baseline: np.ndarray | None = None) -> np.ndarray:
    logits = leaf(LOGITS)
    logp = logits.log_softmax(-1)[torch.tensor(BATCH)]
    held = None if baseline is None else torch.tensor(baseline)
    (found,) = torch.autograd.grad(score_function(logp, torch.tensor(weights), held), logits)
    return found.numpy()


def test_the_gradient_is_that_of_the_expectation_and_a_baseline_is_free():
    expected = differences(lambda logits: float(softmax(logits) @ REWARD), LOGITS)
    np.testing.assert_allclose(gradient(REWARD[BATCH]), expected, atol=1e-9)
    np.testing.assert_allclose(gradient(REWARD[BATCH], np.full(6, 7.0)), expected, atol=1e-9)


def test_a_baseline_that_depends_on_the_action_is_not_free():
    expected = differences(lambda logits: float(softmax(logits) @ REWARD), LOGITS)
    assert np.abs(gradient(REWARD[BATCH], REWARD[BATCH] / 2) - expected).max() > 0.1


def test_weights_and_baseline_are_constants():
    logits = leaf(LOGITS)
    logp = logits.log_softmax(-1)[torch.tensor(BATCH)]
    (held,) = torch.autograd.grad(score_function(logp, -logp, logp / 2), logits)
    np.testing.assert_allclose(held, gradient(-1.5 * logp.detach().numpy()), rtol=1e-12)


@both
@pytest.mark.parametrize("action", [0, 1, 2])
def test_softmax_score_is_the_gradient_of_the_log_probability(xp: Any, action: int):
    probs = softmax(LOGITS)
    expected = differences(lambda logits: float(np.log(softmax(logits))[action]), LOGITS)
    np.testing.assert_allclose(softmax_score(array(xp, probs), xp.asarray(action)), expected, atol=1e-9)
    rows = softmax_score(array(xp, [probs, probs]), xp.asarray([action, 0]))
    np.testing.assert_allclose(rows, [expected, [1 - probs[0], *-probs[1:]]], atol=1e-9)


@both
def test_the_mean_of_the_score_is_zero(xp: Any):
    probs = softmax(LOGITS)
    scores = softmax_score(array(xp, [probs] * 3), xp.asarray([0, 1, 2]))
    np.testing.assert_allclose((array(xp, probs)[:, None] * scores).sum(0), [0, 0, 0], atol=1e-16)


# --- The sign of the entropy


def test_entropy_and_what_is_taken_for_it():
    """-logp of samples has the entropy as its mean, and on average no gradient; as a weight it has the right one."""
    logits = leaf([1.0, 0.0])
    logp = logits.log_softmax(-1)
    probs = logp.detach().exp().numpy()
    np.testing.assert_allclose(probs, [0.731059, 0.268941], atol=5e-7)
    (exact,) = torch.autograd.grad(entropy(logp), logits, retain_graph=True)
    np.testing.assert_allclose(exact, [-0.196612, 0.196612], atol=5e-7)
    (plain,) = torch.autograd.grad((torch.tensor(probs) * -logp).sum(), logits)
    np.testing.assert_allclose(plain, [0, 0], atol=1e-16)
    scores = softmax_score(np.array([probs, probs]), np.array([0, 1]))
    np.testing.assert_allclose((probs * -np.log(probs)) @ scores, exact, atol=1e-15)


@pytest.mark.parametrize(("sign", "probs", "nats"), [(1, [0.5, 0.5], 0.693147), (-1, [0.999133, 0.000867], 0.006977)])
def test_the_right_sign_raises_entropy_and_the_wrong_one_lets_it_collapse(sign: int, probs: list[float], nats: float):
    """200 plain steps of 0.5 on the entropy alone."""
    logits = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for _ in range(200):
        made = logits.requires_grad_()
        (found,) = torch.autograd.grad(entropy(made.log_softmax(-1)), made)
        logits = (made + sign * 0.5 * found).detach()
    np.testing.assert_allclose(logits.softmax(-1), probs, atol=5e-7)
    np.testing.assert_allclose(entropy(logits.log_softmax(-1)), nats, atol=5e-7)


# --- Normalised advantages


@both
def test_the_divisor_is_n_minus_one_and_a_batch_of_one_gets_zero(xp: Any):
    """65 steps in minibatches of 64 leave one of a single step: its sample standard deviation would be NaN."""
    np.testing.assert_allclose(normalize_advantages(array(xp, [1, 3])), [-0.70711, 0.70711], atol=5e-6)
    np.testing.assert_array_equal(normalize_advantages(array(xp, [3])), [0])
    np.testing.assert_array_equal(normalize_advantages(array(xp, [[3]])), [[0]])
    np.testing.assert_array_equal(normalize_advantages(array(xp, [0.1] * 7)), [0] * 7)


@both
def test_the_batch_is_all_entries(xp: Any):
    values = np.random.default_rng(0).normal(3, 2, size=(4, 5))
    ours = np.asarray(normalize_advantages(array(xp, values)))
    assert ours.shape == (4, 5)
    np.testing.assert_allclose([ours.mean(), ours.std(ddof=1)], [0, 1], atol=1e-8)
    np.testing.assert_allclose(ours, (values - values.mean()) / (values.std(ddof=1) + 1e-8), rtol=1e-12)


# --- Errors


@both
def test_errors(xp: Any):
    logp, weights = xp.log(array(xp, PROBS)), array(xp, ADVANTAGES)
    with pytest.raises(ValueError, match=r"logp\[0\] is 0.5; a log-probability is at most 0; pass logarithms"):
        score_function(array(xp, PROBS), weights)
    with pytest.raises(ValueError, match=r"logp\[1\] is -inf; pass finite numbers"):
        score_function(array(xp, [-1, -math.inf, -1]), weights)
    with pytest.raises(ValueError, match=r"weights\[2\] is nan; pass finite numbers"):
        score_function(logp, array(xp, [1, 2, math.nan]))
    with pytest.raises(ValueError, match=r"logp has shape \(0,\); a mean needs at least one sample"):
        score_function(logp[:0], weights[:0])
    with pytest.raises(ValueError, match=r"probs\[2\] is -0.5; a probability is at least 0"):
        softmax_score(array(xp, [1, 0.5, -0.5]), xp.asarray(0))
    with pytest.raises(ValueError, match=r"the sum of probs is 1.55; divide each row by its sum"):
        softmax_score(array(xp, PROBS), xp.asarray(0))
    with pytest.raises(ValueError, match=r"action is 3; pass an index from 0 to 2"):
        softmax_score(array(xp, [0.2, 0.3, 0.5]), xp.asarray(3))
    with pytest.raises(ValueError, match=r"advantages\[1\] is inf; pass finite numbers"):
        normalize_advantages(array(xp, [1, math.inf]))
