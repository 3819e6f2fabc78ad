"""What the bounds on token models subtract, as functions of a few numbers, for curves and sliders.

All penalties are for rewards in [0, 1]; in general they grow by the factor max R - min R. Numbers and arrays broadcast:

| argument | meaning |
|---|---|
| ``horizon`` | T, the tokens of an answer, at least 1 |
| ``tv_max``, ``kl_max``, ``chi2_max`` | the largest TV, KL(mu, pi), chi2(pi, mu) of the next token over contexts |
| ``tv_sum`` | sum over positions of the mean TV, over contexts of mu |
| ``kl_seq`` | the same sum of KL(mu, pi), which is KL of whole answers: at most T times ``kl_max`` |

KL is in nats. Every function raises ``ValueError`` for a horizon below 1, a negative divergence, or a TV above 1.
"""

import numpy as np

from rlnotes.bounds.arguments import Numbers, amount, total_variation
from rlnotes.estimators.divergences import bretagnolle_huber, pinsker


def _horizon(horizon: Numbers) -> np.ndarray:
    checked = np.asarray(horizon, dtype=np.float64)
    if not (checked >= 1).all():
        raise ValueError(f"horizon is {horizon}; an answer has at least 1 token")
    return checked


def _times(coefficient: np.ndarray, divergence: np.ndarray) -> np.ndarray:
    """The product, 0 where one of them is 0, though the other be infinite."""
    with np.errstate(invalid="ignore"):
        return np.where((coefficient == 0) | (divergence == 0), 0.0, coefficient * divergence)


