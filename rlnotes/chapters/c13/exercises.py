"""Exercises of chapter 13, clipping under staleness."""

import math
from collections.abc import Callable

import numpy as np

from rlnotes.exact.constrained_update import StaleData, clipped_update, constrained_update
from rlnotes.notebook.exercise import Exercise


def _one_state(current: np.ndarray, advantages: np.ndarray) -> StaleData:
    current = np.asarray(current, dtype=np.float64)
    return StaleData(np.ones((1, 1)), current[None, None], current[None], np.asarray(advantages, float)[None, None])


def _last_rise(term: Callable[[float], float]) -> float:
    """Where a term of the probability, for A = 1, stops rising: its interval is halved again and again."""
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        rises = term(middle * (1 + 1e-9)) > term(middle)
        low, high = (middle, high) if rises else (low, middle)
    return low


def _highest(mu: float, pi_k: float, epsilon: float) -> np.ndarray:
    """From the three objectives as section 7.2 has them."""
    rho_k = pi_k / mu
    return np.array(
        [
            _last_rise(lambda pi: min(pi / mu, np.clip(pi / mu, 1 - epsilon, 1 + epsilon))),
            _last_rise(lambda pi: min(pi / mu, np.clip(pi / mu, rho_k - epsilon, rho_k + epsilon))),
            _last_rise(lambda pi: min(pi / pi_k * rho_k, np.clip(pi / pi_k, 1 - epsilon, 1 + epsilon) * rho_k)),
        ]
    )


def _shift(logp_new: np.ndarray, logp_k: np.ndarray, logp_mu: np.ndarray) -> float:
    """Sample by sample."""
    gaps = [abs(math.exp(a - c) - math.exp(b - c)) for a, b, c in zip(logp_new, logp_k, logp_mu, strict=True)]
    return sum(gaps) / len(gaps) / 2


def _smallest_shift(pi_k: np.ndarray, advantages: np.ndarray, epsilon: float) -> float:
    """By linear programming."""
    data = _one_state(pi_k, advantages)
    return data.update_shift(clipped_update(data, "method 2", epsilon))


def _best(pi_k: np.ndarray, advantages: np.ndarray, shift: float) -> np.ndarray:
    """By linear programming."""
    return constrained_update(_one_state(pi_k, advantages), shift)[0]


def _overdrawn(pi_k: np.ndarray, advantages: np.ndarray, shift: float) -> np.ndarray:
    moved = np.zeros(len(pi_k))
    moved[np.argmax(advantages)], moved[np.argmin(advantages)] = shift, -shift
    return pi_k + moved


def _spread(pi_k: np.ndarray, advantages: np.ndarray, shift: float) -> np.ndarray:
    best = np.arange(len(pi_k)) == np.argmax(advantages)
    taken = np.where(best, 0, pi_k) / pi_k[~best].sum()
    return pi_k + shift * (best - taken)


def _taken(
    pi_k: np.ndarray,
    advantages: np.ndarray,
    shift: float,
    *,
    order: slice = slice(None, -1),
    budget: bool = True,
    to: np.ndarray | None = None,
) -> np.ndarray:
    """Mass from the actions in ``order``, the worst first, each what it has up to ``shift``; it goes to ``to``."""
    new = pi_k.copy()
    given = np.eye(len(pi_k))[np.argmax(advantages)] if to is None else to
    for a in np.argsort(advantages)[order]:
        move = min(float(new[a]), shift)
        new[a] -= move
        new = new + move * given
        if budget:
            shift -= move
    return new


def _cut_off(pi_k: np.ndarray, advantages: np.ndarray, shift: float) -> np.ndarray:
    new = np.maximum(_overdrawn(pi_k, advantages, shift), 0)
    return new / new.sum()


def _to_the_good(pi_k: np.ndarray, advantages: np.ndarray, shift: float) -> np.ndarray:
    good = np.where(advantages > 0, pi_k, 0)
    return _taken(pi_k, advantages, shift, to=good / good.sum())


