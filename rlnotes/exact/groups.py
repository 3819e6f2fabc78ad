"""Exact means of group estimators, for a prompt whose responses are right with probability p."""

from collections.abc import Callable

import numpy as np
from scipy.stats import binom


def gradient_scale(advantage: Callable[[np.ndarray, int], np.ndarray], group_size: int, p: float) -> float:
    """Mean of a group's policy-gradient estimate, divided by the true gradient.

    Rewards are 1 with probability ``p`` and else 0, and ``p`` is the sigmoid of one parameter, so the true gradient is
    p (1 - p) and the score of a response is 1 - p if it is right and -p if not. All group outcomes are summed over,
    by their number of right responses. ``advantage`` takes rewards (G,) and G: a function of
    :mod:`rlnotes.estimators.baselines`. 1 means unbiased. Raises ``ValueError`` unless 0 < p < 1.

    >>> from rlnotes.estimators.baselines import group_mean
    >>> round(gradient_scale(group_mean, group_size=4, p=0.3), 3)  # 1 - 1/4
    0.75
    """
    if not 0 < p < 1:
        raise ValueError(f"p is {p}; the success rate must lie strictly between 0 and 1")
    mean = 0.0
    for right in range(group_size + 1):
        rewards = (np.arange(group_size) < right).astype(np.float64)
        estimate = np.mean(advantage(rewards, group_size) * (rewards - p))
        mean += binom.pmf(right, group_size, p) * estimate
    return float(mean / (p * (1 - p)))


def mean_deviation(group_size: int, p: float | np.ndarray) -> np.ndarray:
    """Mean over all groups of the standard deviation of their rewards, with 1/G; rewards are 1 with probability ``p``.

    This is the mean push of the group-normalised advantage, where p (1 - p) is the true gradient: see
    :func:`gradient_scale`. It is at most sqrt(G - 1) times that. ``p`` (...) is in [0, 1].

    >>> print(mean_deviation(group_size=2, p=0.5).round(6))  # half of the groups are mixed, with 1/2
    0.25
    """
    right = np.arange(group_size + 1)
    return binom.pmf(right, group_size, np.asarray(p)[..., None]) @ np.sqrt(right * (group_size - right)) / group_size


def wasted_share(group_size: int, p: float) -> float:
    """Probability that a group's rewards are all equal, so that it teaches nothing.

    >>> wasted_share(group_size=4, p=0.5)  # two of sixteen
    0.125
    """
    return p**group_size + (1 - p) ** group_size