def _beyond_linear(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(1 + x)**n - 1 - n x for n >= 1, x >= -1; by its series where the difference would cancel."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        series = n * (n - 1) / 2 * x**2 * (1 + (n - 2) * x / 3 * (1 + (n - 3) * x / 4 * (1 + (n - 4) * x / 5)))
        direct = np.expm1(n * np.log1p(x)) - n * x
        conditions = np.broadcast_arrays(n == 1, np.isinf(x), np.abs(n * x) < 1e-3)
    return np.select(conditions, [np.zeros_like(series), np.full_like(series, np.inf), series], direct)


# --- How far contexts shift


def simulation_lemma(position: Numbers, tv_max: Numbers) -> np.ndarray:
    """(t - 1) D: a bound on the TV between contexts of position t = 1, 2, ... 001 2.5.1.

    >>> print(simulation_lemma(position=np.array([1, 2, 3]), tv_max=0.1))
    [0.  0.1 0.2]
    """
    return (_horizon(position) - 1) * total_variation("tv_max", tv_max)


def coupling(position: Numbers, tv_max: Numbers) -> np.ndarray:
    """1 - (1 - D)^(t - 1): the same, and attained at every t. Elementary, derived for this course.

    >>> print(coupling(position=np.array([1, 2, 3]), tv_max=0.1).round(3))
    [0.   0.1  0.19]
    """
    return 1 - (1 - total_variation("tv_max", tv_max)) ** (_horizon(position) - 1)


# --- 001


def tv_chain(horizon: Numbers, tv_max: Numbers) -> np.ndarray:
    """2 T (T - 1) D_TV^2: 001 2.5.1.

    >>> print(tv_chain(horizon=10, tv_max=0.1).round(3))
    1.8
    """
    horizon = _horizon(horizon)
    return 2 * horizon * (horizon - 1) * total_variation("tv_max", tv_max) ** 2


def kl_chain(horizon: Numbers, kl_max: Numbers) -> np.ndarray:
    """T (T - 1) D_KL: 001 2.5.1, by Pinsker from :func:`tv_chain`.

    >>> print(kl_chain(horizon=10, kl_max=0.02).round(3))
    1.8
    """
    horizon = _horizon(horizon)
    return _times(horizon * (horizon - 1), amount("kl_max", kl_max))


def pinsker_marginal(horizon: Numbers, kl_max: Numbers) -> np.ndarray:
    """4/3 T^1.5 D_KL: 001 2.5.4.

    >>> print(pinsker_marginal(horizon=100, kl_max=0.003).round(3))
    4.0
    """
    return 4 / 3 * _horizon(horizon) ** 1.5 * amount("kl_max", kl_max)


def mixed(horizon: Numbers, kl_max: Numbers, kl_seq: Numbers) -> np.ndarray:
    """2 T sqrt(D_KL D_seq): 001 2.5.5. "Linear in T" only at a fixed D_seq, which can be T times D_KL.

    >>> print(mixed(horizon=100, kl_max=0.01, kl_seq=0.25).round(3))
    10.0
    """
    root = _times(np.sqrt(amount("kl_max", kl_max)), np.sqrt(amount("kl_seq", kl_seq)))
    return 2 * _horizon(horizon) * root


def minoriser(horizon: Numbers, kl_max: Numbers, kl_seq: Numbers) -> np.ndarray:
    """The smaller of :func:`pinsker_marginal` and :func:`mixed`: what 001 2.6.1 subtracts from L.

    >>> print(minoriser(horizon=100, kl_max=0.003, kl_seq=0.3).round(3))  # mixed is 6
    4.0
    """
    return np.minimum(pinsker_marginal(horizon, kl_max), mixed(horizon, kl_max, kl_seq))


# --- 003 and 004. Both take the largest absolute reward or advantage, so they need no reward range


def linear_tv_chain(horizon: Numbers, tv_max: Numbers, advantage_max: Numbers) -> np.ndarray:
    """max|A| T (T - 1) D_TV: 003 5.3, its constant and its T^2 made definite. First order in D: loose by about D.

    >>> print(linear_tv_chain(horizon=10, tv_max=0.1, advantage_max=1.0).round(3))
    9.0
    """
    horizon = _horizon(horizon)
    return amount("advantage_max", advantage_max) * horizon * (horizon - 1) * total_variation("tv_max", tv_max)


def sequence_second_moment(horizon: Numbers, chi2_max: Numbers) -> np.ndarray:
    """(1 + chi2)^T: a bound on E_mu[w^2], w the ratio of whole answers. 003 section 7; the variance is smaller by 1.

    >>> print(sequence_second_moment(horizon=2, chi2_max=0.5).round(3))
    2.25
    """
    with np.errstate(over="ignore"):
        return np.exp(_horizon(horizon) * np.log1p(amount("chi2_max", chi2_max)))


def quadratic(horizon: Numbers, tv_max: Numbers, reward_max: Numbers) -> np.ndarray:
    """2 xi T (T - 1) D_TV^2, xi = max|R|: 004 Theorem 3.2.

    >>> print(quadratic(horizon=10, tv_max=0.1, reward_max=1.0).round(3))
    1.8
    """
    return amount("reward_max", reward_max) * tv_chain(horizon, tv_max)


def linear(tv_sum: Numbers, reward_max: Numbers) -> np.ndarray:
    """4 xi sum_t E D_TV, xi = max|R|: 004 eq. (20).

    >>> print(linear(tv_sum=0.5, reward_max=1.0))
    2.0
    """
    return 4 * amount("reward_max", reward_max) * amount("tv_sum", tv_sum)


def composite(horizon: Numbers, tv_max: Numbers, tv_sum: Numbers, reward_max: Numbers) -> np.ndarray:
    """The smaller of :func:`quadratic` and :func:`linear`: 004 B.3.

    >>> print(composite(horizon=10, tv_max=0.1, tv_sum=0.2, reward_max=1.0).round(3))
    0.8
    """
    return np.minimum(quadratic(horizon, tv_max, reward_max), linear(tv_sum, reward_max))


# --- Elementary, derived for this course. Two more need no formula: the penalties ``kl_seq`` and ``tv_sum`` themselves


def halved(penalty: Numbers) -> np.ndarray:
    """Half of a penalty of 001.

    001 2.4.3 bounds a context's gain by 2 D_TV. As probabilities move from some tokens to others, it is at most D_TV
    times the span of Q, so at most D_TV: all four penalties halve.

    >>> print(halved(tv_chain(horizon=10, tv_max=0.1)).round(3))
    0.9
    """
    return amount("penalty", penalty) / 2


def coupling_chain(horizon: Numbers, tv_max: Numbers) -> np.ndarray:
    """2 D sum_t (1 - (1 - D)^(t - 1)): :func:`coupling` in place of the simulation lemma, and halved.

    >>> print(coupling_chain(horizon=2, tv_max=0.25).round(3))  # tv_chain is 0.25
    0.125
    """
    return 2 * _beyond_linear(_horizon(horizon), -total_variation("tv_max", tv_max))


def position_minimum(horizon: Numbers, tv_max: Numbers, kl_max: Numbers) -> np.ndarray:
    """2 D sum_t min(coupling, Pinsker, Bretagnolle-Huber), the last two on the KL of the contexts of position t.

    >>> print(position_minimum(horizon=2, tv_max=0.25, kl_max=0.02).round(4))
    0.05
    """
    horizon, tv_max, kl_max = np.broadcast_arrays(
        _horizon(horizon), total_variation("tv_max", tv_max), amount("kl_max", kl_max)
    )
    before = np.arange(horizon.max(initial=0.0))
    tv, kl = tv_max[..., None], _times(before, kl_max[..., None])
    shift = np.minimum(np.minimum(coupling(before + 1, tv), pinsker(kl)), bretagnolle_huber(kl))
    return 2 * tv_max * np.where(before < horizon[..., None], shift, 0.0).sum(-1)


def uniform_kl(horizon: Numbers, kl_max: Numbers) -> np.ndarray:
    """T D_KL: at least ``kl_seq``, and below :func:`pinsker_marginal` at every T.

    >>> print(uniform_kl(horizon=100, kl_max=0.003).round(3))  # pinsker_marginal is 4
    0.3
    """
    return _horizon(horizon) * amount("kl_max", kl_max)


def pinsker_sum(horizon: Numbers, kl_seq: Numbers) -> np.ndarray:
    """sqrt(T D_seq / 2): at least ``tv_sum``; below ``kl_seq`` from T / 2 on.

    >>> print(pinsker_sum(horizon=100, kl_seq=0.02).round(3))
    1.0
    """
    return np.sqrt(_horizon(horizon) * amount("kl_seq", kl_seq) / 2)


def chi2_chain(horizon: Numbers, chi2_max: Numbers) -> np.ndarray:
    """sqrt((1 + chi2)^T - 1 - T chi2) / 2: second order in the ratios. Attained at T = 2.

    >>> print(chi2_chain(horizon=2, chi2_max=0.25).round(3))
    0.125
    """
    return np.sqrt(_beyond_linear(_horizon(horizon), amount("chi2_max", chi2_max))) / 2


def improvement_limit(kl_seq: Numbers) -> np.ndarray:
    """The most by which J can change: the TV of whole answers, bounded by Pinsker and by Bretagnolle-Huber.

    >>> print(improvement_limit(kl_seq=np.array([0.02, 2.0])).round(3))
    [0.1  0.93]
    """
    kl_seq = amount("kl_seq", kl_seq)
    return np.minimum(pinsker(kl_seq), bretagnolle_huber(kl_seq))


def surrogate_limit(kl_seq: Numbers) -> np.ndarray:
    """The most that |L| can be: :func:`improvement_limit` plus ``kl_seq``.

    >>> print(surrogate_limit(kl_seq=0.02).round(3))
    0.12
    """
    return improvement_limit(kl_seq) + amount("kl_seq", kl_seq)


def token_gradient_bias(horizon: Numbers, tv_max: Numbers, score_max: Numbers) -> np.ndarray:
    """G T (T - 1) D_TV: a bound on the length of grad L - grad J, G the longest grad log pi of a token. 003 5.2.

    Of it, (t - 1) D at position t is for contexts from mu, and (T - t) D for advantages of mu.

    >>> print(token_gradient_bias(horizon=10, tv_max=0.01, score_max=1.0).round(3))
    0.9
    """
    return linear_tv_chain(horizon, tv_max, score_max)


def token_gradient_bias_martingale(horizon: Numbers, tv_max: Numbers, score_max: Numbers) -> np.ndarray:
    """G T^1.5 D (5/3 + 4/5 T D): the same for rewards in [0, 1], below it from T = 5 on for small D.

    Elementary, derived for this course. Advantages along an answer are increments of a martingale that stays within
    1 + 2 T D, so T of them times T scores are worth sqrt(T) and not T.

    >>> print(token_gradient_bias_martingale(10, tv_max=0.01, score_max=1.0).round(3))
    0.552
    """
    horizon, shift = _horizon(horizon), total_variation("tv_max", tv_max)
    return amount("score_max", score_max) * horizon**1.5 * shift * (5 / 3 + 4 / 5 * horizon * shift)


# --- Where penalties cease to be idle


def kl_chain_threshold(horizon: Numbers) -> np.ndarray:
    """The ``kl_max`` at which :func:`kl_chain` is 1, as large as any change of J. Infinite at T = 1.

    >>> print(kl_chain_threshold(horizon=5).round(3))
    0.05
    """
    horizon = _horizon(horizon)
    with np.errstate(divide="ignore"):
        return 1 / (horizon * (horizon - 1))


def pinsker_marginal_threshold(horizon: Numbers) -> np.ndarray:
    """The ``kl_max`` at which :func:`pinsker_marginal` is 1.

    >>> print(pinsker_marginal_threshold(horizon=100).round(5))
    0.00075
    """
    return 3 / 4 / _horizon(horizon) ** 1.5


def mixed_threshold(horizon: Numbers) -> np.ndarray:
    """The ``kl_max`` at which :func:`mixed` is 1 if all contexts have this KL, that is ``kl_seq`` = T ``kl_max``.

    >>> print(mixed_threshold(horizon=100).round(5))
    0.0005
    """
    return 1 / 2 / _horizon(horizon) ** 1.5


def mixed_crossover(horizon: Numbers, kl_max: Numbers) -> np.ndarray:
    """The ``kl_seq`` below which :func:`mixed` is smaller than :func:`pinsker_marginal`: 4/9 T ``kl_max``.

    >>> print(mixed_crossover(horizon=90, kl_max=0.01).round(3))
    0.4
    """
    return 4 / 9 * uniform_kl(horizon, kl_max)


def best_certificate(horizon: Numbers, kl_max: Numbers, kl_seq: Numbers) -> np.ndarray:
    """A bound on L less :func:`minoriser`, whatever the rewards. Not above 0: 001 2.6.1 can certify nothing here.

    >>> print(best_certificate(horizon=100, kl_max=0.003, kl_seq=0.3).round(2))
    -3.31
    """
    return surrogate_limit(kl_seq) - minoriser(horizon, kl_max, kl_seq)


def pinsker_marginal_firing(horizon: Numbers) -> np.ndarray:
    """The ``kl_max`` from which L, by :func:`surrogate_limit`, cannot exceed :func:`pinsker_marginal`: .28 / T^2.

    >>> print(pinsker_marginal_firing(horizon=9).round(5))  # 1 / (2 * 9**2)
    0.00617
    """
    horizon = _horizon(horizon)
    return 1 / (2 * (4 / 3 * horizon - np.sqrt(horizon)) ** 2)


def mixed_firing(horizon: Numbers) -> np.ndarray:
    """The ``kl_max`` from which L, by :func:`surrogate_limit`, cannot exceed :func:`mixed`, at any ``kl_seq``.

    >>> print(mixed_firing(horizon=4).round(5))  # 1 / (2 * 6**2)
    0.01389
    """
    horizon = _horizon(horizon)
    return 1 / (2 * (2 * horizon - np.sqrt(horizon)) ** 2)
