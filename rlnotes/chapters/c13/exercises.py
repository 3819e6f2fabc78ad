"""Exercises of chapter 13, clipping under staleness."""

from collections.abc import Callable

import numpy as np

from rlnotes.exact.constrained_update import StaleData
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 13.1


def _shut_one_round_behind() -> str:
    """By the stored runs whose data are one round old."""
    from rlnotes.chapters.c13.readings import shut, shut_letter  # only here: it needs torch

    return shut_letter(shut("at mu, one round").mean())


# --- 13.2

_RETREAT = StaleData(
    weights=np.ones((1, 1)),
    behaviors=np.array([[[0.5, 0.5]]]),
    current=np.array([[0.8, 0.2]]),
    advantages=np.array([[[1.0, -1.0]]]),
)
_BACK = np.array([[0.6, 0.4]])


def _changes() -> tuple[float, float, float]:
    """Of L, of the clip at mu, and of the one at pi_k, times, from pi_k to the new policy."""

    def change(of: Callable[[np.ndarray], float]) -> float:
        return of(_BACK) - of(_RETREAT.current)

    at_mu = change(lambda pi: _RETREAT.clipped("ppo", 0.2, pi))
    times = change(lambda pi: _RETREAT.clipped("method 2", 0.2, pi))
    return change(_RETREAT.surrogate), at_mu, times


# --- 13.3

_OLD = np.log([[0.2, 0.4, 0.4, 0.05], [0.5, 0.1, 0.3, 0.6]])  # mu
_BEFORE = np.log([[0.6, 0.2, 0.4, 0.2], [0.4, 0.3, 0.3, 0.5]])  # pi_k
_NOW = np.log([[0.66, 0.15, 0.5, 0.18], [0.36, 0.4, 0.2, 0.65]])
_SIGNS = np.array([[1.0, -1.0, 0.5, 2.0], [-0.5, -2.0, 1.0, -1.0]])
BATCHES: dict[str, tuple[np.ndarray, ...]] = {
    "fresh data": (_NOW, _BEFORE, _BEFORE, _SIGNS),
    "old data, before the first step": (_BEFORE, _BEFORE, _OLD, _SIGNS),
    "old data, after some steps": (_NOW, _BEFORE, _OLD, _SIGNS),
}


def _token_by_token(logp: np.ndarray, logp_k: np.ndarray, logp_mu: np.ndarray, A: np.ndarray) -> float:
    """The ratio to who wrote, and a band around what it was before the round."""
    terms = []
    for now, before, old, a in zip(*(x.ravel().tolist() for x in (logp, logp_k, logp_mu, A)), strict=True):
        r, r_k = np.exp(now - old), np.exp(before - old)
        terms.append(min(r * a, min(max(r, 0.8 * r_k), 1.2 * r_k) * a))
    return -float(np.mean(terms))


def _no_weight(logp, logp_k, logp_mu, A):
    r = np.exp(logp - logp_k)
    return -np.minimum(r * A, np.clip(r, 0.8, 1.2) * A).mean()


def _weighted(
    logp: np.ndarray,
    logp_k: np.ndarray,
    A: np.ndarray,
    weight: np.ndarray,
    low: np.ndarray | float = 0.8,
    high: np.ndarray | float = 1.2,
) -> float:
    r = np.exp(logp - logp_k)
    return -float((weight * np.minimum(r * A, np.clip(r, low, high) * A)).mean())


def _inside(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_k), np.exp(logp_k - logp_mu)
    return -np.minimum(w * r * A, np.clip(w * r, 0.8, 1.2) * A).mean()


def _plus(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_mu), np.exp(logp_k - logp_mu)
    return -np.minimum(r * A, np.clip(r, w - 0.2, w + 0.2) * A).mean()


def _one_branch(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_k), np.exp(logp_k - logp_mu)
    return -np.minimum(w * r * A, np.clip(r, 0.8, 1.2) * A).mean()


# --- 13.4


