"""T coins with reward 1 for more ones than zeros: what bounds of long horizons promise, at any even length.

mu throws fair coins, pi gives a one with chance 1/2 + s. All contexts are alike, so ``divergence``, the KL of a whole
response, says all of the step: D_seq = -T/2 log(1 - 4 s^2).
"""

import numpy as np
from scipy.special import betainc, gammaln

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds.arguments import Numbers


def shift(length: Numbers, divergence: Numbers) -> np.ndarray:
    """s, by which pi moves each coin.

    >>> print(shift(length=8, divergence=0.0578).round(3))
    0.06
    """
    return np.sqrt(-np.expm1(-2 * np.asarray(divergence) / np.asarray(length))) / 2


def changes(length: Numbers, divergence: Numbers) -> dict[str, np.ndarray]:
    """``true``, the change of J; ``L``; and ``R log w``, its mean: the lower end of Theorem 14.7.

    >>> print({name: float(x.round(4)) for name, x in changes(length=8, divergence=0.057934).items()})
    {'true': 0.137, 'L': 0.1312, 'R log w': 0.1107}
    """
    T, D = np.asarray(length, dtype=np.float64), np.asarray(divergence, dtype=np.float64)
    s = shift(T, D)
    half = T / 2
    tie = np.exp(gammaln(T + 1) - 2 * gammaln(half + 1) - T * np.log(2))  # as many ones as zeros, under mu
    more = betainc(half + 1, half, 0.5 + s)  # more ones than zeros, under pi
    return {
        "true": more - (1 - tie) / 2,
        "L": s * T * tie,
        "R log w": -D / 2 - half * tie * np.log1p(-2 * s),
    }


def penalties(length: Numbers, divergence: Numbers) -> dict[str, np.ndarray]:
    """What each bound takes from L, for rewards in [0, 1]: those of 001 as printed, of 004 by half the range.

    In 12.3 xi is s: after as many ones as zeros the last coin decides.
    """
    T, D = np.asarray(length, dtype=np.float64), np.asarray(divergence, dtype=np.float64)
    s, of_token, found = shift(T, D), D / T, changes(T, D)
    return {
        "12.3": forms.tv_chain(T, s),
        "14.5, chain": forms.kl_chain(T, of_token),
        "14.5, root": forms.pinsker_marginal(T, of_token),
        "14.5, mixed": forms.mixed(T, of_token, D),
        "15.2": forms.quadratic(T, s, 0.5),
        "15.4": T * s,
        "14.7": D,
        "14.7, weighted": found["L"] - found["R log w"],
    }


def promises(length: Numbers, divergence: Numbers) -> dict[str, np.ndarray]:
    """The true change, and what the explorer shows beside it: by 14.7 weighted and flat, and by the better of 001."""
    found, taken = changes(length, divergence), penalties(length, divergence)
    published = np.minimum(taken["14.5, root"], taken["14.5, mixed"])
    return {
        "true change": found["true"],
        "mean of R log w": found["R log w"],
        "L − D_seq": found["L"] - taken["14.7"],
        "published": found["L"] - published,
    }


def fires(length: int) -> dict[str, tuple[float, float, float]]:
    """Of each bound up to which D_seq a step of the coins is promised a gain, and the best promise, and where it is.

    On a fine grid from 1e-9 to 10 nats. A bound that never promises a gain has 0, its best promise, and that place.
    """
    D = 10 ** np.linspace(-9, 1, 20001)
    L, found = changes(length, D)["L"], {}
    for name, penalty in penalties(length, D).items():
        promise = L - penalty
        best = int(promise.argmax())
        found[name] = float(D[promise > 0].max(initial=0.0)), float(promise[best]), float(D[best])
    return found
