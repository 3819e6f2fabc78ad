"""Exercises of chapter 15, DPPO."""

import itertools
import math

import numpy as np

from rlnotes.estimators.bucketed import topk_tv, topk_tv_as_printed
from rlnotes.estimators.divergences import log_probs
from rlnotes.notebook.exercise import Exercise


def _keep(logp: np.ndarray, logp_mu: np.ndarray, advantages: np.ndarray, delta: float) -> np.ndarray:
    """Token by token, in the words of figure 1 of source 004."""
    kept = []
    for new, old, advantage in zip(logp, logp_mu, advantages, strict=True):
        grown = math.exp(new) - math.exp(old)
        kept.append(not (advantage > 0 and grown > delta) and not (advantage < 0 and -grown > delta))
    return np.array(kept)


def _clip_keep(logp: np.ndarray, logp_mu: np.ndarray, advantages: np.ndarray, delta: float) -> np.ndarray:
    ratio = np.exp(logp - logp_mu)
    return ~(((advantages > 0) & (ratio > 1 + delta)) | ((advantages < 0) & (ratio < 1 - delta)))


def _symmetric(logp: np.ndarray, logp_mu: np.ndarray, advantages: np.ndarray, delta: float) -> np.ndarray:
    return np.abs(np.exp(logp) - np.exp(logp_mu)) <= delta


def _backwards(logp: np.ndarray, logp_mu: np.ndarray, advantages: np.ndarray, delta: float) -> np.ndarray:
    return _keep(logp, logp_mu, -advantages, delta)


def _topk(mu: np.ndarray, pi: np.ndarray, token: int, k: int, printed: bool = False) -> float:
    form = topk_tv_as_printed if printed else topk_tv
    return float(form(log_probs(mu[None]), log_probs(pi[None]), np.array([token]), k)[0])


def _hidden(mu: np.ndarray, pi: np.ndarray, kept: np.ndarray) -> float:
    """The largest TV over all ways to hand pi's mass in the bucket to one of its tokens.

    TV is convex in pi, so its maximum is at such a corner.
    """
    bucket = np.flatnonzero(~kept)
    best = 0.0
    for token in bucket:
        moved = np.where(kept, pi, 0.0)
        moved[token] = pi[bucket].sum()
        best = max(best, np.abs(mu - moved).sum() / 2)
    return float(best)


def _bucketed(mu: np.ndarray, pi: np.ndarray, kept: np.ndarray) -> float:
    return float(np.abs(mu - pi)[kept].sum() + abs(mu[~kept].sum() - pi[~kept].sum())) / 2


def _gaps(mu: np.ndarray, pi: np.ndarray, token: int, k: int) -> np.ndarray:
    """mu - pi of mu's K likeliest, and once more of the sampled token."""
    return (mu - pi)[[token, *np.argsort(-mu, kind="stable")[:k]]]


def _twice(mu: np.ndarray, pi: np.ndarray, token: int, k: int) -> float:
    gaps = _gaps(mu, pi, token, k)
    return float(np.abs(gaps).sum() + abs(gaps.sum())) / 2


def _signed(mu: np.ndarray, pi: np.ndarray, token: int, k: int) -> float:
    gap = (mu - pi)[sorted({token, *np.argsort(-mu, kind="stable")[:k].tolist()})]
    return float(np.abs(gap).sum() + gap.sum()) / 2


def _deviation(mu: np.ndarray, pi: np.ndarray) -> float:
    """From all actions: mean of the square, less the square of the mean."""
    estimate = [abs(p / m - 1) / 2 for p, m in zip(pi, mu, strict=True)]
    mean = sum(m * e for m, e in zip(mu, estimate, strict=True))
    return math.sqrt(sum(m * (e - mean) ** 2 for m, e in zip(mu, estimate, strict=True)))


def _full_tv(share: float) -> float:
    """At the explorer's start, with ``share`` of the other 63 tokens' mass turned round: by Zipf's law."""
    mu, pi = 1 / (1 + 1e4), 1 / (1 + 1e2)
    zipf = np.array([1 / j for j in range(1, 64)])
    zipf /= zipf.sum()
    rest = zipf + share * (zipf[::-1] - zipf)
    return float(pi - mu + np.abs((1 - pi) * rest - (1 - mu) * zipf).sum()) / 2


