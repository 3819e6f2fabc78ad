"""Exercises of chapter 18, from tiny to real."""

import numpy as np
from scipy import stats

from rlnotes.notebook.exercise import Exercise


def _which_log() -> tuple[str, str, str]:
    """By the mismatch at the first step, and by where the reward ends."""
    from rlnotes.chapters.c18.readings import LOGS, log_of  # only here: it reads logs

    rows = {letter: log_of(letter).rows() for letter in LOGS}
    worst = min(LOGS, key=lambda letter: rows[letter][-1]["reward"])
    return worst, next(name for name in ("mismatch",) if rows[worst][0][name] > 0.01), "c"


LOW, HIGH = 0.8, 1.28  # of exercise 18.3


def kept_around_mu(logp, logp_mu, logp_k, A):
    """What the exercise gives."""
    ratio = np.exp(logp - logp_mu)
    return ~((A > 0) & (ratio > HIGH) | (A < 0) & (ratio < LOW))


def _kept_one_by_one(logp, logp_mu, logp_k, A) -> np.ndarray:
    """Token by token, in probabilities."""
    found = []
    for now, before, advantage in zip(np.exp(logp), np.exp(logp_k), A, strict=True):
        too_high, too_low = now > HIGH * before, now < LOW * before
        found.append(not (too_high if advantage > 0 else too_low))
    return np.array(found)


def _kept_where_both(logp, logp_mu, logp_k, A):
    return kept_around_mu(logp, logp_mu, logp_k, A) & kept_around_mu(logp, logp_k, logp_k, A)


def _kept_between(logp, logp_mu, logp_k, A):
    return kept_around_mu(logp, (logp_mu + logp_k) / 2, logp_k, A)


def _kept_by_correction(logp, logp_mu, logp_k, A):
    return kept_around_mu(logp_k, logp_mu, logp_k, A)


def _kept_near_mu(logp, logp_mu, logp_k, A):
    return np.sign(A) * (np.exp(logp) - np.exp(logp_mu)) <= 0.15


def _kept_two_sided(logp, logp_mu, logp_k, A):
    ratio = np.exp(logp - logp_k)
    return (ratio >= LOW) & (ratio <= HIGH)


def _kept_dual(logp, logp_mu, logp_k, A):
    return _kept_one_by_one(logp, logp_mu, logp_k, A) & ~((A < 0) & (np.exp(logp - logp_k) > 3))


def _kept_narrower(logp, logp_mu, logp_k, A):
    ratio = np.exp(logp - logp_k)
    return ~((A > 0) & (ratio > 1.2) | (A < 0) & (ratio < LOW))


def _kept_upside_down(logp, logp_mu, logp_k, A):
    return kept_around_mu(logp_k, logp, logp_k, A)


def _tokens(pi: list[float], mu: list[float], pi_k: list[float], A: list[float]) -> tuple[np.ndarray, ...]:
    return (*(np.log(each) for each in (pi, mu, pi_k)), np.array(A))


PROBES = {
    "before the first update, sampler off": _tokens([0.5, 0.5, 0.5], [0.2, 0.9, 0.5], [0.5, 0.5, 0.5], [1, -1, 1]),
    "before the first update, sampler a little off": _tokens([0.5, 0.5], [0.35, 0.65], [0.5, 0.5], [1, -1]),
    "sampler exact, pushed too far": _tokens([0.6, 0.2], [0.4, 0.4], [0.4, 0.4], [1, -1]),
    "sampler exact, pushed the other way": _tokens([0.6, 0.2], [0.4, 0.4], [0.4, 0.4], [-1, 1]),
    "pi back at mu, far from pi_k": _tokens([0.4, 0.4], [0.4, 0.4], [0.2, 0.8], [1, -1]),
    "between the ends": _tokens([0.24, 0.17], [0.1, 0.4], [0.2, 0.2], [1, -1]),
    "just inside a limit, just outside": _tokens([0.254, 0.258, 0.158, 0.162], [0.2] * 4, [0.2] * 4, [1, 1, -1, -1]),
    "bad, and far above pi_k": _tokens([0.6, 0.9], [0.1, 0.02], [0.1, 0.02], [-1, -1]),
}

STEP, RATE, UPDATES = 0.02, 1e-5, 8  # of exercise 18.4


