"""Divergences: the exact ones of rows, what they bound, and single-sample estimators.

Directions are in the order of the arguments: ``kl(p, q)`` is KL(p || q), so ``kl(behavior, target)`` is KL(mu || pi).
"""

from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from rlnotes.estimators.exponents import kept_exponent
from rlnotes.estimators.importance import require_support
from rlnotes.exact.divergences import chi2 as chi2
from rlnotes.exact.divergences import entropy as entropy
from rlnotes.exact.divergences import kl as kl
from rlnotes.exact.divergences import log_probs as log_probs
from rlnotes.exact.divergences import tv as tv
from rlnotes.exact.divergences import where_possible
from rlnotes.exact.precision import at_least_float32

Array = Any  # a NumPy array or a torch tensor
KLEstimator = Literal["k1", "k2", "k3"]


@at_least_float32
def tv_from_ratios(logp_behavior: Array, logp: Array, logq: Array) -> Array:
    """TV(p, q) (...,) as the mean over the behaviour mu of |p / mu - q / mu| / 2: 000 Lemma 7.1.

    All three are rows of log-probabilities (..., V). Equal to :func:`tv`, since mu covers p and q: else a sample of mu
    does not see what it misses, and :class:`rlnotes.exact.checks.SupportError` is raised.

    >>> mu, p, q = (np.log(row) for row in ([0.5, 0.5], [0.75, 0.25], [0.25, 0.75]))
    >>> print(tv_from_ratios(mu, p, q).round(3), tv(p, q).round(3))
    0.5 0.5
    """
    xp = array_namespace(logp_behavior, logp, logq)
    require_support(logp_behavior, logp)
    require_support(logp_behavior, logq)
    behavior = xp.exp(logp_behavior)
    base = where_possible(behavior, logp_behavior)
    return xp.sum(behavior * tv_estimate(logp - base, logq - base), axis=-1)


# --- What they bound


def _divergence(name: str, value: Array) -> tuple[Any, Array]:
    """Array library and ``value``, a float too, with 0 for what rounding left below it."""
    value = np.float64(value) if isinstance(value, int | float) else value
    xp = array_namespace(value)
    if not bool(xp.all(value >= -1e-9)):
        raise ValueError(f"{name} is negative or NaN: {value}; a divergence is at least 0")
    return xp, xp.where(value > 0, value, xp.zeros_like(value))


@at_least_float32
def pinsker(kl: Array) -> Array:
    """The bound sqrt(KL / 2) on TV, with KL in either direction. Says nothing (is 1 or more) from KL = 2 on.

    This and the bounds below take arrays or floats, and raise ``ValueError`` for a negative divergence.

    >>> print(pinsker(0.02).round(3), pinsker(2.0))
    0.1 1.0
    """
    xp, kl = _divergence("kl", kl)
    return xp.sqrt(kl / 2)


@at_least_float32
def bretagnolle_huber(kl: Array) -> Array:
    """The bound sqrt(1 - exp(-KL)) on TV, with KL in either direction. Below 1 always, below Pinsker's from 1.6 on.

    >>> print(bretagnolle_huber(2.0).round(3))  # sqrt(1 - exp(-2)); Pinsker says 1
    0.93
    """
    xp, kl = _divergence("kl", kl)
    return xp.sqrt(-xp.expm1(-kl))


@at_least_float32
def tv_bound_from_chi2(chi2: Array) -> Array:
    """The best bound on TV that chi2 gives: sqrt(chi2) / 2 up to chi2 = 1, chi2 / (1 + chi2) beyond.

    Every value is attained, by two outcomes. Elementary; tightens 003 section 4.2.

    >>> print(tv_bound_from_chi2(1.0), tv_bound_from_chi2(3.0))
    0.5 0.75
    """
    xp, chi2 = _divergence("chi2", chi2)
    return xp.where(chi2 <= 1, xp.sqrt(chi2) / 2, 1 - 1 / (1 + chi2))


@at_least_float32
def tv_bound_from_chi2_as_printed(chi2: Array) -> Array:
    """sqrt(chi2 / 2), as 003 section 4.2 prints it. True, and at least sqrt(2) times :func:`tv_bound_from_chi2`.

    >>> print(tv_bound_from_chi2_as_printed(0.5), tv_bound_from_chi2(0.5).round(3))
    0.5 0.354
    """
    xp, chi2 = _divergence("chi2", chi2)
    return xp.sqrt(chi2 / 2)


# --- From samples


@at_least_float32
def tv_estimate(log_ratio: Array, other_log_ratio: Array | None = None) -> Array:
    """TV(p, q) from samples of mu: one number |p / mu - q / mu| / 2 per sample, 000 section 7.1.

    ``log_ratio`` is log p - log mu of the sampled actions, ``other_log_ratio`` log q - log mu. Without the second, q is
    mu, and the estimate |p / mu - 1| / 2 is one of TV(p, mu). Its mean over mu is TV only if mu covers p and q.

    >>> print(tv_estimate(np.log([1.5, 0.5])))  # from tokens with ratios 1.5 and 0.5
    [0.25 0.25]
    """
    xp = array_namespace(log_ratio)
    shift = xp.expm1(log_ratio)
    return xp.abs(shift if other_log_ratio is None else shift - xp.expm1(other_log_ratio)) / 2


@at_least_float32
def kl_estimate(log_ratio: Array, estimator: KLEstimator) -> Array:
    """KL(pi || ref) from samples of pi: one number per sample, in nats.

    ``log_ratio`` is x = log pi - log pi_ref of the sampled tokens. Value and gradient are different matters. In a loss
    the estimate is differentiated; in the reward it is a constant that multiplies the gradient of log pi:

    | name | value | its mean over pi | mean gradient in a loss is that of | mean gradient in the reward is that of |
    |---|---|---|---|---|
    | k1 | x | KL(pi, ref) | nothing: it is 0 | KL(pi, ref) |
    | k2 | x^2 / 2 | close to KL for small x | KL(pi, ref) | E_pi[x^2 / 2] - KL(pi, ref) |
    | k3 | exp(-x) - 1 + x | KL(pi, ref) | KL(ref, pi) | KL(pi, ref) - KL(ref, pi) |

    The mean of k3 is KL only if pi covers ref: else it is smaller by ref's mass where pi has none. With x = log mu -
    log pi of samples of mu, this is 001 appendix A.1. Raises ``ValueError`` for an unknown ``estimator``.

    k3 is finite: an x below -80 (in float64 -700) counts as that, and its gradient still pulls back. Long before, one
    such token drowns all others, where k2 grows with its square only.

    >>> x = np.log(2.0)  # k3 is 1/2 - 1 + log 2
    >>> [round(float(kl_estimate(x, name)), 3) for name in ("k1", "k2", "k3")]
    [0.693, 0.24, 0.193]
    """
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio**2 / 2
    if estimator == "k3":
        exponent = kept_exponent(-log_ratio)
        return array_namespace(log_ratio).expm1(exponent) - exponent
    raise ValueError(f"estimator is {estimator!r}; choose k1, k2 or k3")
