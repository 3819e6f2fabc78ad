"""Exact divergences of rows of log-probabilities, for NumPy and torch alike.

Directions are in the order of the arguments: ``kl(p, q)`` is KL(p || q), so ``kl(behavior, target)`` is KL(mu || pi).
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from rlnotes.exact.precision import at_least_float32

Array = Any  # a NumPy array or a torch tensor


@at_least_float32
def log_probs(probs: np.ndarray) -> np.ndarray:
    """The logarithms of NumPy probabilities, -inf for 0 without a warning: what the functions below take.

    >>> print(log_probs(np.array([1.0, 0.0])))
    [  0. -inf]
    """
    with np.errstate(divide="ignore"):
        return np.log(probs)


def where_possible(probs: Array, values: Array) -> Array:
    """``values``, with 0 where the probability is 0, so that 0 * inf never arises, in value or in gradient."""
    xp = array_namespace(probs)
    return xp.where(probs > 0, values, xp.zeros_like(values))


def _probs(logp: Array, logq: Array) -> tuple[Any, Array, Array]:
    """Array library and probabilities of both. Raises ``ValueError`` unless the rows have equal length."""
    if logp.shape[-1:] != logq.shape[-1:]:
        raise ValueError(f"rows of shapes {tuple(logp.shape)} and {tuple(logq.shape)}; pass rows of equal length")
    xp = array_namespace(logp, logq)
    return xp, xp.exp(logp), xp.exp(logq)


@at_least_float32
def entropy(logp: Array) -> Array:
    """Entropy in nats (...,) of rows of log-probabilities (..., V). An outcome of probability 0 may be -inf.

    >>> print(entropy(log_probs(np.array([0.5, 0.5]))).round(3))  # log 2
    0.693
    """
    xp = array_namespace(logp)
    probs = xp.exp(logp)
    return -xp.sum(probs * where_possible(probs, logp), axis=-1)


@at_least_float32
def kl(logp: Array, logq: Array) -> Array:
    """KL(p || q) in nats (...,) of rows of log-probabilities (..., V). Infinite where q lacks mass that p has.

    >>> p, q = log_probs(np.array([1.0, 0.0])), log_probs(np.array([0.5, 0.5]))
    >>> print(kl(p, q).round(3), kl(q, p))  # log 2, and infinite the other way
    0.693 inf
    """
    xp, probs, _ = _probs(logp, logq)
    return xp.sum(probs * (where_possible(probs, logp) - where_possible(probs, logq)), axis=-1)


@at_least_float32
def tv(logp: Array, logq: Array) -> Array:
    """Total variation (...,) of rows of log-probabilities (..., V): half the L1 distance, in [0, 1]; symmetric.

    >>> print(tv(np.log([0.5, 0.5]), np.log([0.75, 0.25])))
    0.25
    """
    xp, p, q = _probs(logp, logq)
    return xp.sum(xp.abs(p - q), axis=-1) / 2


@at_least_float32
def chi2(logp: Array, logq: Array) -> Array:
    """chi2(p || q) = E_q[(p / q)^2] - 1 (...,) of rows of log-probabilities (..., V): 003 section 4.2.

    ``chi2(target, behavior)`` is the variance of the importance weight. Infinite where q lacks mass that p has.

    >>> print(chi2(log_probs(np.array([1.0, 0.0])), np.log([0.5, 0.5])))  # ratios 2 and 0
    1.0
    """
    xp, p, q = _probs(logp, logq)
    possible = q > 0
    terms = (p - q) ** 2 / xp.where(possible, q, xp.ones_like(q))
    missing = xp.where(p > 0, xp.full_like(p, xp.inf), xp.zeros_like(p))
    return xp.sum(xp.where(possible, terms, missing), axis=-1)
