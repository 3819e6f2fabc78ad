"""What the bounds on discounted processes subtract, as functions of a few numbers, for curves and sliders.

Numbers and arrays broadcast. d is the normalised discounted state distribution, A the advantage of the old policy,
G(s) its mean over the new policy's actions.

| argument | meaning |
|---|---|
| ``gamma`` | the discount, in [0, 1) |
| ``tv_max``, ``kl_max`` | the largest TV, KL(old, new) of the two policies over states |
| ``tv_mean`` | their mean TV over d of the old policy |
| ``gain`` | a bound on abs G: C = max abs G, or half the span of G |
| ``advantage`` | xi = max abs A |

KL is in nats. Every function raises ``ValueError`` for a discount outside [0, 1), a TV above 1 and a negative amount.
"""

import numpy as np

from rlnotes.bounds.arguments import Numbers, amount, total_variation
from rlnotes.estimators.divergences import pinsker


def _discount(gamma: Numbers) -> np.ndarray:
    checked = np.asarray(gamma, dtype=np.float64)
    if not ((checked >= 0) & (checked < 1)).all():
        raise ValueError(f"gamma is {gamma}; a bound over an endless future needs a discount in [0, 1)")
    return checked


# --- How far states shift: the L1 distance of the two d


def occupancy_shift(gamma: Numbers, tv_mean: Numbers) -> np.ndarray:
    """2 gamma / (1 - gamma) times the mean TV: 000 Lemma 3.1.

    >>> print(occupancy_shift(gamma=0.5, tv_mean=0.25))
    0.5
    """
    gamma = _discount(gamma)
    return 2 * gamma * total_variation("tv_mean", tv_mean) / (1 - gamma)


def coupled_occupancy_shift(gamma: Numbers, tv_max: Numbers) -> np.ndarray:
    """2 gamma D / (1 - gamma (1 - D)) from the largest TV D: at most 2, as the L1 distance is.

    The two policies act alike for t steps with probability (1 - D)^t. Elementary, derived for this course.

    >>> print(coupled_occupancy_shift(gamma=0.5, tv_max=np.array([0.25, 1.0])))
    [0.4 1. ]
    """
    gamma, tv = _discount(gamma), total_variation("tv_max", tv_max)
    return 2 * gamma * tv / (1 - gamma * (1 - tv))


# --- Penalties


def shift_penalty(gamma: Numbers, gain: Numbers, shift: Numbers) -> np.ndarray:
    """``gain`` times ``shift`` / (1 - gamma): 002 section 4.3. All penalties with one gain and one shift are this.

    >>> print(shift_penalty(gamma=0.5, gain=1.0, shift=0.5))
    1.0
    """
    return amount("gain", gain) * amount("shift", shift) / (1 - _discount(gamma))


def mean_tv(gamma: Numbers, gain: Numbers, tv_mean: Numbers) -> np.ndarray:
    """2 gamma C / (1 - gamma)^2 times the mean TV: 000 Theorem 3.2. Half the span of G may take the place of C.

    >>> print(mean_tv(gamma=0.5, gain=0.5, tv_mean=0.25))
    0.5
    """
    return shift_penalty(gamma, gain, occupancy_shift(gamma, tv_mean))


def max_tv(gamma: Numbers, advantage: Numbers, tv_max: Numbers) -> np.ndarray:
    """4 gamma xi D^2 / (1 - gamma)^2: TRPO, 003 section 5.3. C is at most 2 xi D, which makes the second D.

    >>> print(max_tv(gamma=0.5, advantage=1.0, tv_max=0.25))
    0.5
    """
    tv = total_variation("tv_max", tv_max)
    return shift_penalty(gamma, 2 * amount("advantage", advantage) * tv, occupancy_shift(gamma, tv))


def max_kl(gamma: Numbers, advantage: Numbers, kl_max: Numbers) -> np.ndarray:
    """2 gamma xi KL / (1 - gamma)^2 up to KL = 2: :func:`max_tv` by Pinsker, for the constraint of 002 eq. (66).

    From KL = 2 on Pinsker says nothing, and D = 1.

    >>> print(max_kl(gamma=0.5, advantage=1.0, kl_max=np.array([0.125, 2.0, 100.0])))
    [0.5 8.  8. ]
    """
    return max_tv(gamma, advantage, np.minimum(pinsker(amount("kl_max", kl_max)), 1.0))


def coupled_tv(gamma: Numbers, advantage: Numbers, tv_max: Numbers) -> np.ndarray:
    """2 gamma xi D min(1, 2 D) / ((1 - gamma)(1 - gamma (1 - D))): the best bound in these three numbers.

    Attained at every gamma and D. Elementary, derived for this course.

    >>> print(coupled_tv(gamma=0.5, advantage=1.0, tv_max=0.25))  # max_tv is 0.5
    0.4
    """
    gain = amount("advantage", advantage) * np.minimum(1.0, 2 * total_variation("tv_max", tv_max))
    return shift_penalty(gamma, gain, coupled_occupancy_shift(gamma, tv_max))


def mean_divergence(gamma: Numbers, reward_range: Numbers, mean: Numbers) -> np.ndarray:
    """(max r - min r) / (1 - gamma)^2 times the mean over d of KL(old, new), or of TV.

    0 where rewards are all equal, though the KL be infinite. Elementary, derived for this course.

    >>> print(mean_divergence(gamma=0.5, reward_range=2.0, mean=0.125))
    1.0
    """
    scale, mean = amount("reward_range", reward_range) / (1 - _discount(gamma)) ** 2, amount("mean", mean)
    with np.errstate(invalid="ignore"):
        return np.where((scale == 0) | (mean == 0), 0.0, scale * mean)


def mixture_bias(gamma: Numbers, advantage: Numbers, staleness: Numbers) -> np.ndarray:
    """2 xi S / (1 - gamma), S the mean TV of the current policy to the one at work: 000 section 5.2.

    >>> print(mixture_bias(gamma=0.5, advantage=1.0, staleness=0.25))
    1.0
    """
    return shift_penalty(gamma, advantage, 2 * total_variation("staleness", staleness))


def advantage_replacement(gamma: Numbers, error: Numbers, largest_ratio: Numbers = 1.0) -> np.ndarray:
    """M eps_A / (1 - gamma): what an advantage that is off by ``error`` at most can add to L. 000 section 5.4.

    Ratios that are not clipped have mean 1, so that M = 1 will do.

    >>> print(advantage_replacement(gamma=0.5, error=0.1))
    0.2
    """
    return amount("largest_ratio", largest_ratio) * amount("error", error) / (1 - _discount(gamma))