def _filtered(mu: np.ndarray, pi_k: np.ndarray, epsilon: float) -> np.ndarray:
    """Action by action: half the mean of abs(rho_k - 1) over what is kept, and the TV of pi_k to mu and to that law."""
    kept = [a for a in range(len(mu)) if abs(pi_k[a] / mu[a] - 1) <= epsilon]
    total = sum(mu[a] for a in kept)
    inside = sum(mu[a] / total * abs(pi_k[a] / mu[a] - 1) for a in kept) / 2
    to_mu = sum(max(p - m, 0) for p, m in zip(pi_k, mu, strict=True))
    to_kept = sum(max(pi_k[a] - (mu[a] / total if a in kept else 0), 0) for a in range(len(mu)))
    return np.array([inside, to_mu, to_kept])


def _law_of_the_current(mu: np.ndarray, pi_k: np.ndarray, epsilon: float) -> np.ndarray:
    kept = np.abs(pi_k / mu - 1) <= epsilon
    law = np.where(kept, pi_k, 0) / pi_k[kept].sum()
    return np.array([*_filtered(mu, pi_k, epsilon)[:2], np.abs(pi_k - law).sum() / 2])


def _wrong_filter(mu: np.ndarray, pi_k: np.ndarray, epsilon: float, scale: float, normalised: bool) -> np.ndarray:
    kept = np.abs(pi_k / mu - 1) <= epsilon
    law = np.where(kept, mu, 0) / (mu[kept].sum() if normalised else 1)
    parts = [law @ np.abs(pi_k / mu - 1), np.abs(pi_k - mu).sum(), np.abs(pi_k - law).sum()]
    return scale * np.array(parts)


_TOKENS = ((0.02, 0.4, 0.2), (0.4, 0.02, 0.2), (0.25, 0.25, 0.1), (0.001, 0.002, 0.3))
_SAMPLES = tuple(
    tuple(np.log(np.array(p)) for p in rows)
    for rows in (
        ([0.5, 0.3, 0.02], [0.4, 0.3, 0.04], [0.25, 0.6, 0.01]),
        ([0.9, 0.1], [0.8, 0.2], [0.1, 0.4]),
        ([0.2, 0.2, 0.2, 0.7], [0.1, 0.4, 0.2, 0.6], [0.3, 0.3, 0.3, 0.3]),
    )
)
_BANDITS = (
    (np.array([0.01, 0.49, 0.5]), np.array([50.485, -1.015, -0.015])),
    (np.array([0.7, 0.2, 0.1]), np.array([1.0, -2.0, -3.0])),
    (np.array([0.3, 0.3, 0.4]), np.array([1.0, 0.5, -1.125])),
)
_FILTERS = (
    (np.array([0.6, 0.3, 0.1]), np.array([0.57, 0.05, 0.38]), 0.1),
    (np.array([0.5, 0.25, 0.25]), np.array([0.45, 0.3, 0.25]), 0.15),
    (np.array([0.4, 0.4, 0.2]), np.array([0.42, 0.18, 0.4]), 0.06),
    (np.array([0.5, 0.45, 0.05]), np.array([0.54, 0.42, 0.04]), 0.1),  # two are kept, and one has become rarer
)

