"""Exact means and variances of what samples estimate, on finitely many outcomes. Elementary, derived for this course.

``behavior`` (V,) is the distribution that is sampled, ``target`` (V,) the one asked about, ``values`` (V,) what is
averaged: J = sum of target times values. ``log_ratio`` (V,) is log target - log behavior.
"""

from collections.abc import Callable, Iterator
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from rlnotes.exact.checks import SupportError, distribution, finite

MOST_SAMPLES = 100_000  # different samples, not counting order: some seconds


class Moments(NamedTuple):
    """Mean and variance."""

    mean: float
    variance: float


def _pair(target: object, behavior: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target, behavior, and the weight of every outcome: 1 where the behavior gives 0, which no sample meets."""
    target, behavior = distribution("target", target, (None,)), distribution("behavior", behavior, (None,))
    if target.shape != behavior.shape:
        raise ValueError(f"target has {len(target)} outcomes and behavior {len(behavior)}; give them the same ones")
    missing = np.flatnonzero((behavior == 0) & (target > 0))
    if missing.size:
        raise SupportError(
            f"behavior[{missing[0]}] is 0 and target[{missing[0]}] is {target[missing[0]]:.6g}: no sample shows this "
            "outcome and no weight makes up for it. Give the behavior all outcomes of the target"
        )
    return target, behavior, np.divide(target, behavior, out=np.ones_like(target), where=behavior > 0)


def weighted_moments(target: object, behavior: object, values: object) -> Moments:
    """Of one weighted sample, w f: the mean is J, 002 eq. (4), and the variance sum target^2 f^2 / behavior - J^2.

    With ``values`` 1 they are 1 and chi2(target, behavior). Raises ``SupportError`` where the behavior gives 0 to an
    outcome of the target.

    >>> weighted_moments(target=[0.5, 0.5], behavior=[0.25, 0.75], values=[1.0, 0.0])
    Moments(mean=0.5, variance=0.75)
    """
    target, behavior, weights = _pair(target, behavior)
    weighted = weights * finite("values", values, target.shape)
    mean = float(behavior @ weighted)
    return Moments(mean, float(behavior @ (weighted - mean) ** 2))


def clipped_bias(target: object, behavior: object, values: object, cap: float) -> float:
    """The bias E[(min(w, cap) - w) f] of clipped weights, for every sample size: 002 Remark 1.3.

    >>> clipped_bias(target=[0.5, 0.5], behavior=[0.25, 0.75], values=[1.0, 0.0], cap=1.5)
    -0.125
    """
    target, behavior, weights = _pair(target, behavior)
    return float(behavior @ ((np.minimum(weights, cap) - weights) * finite("values", values, target.shape)))


def self_normalized_bias(target: object, behavior: object, values: object) -> float:
    """n times the bias of the self-normalised estimate tends to this: -E[w^2 (f - J)]. 002 Remark 1.3.

    >>> round(self_normalized_bias([0.5, 0.5], [0.25, 0.75], values=[1.0, 0.0]), 4)
    -0.3333
    """
    target, behavior, weights = _pair(target, behavior)
    values = finite("values", values, target.shape)
    return -float(behavior @ (weights**2 * (values - target @ values)))


def best_baseline(probs: object, values: object, scores: object) -> float:
    """The number b for which (f - b) grad log p has the least total variance: E[f |s|^2] / E[|s|^2].

    ``scores`` (V, D) are the gradients s of log p of every outcome, ``probs`` and ``values`` (V,). Raises
    ``ValueError`` where all scores are 0, so that every baseline is as good.

    >>> round(best_baseline([0.75, 0.25], values=[1, 0], scores=[[0.25], [-0.75]]), 3)
    0.25
    """
    probs = distribution("probs", probs, (None,))
    values, scores = finite("values", values, probs.shape), finite("scores", scores, (len(probs), None))
    sizes = probs * (scores**2).sum(-1)
    if not sizes.sum() > 0:
        raise ValueError("all scores are 0: the estimate is 0 with any baseline")
    return float(sizes @ values / sizes.sum())


def sample_moments(
    statistic: Callable[[np.ndarray, np.ndarray], float], behavior: object, log_ratio: object, values: object, n: int
) -> Moments:
    """Mean and variance of any statistic of n samples, over every sample that can be drawn.

    ``statistic`` takes the ``log_ratio`` (n,) and ``values`` (n,) of a sample and must not depend on their order: a
    function of :mod:`rlnotes.estimators.importance`, its ``.mean`` taken. Raises ``ValueError`` where there are more
    than ``MOST_SAMPLES`` samples.

    >>> mean = lambda log_ratio, values: values.mean()
    >>> found = sample_moments(mean, [0.5, 0.5], log_ratio=[0, 0], values=[1, 0], n=2)
    >>> round(found.mean, 3), round(found.variance, 3)  # a fair coin's 1/4, over n
    (0.5, 0.125)
    """
    behavior = distribution("behavior", behavior, (None,))
    log_ratio = np.asarray(log_ratio, dtype=np.float64)
    values = finite("values", values, behavior.shape)
    possible = np.flatnonzero(behavior)
    count = comb(n + len(possible) - 1, n) if n >= 1 else 0
    if not 1 <= count <= MOST_SAMPLES:
        raise ValueError(f"n is {n}: {count:,} different samples; n must be from 1 to what {MOST_SAMPLES:,} allow")
    found = np.empty((count, 2))
    for i, counts in enumerate(_counts(len(possible), n)):
        drawn = np.repeat(possible, counts)
        ways = gammaln(n + 1) - gammaln(np.array(counts) + 1).sum()
        found[i] = np.exp(ways + counts @ np.log(behavior[possible])), statistic(log_ratio[drawn], values[drawn])
    mean = float(found[:, 0] @ found[:, 1])
    return Moments(mean, float(found[:, 0] @ (found[:, 1] - mean) ** 2))


def _counts(outcomes: int, n: int) -> Iterator[np.ndarray]:
    """How often each outcome may occur among n samples: all ways."""
    if outcomes == 1:
        yield np.array([n])
        return
    for first in range(n + 1):
        for rest in _counts(outcomes - 1, n - first):
            yield np.concatenate([[first], rest])