def _what_the_log_says() -> tuple[str, str, int]:
    """The centre, the kind of mu, and the first step at which no token has an advantage."""
    rows = stored_log("6f5e").rows()
    at_mu = rows[0]["no_gradient"] > 0  # one update to a rollout: around pi_k every ratio is 1
    other = rows[0]["mismatch"] > 0  # no weights are older than those of the start
    silent = next(int(row["step"]) for row in rows if row["wasted_groups"] == 1)
    return "mu" if at_mu else "pi_k", "other" if other else "old", silent


# --- 13.5


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
    before = pi_k / mu
    return np.array(
        [
            _last_rise(lambda pi: min(pi / mu, np.clip(pi / mu, 1 - epsilon, 1 + epsilon))),
            _last_rise(lambda pi: min(pi / mu, np.clip(pi / mu, before - epsilon, before + epsilon))),
            _last_rise(lambda pi: min(pi / pi_k * before, np.clip(pi / pi_k, 1 - epsilon, 1 + epsilon) * before)),
        ]
    )


_TOKENS = ((0.02, 0.4, 0.2), (0.4, 0.02, 0.2), (0.25, 0.25, 0.1), (0.001, 0.002, 0.3))


# --- 13.6


def _milliseconds(task: str = "misled lag 8") -> tuple[float, float]:
    """Until half of the answers are right, at mu and at pi_k, times."""
    from rlnotes.chapters.c13.readings import AT_MU, TIMES, milliseconds, rounds_to_half  # only here: it needs torch

    at_mu, times = (rounds_to_half(task, arm) * milliseconds(arm) for arm in (AT_MU, TIMES))
    return at_mu, times


def _rounds(i: int) -> float:
    from rlnotes.chapters.c13.readings import AT_MU, TIMES, rounds_to_half  # only here: it needs torch

    return rounds_to_half("misled lag 8", (AT_MU, TIMES)[i])


def _at_the_price(i: int, of: int) -> float:
    """The rounds of one arm at the price of another."""
    from rlnotes.chapters.c13.readings import AT_MU, TIMES, milliseconds  # only here: it needs torch

    return _rounds(i) * milliseconds((AT_MU, TIMES)[of])