def _first_share() -> float:
    """The first stop of the slider at which full TV has passed the limit."""
    return next(step / 20 for step in range(21) if _full_tv(step / 20) > 0.15)


def _exact_share() -> float:
    """Where full TV passes the limit, between two stops of the slider: by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _full_tv(middle) <= 0.15 else (low, middle)
    return high


_BATCHES = tuple(
    (np.log(np.array(new)), np.log(np.array(old)), np.array(advantages), delta)
    for new, old, advantages, delta in (
        ([0.01, 0.80, 0.30, 0.30], [1e-4, 0.99, 0.10, 0.60], [1.0, -1.0, 1.0, -1.0], 0.15),
        ([0.30, 0.10, 0.90, 0.20], [0.10, 0.40, 0.70, 0.21], [-1.0, 1.0, 2.0, -0.5], 0.15),
        ([0.50, 0.50, 0.05, 0.95], [0.45, 0.56, 0.04, 0.99], [0.0, -1.0, 1.0, -2.0], 0.05),
    )
)
_PAIRS = (
    (np.array([0.99, 0.0099, 0.0001]), np.array([0.80, 0.19, 0.01])),
    (np.array([0.2, 0.5, 0.3]), np.array([0.2, 0.3, 0.5])),
    (np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.45, 0.05, 0.4])),
)
_RISING = (np.array([0.5, 0.3, 0.12, 0.08]), np.array([0.7, 0.1, 0.15, 0.05]))  # the likeliest token has grown
_TOPK = tuple((mu, pi, token, k) for (mu, pi), token, k in itertools.product((*_PAIRS, _RISING), (0, 2), (1, 2)))
_BUCKETS = tuple(
    (mu, pi, np.array(kept))
    for (mu, pi), kept in (
        (_PAIRS[0], [True, False, False]),
        (_PAIRS[1], [True, False, False]),
        (_PAIRS[2], [False, True, False, False]),
        (_PAIRS[2], [True, True, False, False]),
        ((np.array([0.2, 0.5, 0.3]), np.array([0.9, 0.05, 0.05])), [True, False, False]),  # pi leaves less than min mu
    )
)

EXERCISES: dict[str, Exercise] = {
    "15.0": Exercise(
        cases=((),),
        oracle=_first_share,
        misconceptions={
            "that is the limit on the divergence; asked is the share of the slider": lambda: 0.15,
            "there full TV is 0.149, and the limit is 0.15: a little more": lambda: 0.2,
            "the binary mask never drops it; watch the lane of full TV": lambda: 1.0,
            "at 0 the other tokens have only made room, and full TV is 0.0098": lambda: 0.0,
        },
        hints=(
            "Move the share up step by step, and read full TV in the sentence.",
            "The lane of full TV falls in the step in which full TV passes 0.15.",
        ),
        tolerance=1e-3,  # the exact share by its first three digits; 0.2 is outside
        also=_exact_share,
    ),
    "15.1": Exercise(
        cases=_BATCHES,
        oracle=_keep,
        misconceptions={
            "that is the clip, on the ratio; DPPO compares probabilities": _clip_keep,
            "a token that comes back towards mu keeps its gradient": _symmetric,
            "the signs are the wrong way round: with A > 0 a token moves away when it grows": _backwards,
            "these are the dropped ones": lambda *given: ~_keep(*given),
        },
        hints=(
            "change = np.exp(logp) - np.exp(logp_mu); what is dropped if A > 0, and what if A < 0?",
            "dropped = ((advantages > 0) & (change > delta)) | ((advantages < 0) & (change < -delta))",
        ),
    ),
    "15.2": Exercise(
        cases=_PAIRS,
        oracle=_deviation,
        misconceptions={
            "this is the variance; take the root": lambda mu, pi: _deviation(mu, pi) ** 2,
            "this is the second moment of r - 1; the square of its mean has to go off": lambda mu, pi: (
                math.sqrt(mu @ (pi / mu - 1) ** 2) / 2
            ),
            "a factor 1/2 is missing: the estimate is half of |r - 1|": lambda mu, pi: 2 * _deviation(mu, pi),
            "this is the mean, the TV itself": lambda mu, pi: np.abs(mu - pi).sum() / 2,
            "weight the tokens by mu, which samples them": lambda mu, pi: np.std(np.abs(pi / mu - 1) / 2),
        },
        hints=(
            "Estimates e = np.abs(pi / mu - 1) / 2, one for each token, which comes with probability mu.",
            "np.sqrt(mu @ e**2 - (mu @ e) ** 2)",
        ),
    ),
    "15.3": Exercise(
        cases=_TOPK,
        oracle=_topk,
        misconceptions={
            'without "other" it is equation (15) as printed, and may be half of the binary TV': lambda m, p, t, k: (
                _topk(m, p, t, k, printed=True)
            ),
            "a half is missing": lambda m, p, t, k: 2 * _topk(m, p, t, k),
            "the sampled token is told apart too, if it is not among the K": lambda m, p, t, k: _topk(
                m, p, int(np.argmax(m)), k
            ),
            "this is the full TV": lambda m, p, t, k: np.abs(m - p).sum() / 2,
            "the K likeliest are mu's, not pi's": lambda m, p, t, k: _bucketed(
                m, p, np.isin(np.arange(len(m)), [t, *np.argsort(-p, kind="stable")[:k]])
            ),
            "these are mu's K rarest; np.argsort goes up": lambda m, p, t, k: _bucketed(
                m, p, np.isin(np.arange(len(m)), [t, *np.argsort(m, kind="stable")[:k]])
            ),
            "where the sampled token is among the K, it counts twice here": _twice,
            "the sampled token comes in addition to the K, and not in place of one": lambda m, p, t, k: _bucketed(
                m, p, np.isin(np.arange(len(m)), [t, *np.argsort(-m, kind="stable")[: k - 1]])
            ),
            '"other" moved by the size of its change, whichever way': _signed,
        },
        hints=(
            "What do mu and pi give to all the others together?",
            'Sum |mu - pi| over the kept tokens; "other" moved by the size of the sum of mu - pi over them.',
            "(np.abs(gap[kept]).sum() + abs(gap[kept].sum())) / 2 with gap = mu - pi and kept a list",
        ),
    ),
    "15.4": Exercise(
        cases=_BUCKETS,
        oracle=_hidden,
        misconceptions={
            "this is what is seen; something can hide in the bucket": _bucketed,
            "this is the full TV of this pi; another with the same kept tokens can be farther": lambda mu, pi, kept: (
                np.abs(mu - pi).sum() / 2
            ),
            "that is the bound of appendix C.1, with half of the sum of the two masses; it is too large": (
                lambda mu, pi, kept: _bucketed(mu, pi, kept) + (mu[~kept].sum() + pi[~kept].sum()) / 2
            ),
            "that is the bound of Proposition 15.18. It needs that mu and pi share no token of the bucket; "
            "here mu has some of each token, so they share at least the smaller of mu's rarest and pi's mass": (
                lambda mu, pi, kept: _bucketed(mu, pi, kept) + min(mu[~kept].sum(), pi[~kept].sum())
            ),
            "mu and pi share the smaller of mu's rarest and what pi has left; here the first is taken always": (
                lambda mu, pi, kept: (
                    np.abs(mu - pi)[kept].sum() / 2 + (mu[~kept].sum() + pi[~kept].sum()) / 2 - mu[~kept].min()
                )
            ),
        },
        hints=(
            "How would you place pi's mass in the bucket as far from mu's as possible?",
            "They share least if all of it lies on one token. On which one of the bucket?",
            "rarest = np.argmin(np.where(kept, np.inf, mu)), new = np.where(kept, pi, 0.0), "
            "new[rarest] = pi[~kept].sum(); then the TV of mu and new",
        ),
    ),
    "15.5": Exercise(
        cases=((),),
        oracle=lambda: "bdf",
        misconceptions={
            "(a): that is the printed coefficient, which three states refute": lambda: "abdf",
            "(c): binary TV is a lower bound; small values certify nothing": lambda: "bcdf",
            "(e): at mu = 0.5 the clip stops at a change of 0.1, DPPO at 0.15": lambda: "bdef",
            "(g): with one update per rollout pi is mu when the gradient is taken, and nothing is masked": lambda: (
                "bdfg"
            ),
            "(f) is true: the mask zeroes a gradient, and what is shared or remembered still moves": lambda: "bd",
            "(b) is true: the price is 0 for T = 1, whatever pi is": lambda: "df",
        },
        hints=("Three are true.", "For (e) compare 0.2 mu with 0.15 at mu = 0.5."),
    ),
}