EXERCISES: dict[str, Exercise] = {
    "13.0": Exercise(
        cases=((),),
        oracle=lambda: _highest(0.001, 0.004, 0.2).max(),
        misconceptions={
            "this is where PPO stops, which sees nothing of pi_k": lambda: 0.0012,
            "this is where Method 1 stops, at (rho_k + epsilon) mu; one goes on for longer": lambda: 0.0042,
            "this is the ratio; the question is about the probability": lambda: 4.8,
            "this is where the token stands before the update": lambda: 0.004,
        },
        hints=(
            "Put the sign on +1, the ratio before the update on 4, and log10 of mu on -3. Read the sentence.",
            "Method 2 stops at 1.2 times pi_k.",
        ),
    ),
    "13.1": Exercise(
        cases=_TOKENS,
        oracle=_highest,
        tolerance=1e-5,
        misconceptions={
            "these are ratios to mu; multiply by mu": lambda m, k, e: np.array([1 + e, k / m + e, k / m * (1 + e)]),
            "Method 1 adds epsilon to the ratio: epsilon mu to the probability, not epsilon": lambda m, k, e: np.array(
                [m * (1 + e), k + e, k * (1 + e)]
            ),
            "Method 1's reach is epsilon mu, not epsilon pi_k; that is Method 2": lambda m, k, e: np.array(
                [m * (1 + e), k + e * k, k * (1 + e)]
            ),
            "standard PPO clips pi / mu around 1: it stops at mu (1 + epsilon)": lambda m, k, e: np.array(
                [k * (1 + e), k + e * m, k * (1 + e)]
            ),
            "these are the lower ends; a good token is pushed up": lambda m, k, e: np.array(
                [m * (1 - e), k - e * m, k * (1 - e)]
            ),
        },
        hints=(
            "At which ratio to mu does each clip end, above? 1 + epsilon, rho_k + epsilon, rho_k (1 + epsilon).",
            "Multiply each by mu, with rho_k mu = pi_k.",
            "np.array([mu * (1 + epsilon), pi_k + epsilon * mu, pi_k * (1 + epsilon)])",
        ),
    ),
    "13.2": Exercise(
        cases=_SAMPLES,
        oracle=_shift,
        misconceptions={
            "TV is half of that": lambda a, b, c: np.mean(np.abs(np.exp(a - c) - np.exp(b - c))),
            "these are differences of probabilities; a mean over samples of mu needs the ratios to mu": (
                lambda a, b, c: np.mean(np.abs(np.exp(a) - np.exp(b))) / 2
            ),
            "this is the relative change pi / pi_k - 1; its mean needs the weight rho_k": lambda a, b, c: (
                np.mean(np.abs(np.exp(a - b) - 1)) / 2
            ),
            "this is about log-ratios; TV is about ratios": lambda a, b, c: np.mean(np.abs(a - b)) / 2,
            "this is the distance of the new policy to mu; U_k is that to pi_k": lambda a, b, c: (
                np.mean(np.abs(np.exp(a - c) - 1)) / 2
            ),
            "the absolute value belongs inside the mean": lambda a, b, c: (
                abs(np.mean(np.exp(a - c) - np.exp(b - c))) / 2
            ),
        },
        hints=(
            "Make both ratios from the log-probabilities: np.exp(logp_new - logp_mu), and the same with logp_k.",
            "Half the mean of the absolute difference of the two.",
            "np.mean(np.abs(np.exp(logp_new - logp_mu) - np.exp(logp_k - logp_mu))) / 2",
        ),
    ),
    "13.3": Exercise(
        cases=tuple((p, a, e) for p, a in _BANDITS for e in (0.1, 0.2)),
        oracle=_smallest_shift,
        tolerance=1e-5,
        misconceptions={
            "this is what the clip is meant for; its optimum moves more, or just as much": lambda p, a, e: e / 2,
            "the good actions may have to take more than their own share: the bad ones must all go down by epsilon": (
                lambda p, a, e: e * p[a > 0].sum()
            ),
            "the good actions must all go up by epsilon too": lambda p, a, e: e * p[a < 0].sum(),
            "no more than this, but it can be less": lambda p, a, e: e,
            "take the larger of the two: all terms must reach their ceiling": lambda p, a, e: (
                e * min(p[a > 0].sum(), p[a < 0].sum())
            ),
        },
        hints=(
            "At a maximum every good action is up by epsilon at least, and every bad one down by epsilon at least.",
            "What the bad ones lose is what the good ones gain.",
            "epsilon * max(pi_k[advantages > 0].sum(), pi_k[advantages < 0].sum())",
        ),
    ),
    "13.4": Exercise(
        cases=tuple((p, a, s) for p, a in _BANDITS for s in (0.05, 0.15, 0.6)),
        oracle=_best,
        misconceptions={
            "an action cannot give more than it has: some probability is negative": _overdrawn,
            "it pays to take from the worst action first, not from all alike": _spread,
            "TV is half the sum of all changes: what moves may be as much as `shift` itself": lambda p, a, s: _best(
                p, a, s / 2
            ),
            "this takes all there is; only `shift` may move": lambda p, a, s: np.eye(len(p))[np.argmax(a)],
            "this moves twice `shift`: what one action loses another gains, and TV is half the sum of both": (
                lambda p, a, s: _best(p, a, 2 * s)
            ),
            "where the worst action has too little, go on with the next one until `shift` is used up": (
                lambda p, a, s: _taken(p, a, s, order=slice(0, 1))
            ),
            "what has been moved must be taken off `shift`; here each action gives up to `shift` again": (
                lambda p, a, s: _taken(p, a, s, budget=False)
            ),
            "this begins with the second best action; a unit gains most if it leaves the worst one": (
                lambda p, a, s: _taken(p, a, s, order=slice(-2, None, -1))
            ),
            "what is taken must be given to the best action; these probabilities do not sum to 1": (
                lambda p, a, s: _taken(p, a, s, to=np.zeros(len(p)))
            ),
            "all that moves goes to the best action, not to all good ones": _to_the_good,
            "this is a mixture with the best action: it takes from all alike, and moves less than `shift`": (
                lambda p, a, s: p + s * (np.eye(len(p))[np.argmax(a)] - p)
            ),
            "cutting off at 0 and dividing by the sum moves another mass than `shift`": _cut_off,
        },
        hints=(
            "All that moves goes to the best action. From which action does moving it gain most?",
            "Go through the actions from the worst up. Each gives what it has, until `shift` is used up.",
            "for a in np.argsort(advantages)[:-1]: move = min(new[a], shift); new[a] -= move; new[best] += move; "
            "shift -= move",
        ),
    ),
    "13.5": Exercise(
        cases=_FILTERS,
        oracle=_filtered,
        misconceptions={
            "a factor 1/2 is missing in all three": lambda m, k, e: _wrong_filter(m, k, e, 1.0, True),
            "what is kept must be divided by its sum: it is a distribution of its own": lambda m, k, e: _wrong_filter(
                m, k, e, 0.5, False
            ),
            "the first number is epsilon / 2, the bound; asked is the mean": lambda m, k, e: np.array(
                [e / 2, *_filtered(m, k, e)[1:]]
            ),
            "the samples were written by mu: the law of what is kept is mu there, not pi_k, over its sum": (
                _law_of_the_current
            ),
            "the second and the third have changed places": lambda m, k, e: _filtered(m, k, e)[[0, 2, 1]],
        },
        hints=(
            "kept = np.abs(pi_k / mu - 1) <= epsilon; the law of what is kept is mu there, over its sum, else 0.",
            "First number: half the mean of np.abs(pi_k / mu - 1) under that law.",
            "law = kept * mu / mu[kept].sum(); np.array([law @ np.abs(pi_k / mu - 1), np.abs(pi_k - mu).sum(), "
            "np.abs(pi_k - law).sum()]) / 2",
        ),
    ),
    "13.6": Exercise(
        cases=((),),
        oracle=lambda: "acg",
        misconceptions={
            "(b): before the first update the two gradients are equal, sample by sample": lambda: "abcg",
            "(d) is true of all actions, not of those in a batch": lambda: "acdg",
            "(e): the changes allowed are epsilon mu and epsilon pi_k; a token that has become likelier has the larger "
            "one under Method 2": lambda: "aceg",
            "(f): only half the mean of |rho_k - 1| over what is kept is bounded, and that is no distance": lambda: (
                "acfg"
            ),
            "(g) is true: at a maximum every term is at its ceiling, and the larger side has half of the mass": (
                lambda: "ac"
            ),
            "(c) is true: rho_k does not stand in it": lambda: "ag",
        },
        hints=(
            "Three are true.",
            "Look for the words 'all actions', and for what is computed before the first update.",
        ),
    ),
}