def _rounds_and_share() -> tuple[int, float]:
    """By walking: a weight in the middle of its cell, and a hundred thousand spread evenly over theirs."""
    walked, updates = 0.0, 0
    while walked < STEP / 2 - 1e-12:
        walked, updates = walked + RATE, updates + 1
    places = (np.arange(100_000) + 0.5) / 100_000 * STEP
    return -(-updates // UPDATES), float(np.mean(places + UPDATES * RATE >= STEP))


MEAN, SPREAD = 0.10, 0.06  # of exercise 18.5


def _word_and_seeds() -> tuple[str, int]:
    """By the intervals themselves."""

    def half(n: int) -> float:
        return float(stats.t.isf(0.025, n - 1)) * SPREAD / n**0.5

    return ("not told" if half(3) > MEAN else "better"), next(n for n in range(2, 30) if half(n) < MEAN)


EXERCISES: dict[str, Exercise] = {
    "18.1": Exercise(
        cases=((),),
        oracle=lambda: "b",
        misconceptions={
            "so it is with the real model. Here the copy is 0.001 off at first, and not 0.07: few tokens are outside "
            "of the limit before an update has moved anything": lambda: "a",
            "it could have been, and something is lost on this seed: 0.86 in place of 0.94. But no more": lambda: "c",
        },
        hints=("How far from the trainer is the copy, before any update? Look at the mismatch of the two models.",),
    ),
    "18.2": Exercise(
        cases=((),),
        oracle=_which_log,
        misconceptions={
            "A's reward rises to 0.85 and stays there": ("A", ..., ...),
            "the run by its letter: A is log caea, B log 629c": ("629c", ..., ...),
            "the run is right. Truncation tells little: it is high in A, too, at first, and other runs of this model "
            "end well with all responses cut off, for they answer first and then chat on": ("B", "truncated", ...),
            "the run is right. The reward says that something is wrong, and not what; at the first step it is near 0 "
            "in both": ("B", "reward", ...),
            "the run is right. The loss is near 0 in both, as it must be with centred advantages": ("B", "loss", ...),
            "the run is right. This column shows the harm, a limit that stops many tokens. At the first step "
            "no response is right, no token has an advantage, and it must be 0. Another is far from 0 from there on": (
                "B",
                "no_gradient",
                ...,
            ),
            "run and column are right. A longer limit would help if right answers stood behind the cut. In A they fit "
            "into the same 16 tokens": ("B", "mismatch", "a"),
            "run and column are right. At a rate that is too large the reward falls; this one never rose, and the "
            "mismatch is there before any update": ("B", "mismatch", "b"),
            "run and column are right. A reward that is paid for something else would rise": ("B", "mismatch", "d"),
            "three things, in quotes: the run, the column, the letter": ("B", "c", "mismatch"),
        },
        hints=("Compare the first rows of both logs, before any update has been made.",),
    ),
    "18.3": Exercise(
        cases=tuple(PROBES.values()),
        probes=tuple(PROBES),
        oracle=_kept_one_by_one,
        given=kept_around_mu,
        misconceptions={
            "a token must now be inside both: the limit at mu still stops tokens before any update": _kept_where_both,
            "halfway between mu and pi_k is still off the centre: a sampler that is far away stops tokens before any "
            "update": _kept_between,
            "that is DPPO's mask, a distance from mu: it, too, stops tokens before any update": _kept_near_mu,
            "pi_k / mu does not change with the updates, so that this never stops a token that is pushed too far": (
                _kept_by_correction
            ),
            "a token is stopped on either side: one that has gone too far may still be pushed back": _kept_two_sided,
            "upside down: this stops tokens that are pushed back, and lets the others run": _kept_upside_down,
            "a dual clip besides: a bad token that has risen far is pushed back, and keeps its gradient": _kept_dual,
            "the centre is right, a limit is not: keep 0.8 and 1.28, as given": _kept_narrower,
            "none of these tokens is stopped: 0.8 to 1.28 around the right centre stops some": lambda logp, *_: np.ones(
                logp.shape, dtype=bool
            ),
        },
        hints=("Before the first update of a rollout no token should be stopped. Which policy is equal to pi then?",),
    ),
    "18.4": Exercise(
        cases=((),),
        oracle=_rounds_and_share,
        misconceptions={
            "the first number: from the middle of a cell it is half a cell to its end": (250, ...),
            "the first number: that is updates; a round has eight": (1000, ...),
            "the second number is right. The first: half a cell, by eight times the rate": (..., 0.004),
            "the first number is right. The second: that is one update; a round has eight": (125, 0.0005),
            "the first number is right. The second: a whole cell, not half of one, is where the weights lie": (
                125,
                0.008,
            ),
            "the first number is right. The second is a share: 0.4 % is 0.004": (125, 0.4),
            "the first number is right. The second as a number, without quotes: 0.4 % is 0.004": (
                125,
                "0.4 %",
            ),
            "the first number is right. The second is the width of the strip from which a weight gets out, as a "
            "share of the cell": (125, ...),
        },
        hints=("How far does a weight walk in a round? Compare that with half a cell, and with a whole one.",),
        tolerance=1e-4,
    ),
    "18.5": Exercise(
        cases=((),),
        oracle=_word_and_seeds,
        misconceptions={
            "the word: 0.10 is less than what the interval has on either side, 4.30 times 0.06 divided by the root of "
            "3": ("better", ...),
            "the word: *within* needs a margin, and an interval inside it": ("within", ...),
            "the word: the mean is above 0, and *worse* needs a whole interval below": ("worse", ...),
            "the word is right. With three seeds it is not told; more are needed": ("not told", 3),
            "the word is right. The number is of all seeds, not of those to add": ("not told", 1),
            "the word is right. Five are enough, and fewer, too: the factor falls fast": ("not told", 5),
            "the word is right. The number as a number, without quotes": ("not told", "4"),
            "the word is right. Compute the half width for each number of seeds: which is the first below 0.10?": (
                "not told",
                ...,
            ),
            "the word in quotes first, then the number": (..., "not told"),
        },
        hints=("Half the interval is the factor times 0.06, divided by the root of the number of seeds.",),
    ),
}
