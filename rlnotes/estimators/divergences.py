"""Divergences: exact ones from rows of log-probabilities, and single-sample estimators from log-ratios."""

from typing import Any, Literal

from array_api_compat import array_namespace

Array = Any  # a NumPy array or a torch tensor
KLEstimator = Literal["k1", "k2", "k3"]


def _where_possible(probs: Array, values: Array) -> Array:
    """``values``, with 0 where the probability is 0, so that 0 * inf never arises, in value or in gradient."""
    xp = array_namespace(probs)
    return xp.where(probs > 0, values, xp.zeros_like(values))


def entropy(logp: Array) -> Array:
    """Entropy in nats (...,) of rows of log-probabilities (..., V). An outcome of probability 0 may be -inf."""
    xp = array_namespace(logp)
    probs = xp.exp(logp)
    return -xp.sum(probs * _where_possible(probs, logp), axis=-1)


def kl(logp: Array, logq: Array) -> Array:
    """KL(p || q) in nats (...,) of rows of log-probabilities (..., V). Infinite where q lacks mass that p has."""
    xp = array_namespace(logp, logq)
    probs = xp.exp(logp)
    return xp.sum(probs * (_where_possible(probs, logp) - _where_possible(probs, logq)), axis=-1)


def kl_estimate(log_ratio: Array, estimator: KLEstimator) -> Array:
    """KL(pi || ref) from samples of pi: one number per sample, in nats.

    ``log_ratio`` is x = log pi - log pi_ref of the sampled tokens:

    | name | value | its mean over pi | as a loss term, its mean gradient is that of |
    |---|---|---|---|
    | k1 | x | KL(pi, ref) | nothing: it is 0 |
    | k2 | x^2 / 2 | close to KL for small x | KL(pi, ref) |
    | k3 | exp(-x) - 1 + x | KL(pi, ref) | KL(ref, pi) |

    Raises ``ValueError`` for an unknown ``estimator``.
    """
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio**2 / 2
    if estimator == "k3":
        return array_namespace(log_ratio).expm1(-log_ratio) + log_ratio
    raise ValueError(f"estimator is {estimator!r}; choose k1, k2 or k3")
