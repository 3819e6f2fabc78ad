"""Importance ratios of whole responses, on NumPy arrays and torch tensors alike."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.estimators.importance import sequence_log_ratio, sequence_mean_log_ratio
from rlnotes.exact.checks import SupportError
from tests.estimators.arrays import array, both
from tests.golden_audit import GOLDEN

INF, NAN = math.inf, math.nan


@both
def test_sequence_ratios_of_the_golden_example(xp: Any):
    golden = GOLDEN["G08"]
    ratios = golden["inputs"]["token_logratios"]
    behavior = array(xp, [[-1.0] * 4 + [-INF, NAN]])
    target = array(xp, [[*(-1.0 + np.array(ratios)), NAN, -3.0]])
    mask = xp.asarray([[True] * 4 + [False] * 2])
    product = xp.exp(sequence_log_ratio(behavior, target, mask))
    length_normalised = xp.exp(sequence_mean_log_ratio(behavior, target, mask))
    np.testing.assert_allclose(product, [golden["outputs"]["seq_ratio"]], rtol=1e-10)
    np.testing.assert_allclose(length_normalised, [golden["outputs"]["gspo_ratio"]], rtol=1e-10)


def enumerated() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All answers of up to three tokens that 0 ends: log-probabilities under two policies, mask, and a reward."""
    rng = np.random.default_rng(3)
    policies = rng.dirichlet(np.ones(3), size=(2, 3, 3))  # policy, position, token before
    found: dict[tuple[int, ...], Any] = {}
    for tokens in itertools.product(range(3), repeat=3):
        length = tokens.index(0) + 1 if 0 in tokens else 3
        before = (0, *tokens[:-1])
        logp = np.log([[policy[t, before[t], tokens[t]] for t in range(3)] for policy in policies])
        found[tokens[:length]] = (logp[0], logp[1], np.arange(3) < length)
    behavior, target, mask = (np.array(part) for part in zip(*found.values(), strict=True))
    return behavior, target, mask, rng.normal(size=len(mask))


@both
def test_sequence_weights_change_the_measure_and_length_normalised_ones_do_not(xp: Any):
    """Answers of unequal length, all of them: E_behavior[w R] = E_target[R], 002 eq. (106)."""
    behavior, target, mask, reward = enumerated()
    mass = np.exp((behavior * mask).sum(-1))
    true = np.exp((target * mask).sum(-1)) @ reward
    assert mass.sum() == pytest.approx(1)
    arguments = array(xp, behavior), array(xp, target), xp.asarray(mask)
    weights = np.asarray(xp.exp(sequence_log_ratio(*arguments)))
    assert (mass * weights) @ reward == pytest.approx(true, rel=1e-12)
    length_normalised = np.asarray(xp.exp(sequence_mean_log_ratio(*arguments)))
    assert abs((mass * length_normalised) @ reward - true) > 0.01
    np.testing.assert_allclose(length_normalised ** mask.sum(-1), weights, rtol=1e-10)


@both
def test_a_product_that_overflows_half_way_does_not_overflow_in_logs(xp: Any):
    behavior = array(xp, [[-1000.0, -1.0]])
    target = array(xp, [[-1.0, -1000.0]])
    np.testing.assert_allclose(sequence_log_ratio(behavior, target, xp.asarray([[True, True]])), [0.0])


@both
@pytest.mark.parametrize("ratio", [sequence_log_ratio, sequence_mean_log_ratio])
def test_sequence_errors(xp: Any, ratio: Callable[..., Any]):
    logp, mask = array(xp, [[-1.0, -2.0], [-1.0, -1.0]]), xp.asarray([[True, False], [True, True]])
    with pytest.raises(ValueError, match=r"the length of response\[1\] is 0; drop responses without tokens"):
        ratio(logp, logp, xp.asarray([[True, False], [False, False]]))
    with pytest.raises(ValueError, match=r"mask has dtype .*int.*; pass bool, for example mask != 0"):
        ratio(logp, logp, xp.asarray([[1, 0], [1, 1]]))
    with pytest.raises(ValueError, match=r"logp_behavior has shape \(2, 2\) and mask has shape \(1, 2\)"):
        ratio(logp, logp, mask[:1])
    with pytest.raises(ValueError, match=r"mask has shape \(2,\); one row per response, \(N, T\), is needed"):
        ratio(logp[0], logp[0], mask[0])
    with pytest.raises(SupportError, match=r"logp_behavior\[1, 1\] is -inf; the behaviour cannot have sampled"):
        ratio(array(xp, [[-1.0, -INF], [-1.0, -INF]]), logp, mask)
    with pytest.raises(ValueError, match=r"logp\[1, 0\] is nan"):
        ratio(logp, array(xp, [[-1.0, NAN], [NAN, -1.0]]), mask)


@pytest.mark.parametrize("ratio", [sequence_log_ratio, sequence_mean_log_ratio])
def test_the_gradient_of_a_sequence_ratio_stays_inside_the_mask(ratio: Callable[..., Any]):
    behavior, target, mask, _ = enumerated()
    target = np.where(mask, target, -INF)
    made = torch.tensor(target, requires_grad=True)
    total = ratio(torch.tensor(behavior), made, torch.tensor(mask)).exp().sum()
    (gradient,) = torch.autograd.grad(total, made)
    weights = np.exp(ratio(behavior, target, mask))
    share = weights / (mask.sum(-1) if ratio is sequence_mean_log_ratio else 1)
    np.testing.assert_allclose(gradient, share[:, None] * mask, rtol=1e-12)
