"""Ratios of a response whose tokens' log-ratios are independent and Gaussian: closed forms over its length.

Every token's log-ratio has mean ``mean`` and standard deviation ``spread``. That of the product over T tokens, 002 eq.
(105), has T and sqrt(T) times these; that of the geometric mean, 002 eq. (107), has ``mean`` and ``spread`` / sqrt(T).
Elementary, derived for this course. A sampler whose ratios have mean 1, as importance ratios have, is
``mean = -spread**2 / 2``.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ndtr

Level = Literal["token", "sequence", "sequence_mean"]


class Law(NamedTuple):
    """Mean and standard deviation of a log-ratio."""

    mean: np.ndarray
    spread: np.ndarray


def law(mean: float, spread: float, tokens: np.ndarray | float, level: Level) -> Law:
    """The law at a level, over the number of ``tokens`` (any shape).

    Raises ``ValueError`` for an unknown level, a spread that is not positive, and fewer than one token.
    """
    T = np.asarray(tokens, dtype=np.float64)
    if level not in get_args(Level):
        raise ValueError(f"level is {level!r}; choose one of {', '.join(get_args(Level))}")
    if not spread > 0:
        raise ValueError(f"spread is {spread}; a standard deviation must be positive")
    if not (T >= 1).all():
        raise ValueError(f"tokens has {T.min():g}; a response has at least 1")
    power = dict(token=0.0, sequence=1.0, sequence_mean=-1.0)[level]
    return Law(mean * T ** max(power, 0.0), spread * T ** (power / 2))


def closed_share(
    mean: float, spread: float, tokens: np.ndarray | float, level: Level, epsilon: float, positive: bool
) -> np.ndarray:
    """The chance that a clip of [1 - epsilon, 1 + epsilon] gives no gradient, with an advantage of this sign.

    It is closed above 1 + epsilon where the advantage is ``positive``, else below 1 - epsilon: 002 eqs. (96), (109).
    Raises ``ValueError`` as :func:`law` does, and for an epsilon outside (0, 1).

    >>> lengths = np.array([1, 100])
    >>> print(closed_share(0.0, 0.1, lengths, "token", 0.2, positive=True).round(3))
    [0.034 0.034]
    >>> print(closed_share(0.0, 0.1, lengths, "sequence", 0.2, positive=True).round(3))
    [0.034 0.428]
    """
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon is {epsilon}; it must lie between 0 and 1")
    of = law(mean, spread, tokens, level)
    if positive:
        return ndtr((of.mean - np.log1p(epsilon)) / of.spread)
    return ndtr((np.log1p(-epsilon) - of.mean) / of.spread)
