"""Ratios pi / mu of single tokens that are independent and log-normal with mean 1: the simplest law of a mismatch.

Under mu the log-ratio is Gaussian with standard deviation ``spread`` and mean -spread**2 / 2, as the mean of a ratio is
1. Elementary, derived for this course. Ratios of real tokens have heavier tails and depend on each other, and no ratio
exceeds 1 / mu: it is a yardstick. For responses see :mod:`rlnotes.exact.gaussian_ratios`.

Every function broadcasts, and raises ``ValueError`` for a spread or tail that is not positive.
"""

import numpy as np
from scipy.special import ndtr, ndtri

Numbers = np.ndarray | float

RARE = 1e-3  # the share of tokens beyond a tail


def spread_of(tail: Numbers) -> np.ndarray:
    """The spread with which one token in a thousand has ``|log ratio| > tail``; its mean, which is small, left out.

    >>> print(spread_of(tail=0.5).round(3))
    0.152
    """
    return _positive("tail", tail) / ndtri(1 - RARE / 2)


def tv(spread: Numbers) -> np.ndarray:
    """Total variation of mu and pi: 2 Phi(spread / 2) - 1.

    >>> print(tv(spread=0.1).round(4))  # about 0.4 times the spread
    0.0399
    """
    return 2 * ndtr(_positive("spread", spread) / 2) - 1


def kl(spread: Numbers) -> np.ndarray:
    """KL(mu, pi) in nats: spread**2 / 2.

    >>> print(kl(spread=0.1).round(4))
    0.005
    """
    return _positive("spread", spread) ** 2 / 2


def chi2(spread: Numbers) -> np.ndarray:
    """chi2(pi, mu), the variance of the ratio: exp(spread**2) - 1.

    >>> print(chi2(spread=0.1).round(4))
    0.0101
    """
    return np.expm1(_positive("spread", spread) ** 2)


def above(spread: Numbers, ratio: Numbers) -> np.ndarray:
    """The chance that a token's ratio is above ``ratio``.

    >>> print(above(spread=0.1, ratio=1.2).round(4))
    0.0305
    """
    spread = _positive("spread", spread)
    return ndtr(-np.log(ratio) / spread - spread / 2)


def below(spread: Numbers, ratio: Numbers) -> np.ndarray:
    """The chance that a token's ratio is below ``ratio``, 0 for one that is not positive.

    >>> print(below(spread=0.1, ratio=0.8).round(4))
    0.0146
    """
    spread, ratio = _positive("spread", spread), np.asarray(ratio, dtype=np.float64)
    positive = np.where(ratio > 0, ratio, 1.0)
    return np.where(ratio > 0, ndtr(np.log(positive) / spread + spread / 2), 0.0)


def some_of(chance: Numbers, tokens: Numbers) -> np.ndarray:
    """The chance that at least one of ``tokens`` is out, each with this ``chance``: 1 - (1 - chance)^T.

    >>> print(some_of(chance=0.01, tokens=100).round(3))
    0.634
    """
    with np.errstate(divide="ignore"):
        return -np.expm1(np.asarray(tokens, dtype=np.float64) * np.log1p(-np.asarray(chance, dtype=np.float64)))


def _positive(name: str, value: Numbers) -> np.ndarray:
    checked = np.asarray(value, dtype=np.float64)
    if not (checked > 0).all():
        raise ValueError(f"{name} is {checked.min():g}; it must be positive")
    return checked