EXERCISES: dict[str, Exercise] = {
    "13.1": Exercise(
        cases=((),),
        oracle=_shut_one_round_behind,
        misconceptions={
            "one round is four updates: enough to carry a rare good token far above 1.2": lambda: "a",
            "less than half: with data one round old most of what was learnt is recent": lambda: "c",
        },
        hints=("In how many updates did the ratios leave the band on fresh data?",),
    ),
    "13.2": Exercise(
        cases=((),),
        oracle=_changes,
        tolerance=5e-3,
        misconceptions={
            "the first number: L is a mean over mu of ratio times A, so the sum of pi times A": (0.4, ..., ...),
            "the first number: those are the values at the new policy; asked are changes": (0.2, ..., ...),
            "the second number: at pi_k the good token stands at 1.6, and its term counts 1.2 there": (..., -0.4, ...),
            "the second number: that is the value, before and after; asked is the change": (..., 0.2, ...),
            "the third number: around pi_k no term is clipped before the step, and L falls": (..., ..., 0.0),
            "the third number: a minimum takes the worse branch. The bad token has gone up, so it counts in full": (
                ...,
                ...,
                -0.24,
            ),
            "the third number: that is the value at the new policy; asked is the change": (..., ..., 0.2),
        },
        hints=(
            "Four terms: each token at pi_k and at the new policy, each with chance 1/2. The minimum is the worse.",
        ),
    ),
    "13.3": Exercise(
        cases=tuple(BATCHES.values()),
        probes=tuple(BATCHES),
        oracle=_token_by_token,
        given=_no_weight,
        misconceptions={
            "this is the clip at mu: the weight has slipped into the band. Multiply what the minimum gives": _inside,
            "both branches of the minimum need the weight": _one_branch,
            "that is the weight upside down: the samples are mu's": lambda n, k, m, a: _weighted(
                n, k, a, np.exp(m - k)
            ),
            "the weight is there twice": lambda n, k, m, a: _weighted(n, k, a, np.exp(2 * (k - m))),
            "pi / mu is the whole ratio; beside pi / pi_k stands only what is missing, pi_k / mu": (
                lambda n, k, m, a: _weighted(n, k, a, np.exp(n - m))
            ),
            "weights that are divided by their mean change the size of each batch; not asked": lambda n, k, m, a: (
                _weighted(n, k, a, np.exp(k - m) / np.exp(k - m).mean())
            ),
            "a weight that is cut at 2 is another loss, `decoupled`": lambda n, k, m, a: _weighted(
                n, k, a, np.minimum(np.exp(k - m), 2)
            ),
            "this is `plus`; asked is `times`": _plus,
            "the log-ratio is no weight: take its exponential": lambda n, k, m, a: _weighted(n, k, a, k - m),
            "no clip is left": lambda n, k, m, a: -float((np.exp(n - m) * a).mean()),
            "a loss is what is made small: the sign is turned": lambda n, k, m, a: -_token_by_token(n, k, m, a),
            "a mean over tokens was given; this is their sum": lambda n, k, m, a: (
                _token_by_token(n, k, m, a) * np.size(a)
            ),
        },
        hints=("The mean runs over tokens that mu wrote. Which factor makes a mean over mu one over pi_k?",),
    ),
    "13.4": Exercise(
        cases=((),),
        oracle=_what_the_log_says,
        misconceptions={
            "first the centre: at the only update of a rollout every ratio to pi_k is 1: nothing would be stopped": (
                "pi_k",
                ...,
                ...,
            ),
            "the second: at step 1 no weights are older than those that are trained. Yet the two differ": (
                ...,
                "old",
                ...,
            ),
            "the third: at that step single groups still have unequal rewards": (..., ..., 6),
            "the third: it read 0 before. Look for the first one": (..., ..., 8),
            "the third: the number falls to 0 without any change of the clip. When, and why?": (..., ..., 1),
            "the third: that is the end; it reads 0 long before": (..., ..., 30),
        },
        hints=("What would no_gradient read around pi_k? And what do wasted_groups say where it turns 0?",),
    ),
    "13.5": Exercise(
        cases=_TOKENS,
        oracle=_highest,
        tolerance=1e-5,
        misconceptions={
            "these are ratios to mu; multiply by mu": lambda m, k, e: np.array([1 + e, k / m + e, k / m * (1 + e)]),
            "`plus` adds epsilon to the ratio: epsilon mu to the probability, not epsilon": lambda m, k, e: np.array(
                [m * (1 + e), k + e, k * (1 + e)]
            ),
            "the reach of `plus` is epsilon mu, not epsilon pi_k; that is `times`": lambda m, k, e: np.array(
                [m * (1 + e), k + e * k, k * (1 + e)]
            ),
            "the clip at mu stops at mu (1 + epsilon), wherever pi_k is": lambda m, k, e: np.array(
                [k * (1 + e), k + e * m, k * (1 + e)]
            ),
            "the clip at mu is not opened by pi_k: it may end below it": lambda m, k, e: np.array(
                [max(k, m * (1 + e)), k + e * m, k * (1 + e)]
            ),
            "these are the lower ends; a good token is pushed up": lambda m, k, e: np.array(
                [m * (1 - e), k - e * m, k * (1 - e)]
            ),
            "`plus` and `times` have changed places": lambda m, k, e: np.array([m * (1 + e), k * (1 + e), k + e * m]),
        },
        hints=(
            "At which ratio to mu does each band end, above? Then multiply by mu; the ratio before times mu is pi_k.",
        ),
    ),
    "13.6": Exercise(
        cases=((),),
        oracle=_milliseconds,
        tolerance=0.008,
        misconceptions={
            "first at mu, then at pi_k, times": lambda: _milliseconds()[::-1],
            "those are rounds; each costs milliseconds": lambda: (_rounds(0), _rounds(1)),
            "those are the rounds of data that are 8 rounds old": lambda: _milliseconds("misled lag 32"),
            "the second number: at pi_k there is one more pass in each round": lambda: (..., _at_the_price(1, 0)),
            "the first number: at mu there is no further pass": lambda: (_at_the_price(0, 1), ...),
        },
        hints=("Rounds to 0.5 from the table of the contest, 2 rounds old, times the milliseconds of a round.",),
    ),
}
