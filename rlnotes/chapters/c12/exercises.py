"""Exercises of chapter 12, what many stale versions cost."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 12.1


def _how_many_times() -> str:
    """By the stored runs: the distance over eight rounds, over that of one."""
    from rlnotes.chapters.c12.readings import times_a_round, times_letter  # only here: it needs torch

    return times_letter(times_a_round("all old").mean())


# --- 12.2

FAR, LARGE, FALLEN = 0.1, 0.05, 19  # the alarms on S and on U; the round whose rollouts are asked for


def _what_rang() -> tuple[int, int, int]:
    """The first rounds with S above ``FAR`` and with U above ``LARGE``, and whose weights wrote those of ``FALLEN``."""
    rows = stored_log("1317").rows()

    def rang(column: str, limit: float) -> int:
        return next(int(row["step"]) for row in rows if row[column] > limit)

    wrote = FALLEN - int(rows[FALLEN - 1]["lag"]) // 8  # two passes over four minibatches
    return rang("staleness", FAR), rang("update_shift", LARGE), wrote


# --- 12.3

_D = np.array([[0.1, 0.3], [0.4, 0.2]])  # versions, states
_POLICIES = np.array([[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], [[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]])
_CURRENT = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]])
_FOUR = (  # two actions up and two down: half of the sum is no longer the largest difference
    np.array([[0.3], [0.7]]),
    np.array([[[0.4, 0.4, 0.1, 0.1]], [[0.1, 0.35, 0.15, 0.4]]]),
    np.full((1, 4), 0.25),
)
_SMALL = (np.array([[0.2], [0.8]]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[0.5, 0.5]]))


def _staleness_by_walking(d: np.ndarray, policies: np.ndarray, current: np.ndarray) -> float:
    """Pair by pair; the TV is what the current policy gives more, action by action."""
    total = 0.0
    for i, s in product(*map(range, d.shape)):
        more = [max(0.0, float(current[s, a] - policies[i, s, a])) for a in range(current.shape[1])]
        total += d[i, s] * sum(more)
    return total


def _tv(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.abs(p - q).sum(-1) / 2


# --- 12.4

_LOGP = np.log(np.random.default_rng(12).uniform(0.05, 0.95, (3, 2, 3))).round(2)  # versions, responses, tokens
WRITERS: dict[str, list[list[int]]] = {
    "whole responses": [[0] * 3, [2] * 3],
    "one change on the way": [[0, 0, 1], [1, 2, 2]],
    "a change and back": [[0, 1, 0], [2, 0, 2]],
    "anew at each token": [[0, 2, 1], [2, 1, 0]],
}


def _by_first(logp, version):
    return logp[version[:, 0], np.arange(len(version))]


def _token_by_token(logp: np.ndarray, version: np.ndarray) -> list[list[float]]:
    """One token after the other."""
    n, T = version.shape
    found = [[0.0] * T for _ in range(n)]
    for i, t in product(range(n), range(T)):
        found[i][t] = float(logp[version[i, t]][i][t])
    return found


def _newest(logp, version):
    return logp[version.max(1), np.arange(len(version))]


def _majority(logp, version):
    most = np.array([np.bincount(row).argmax() for row in version])
    return logp[most, np.arange(len(version))]


def _shares(logp, version):
    return np.stack([(version == i).mean(1) for i in range(len(logp))])[..., None]


# --- 12.5

TOKENS, LEFT, OLD = 4, Fraction(1, 2), Fraction(1, 2)


def _shares_by_walking() -> tuple[float, float]:
    """The share of old tokens, left for good, and drawn anew: by all ways through the tokens of a response."""
    shares = []
    for to_old in (Fraction(0), OLD):  # the chance that a draw gives the old version
        total = Fraction(0)
        for path in product((True, False), repeat=TOKENS):
            chance = OLD if path[0] else 1 - OLD
            for here, then in pairwise(path):
                drawn = LEFT if here or to_old else Fraction(0)  # the current one is left only to draw anew
                stays = 1 - drawn
                chance *= stays * (here == then) + drawn * (to_old if then else 1 - to_old)
            total += chance * sum(path)
        shares.append(float(total / TOKENS))
    return shares[0], shares[1]


# --- 12.6

SAMPLE, LEARN = 10.0, 6.0  # seconds


def _rounds() -> tuple[float, float, float]:
    """The medians to half right answers: fresh data with the clip, old data without and with it."""
    from rlnotes.chapters.c12.readings import CLIPPED, rounds_to_half  # only here: it needs torch
    from rlnotes.studies.contest import UNCLIPPED

    return rounds_to_half("fresh", CLIPPED), rounds_to_half("all old", UNCLIPPED), rounds_to_half("all old", CLIPPED)


def _fresh_unclipped() -> float:
    """The median to half right answers of what the first number of 12.6 is taken for."""
    from rlnotes.chapters.c12.readings import rounds_to_half  # only here: it needs torch
    from rlnotes.studies.contest import UNCLIPPED

    return rounds_to_half("fresh", UNCLIPPED)


def _seconds() -> tuple[float, float]:
    """Until half of the answers are right: waiting, and with a queue."""
    fresh, old, _ = _rounds()
    return fresh * (SAMPLE + LEARN), old * max(SAMPLE, LEARN)


EXERCISES: dict[str, Exercise] = {
    "12.1": Exercise(
        cases=((),),
        oracle=_how_many_times,
        misconceptions={
            "eight rounds would go eight times as far if all went the same way. Some undo what others did": lambda: "a",
            "the policy would have to come back in every second round": lambda: "c",
        },
        hints=("By the triangle inequality S is at most the sum of the eight U. When is it less?",),
    ),
    "12.2": Exercise(
        cases=((),),
        oracle=_what_rang,
        misconceptions={
            "first the alarm on S, then that on U": (2, 6, ...),
            "the first number: that is where S is above 0.1 again. It was before": (20, ..., ...),
            "the second number: that is where U is above 0.05 again. It was before": (..., 15, ...),
            "the third number: the rollouts are 32 updates old, and a round of this run has 8 of them": (..., ..., 11),
            "the third number: the rollouts of a round are older than it": (..., ..., 23),
            "the third number: those weights came after the rollouts were written": (..., ..., 19),
            "the third number is one too small: 32 updates are four rounds": (..., ..., 14),
            "the third number is one too large: 32 updates are four rounds": (..., ..., 16),
            "the third number is a round: count 32 updates back, at 8 a round": (..., ..., 32),
        },
        hints=("Go down to the first number above the limit. How many rounds are 32 updates, at 8 a round?",),
    ),
    "12.3": Exercise(
        cases=(_SMALL, (_D, _POLICIES, _CURRENT), _FOUR),
        oracle=_staleness_by_walking,
        misconceptions={
            "total variation is half of the sum of absolute differences": lambda d, p, c: (
                2 * _staleness_by_walking(d, p, c)
            ),
            "that is the largest difference of one action. Where several gain, half of the sum is more": (
                lambda d, p, c: (d * np.abs(np.asarray(p) - np.asarray(c)).max(-1)).sum()
            ),
            "this is the distance to the average policy; errors in opposite directions hide in it": lambda d, p, c: (
                d.sum(0) * _tv(np.einsum("is,isa->sa", d, np.asarray(p)) / d.sum(0)[:, None], np.asarray(c))
            ).sum(),
            "every pair of state and version counts equally here; weigh with d": lambda d, p, c: _tv(
                np.asarray(p), np.asarray(c)
            ).mean(),
            "this is the largest distance; S is a mean": lambda d, p, c: _tv(np.asarray(p), np.asarray(c)).max(),
            "state and version are taken to be independent: d[i, s] is not d[i] times d[s]": lambda d, p, c: (
                np.outer(d.sum(1), d.sum(0)) * _tv(np.asarray(p), np.asarray(c))
            ).sum(),
        },
        hints=("A distance for each state and each version first, of shape (versions, states). Then the mean by d.",),
    ),
    "12.4": Exercise(
        cases=tuple((_LOGP, np.array(writers)) for writers in WRITERS.values()),
        probes=tuple(WRITERS),
        oracle=_token_by_token,
        given=_by_first,
        misconceptions={
            "one number for each token is wanted, of shape (responses, tokens). An index for the versions alone takes "
            "all responses for each of them": lambda logp, version: logp[version],
            "that takes the newest version of each response for all of its tokens": _newest,
            "that takes for all tokens the version that wrote the last one": lambda logp, version: logp[
                version[:, -1], np.arange(len(version))
            ],
            "that takes for all tokens the version that wrote most of them": _majority,
            "that is the log-probability of an average policy. Nobody sampled from it": lambda logp, version: np.log(
                (np.exp(logp) * _shares(logp, version)).sum(0)
            ),
            "that is a mean of log-probabilities by the shares of the versions. One version wrote each token": (
                lambda logp, version: (logp * _shares(logp, version)).sum(0)
            ),
            "that takes for each token the version that gives it most. It need not be the one that wrote": (
                lambda logp, version: logp.max(0)
            ),
            "that takes the mean of all versions. One version wrote each token": lambda logp, version: logp.mean(0),
            "these are probabilities; their logarithms are asked for": lambda logp, version: np.exp(
                np.take_along_axis(logp, version[None], 0)[0]
            ),
        },
        hints=("Which version wrote token t of response i? It stands in version[i, t].",),
    ),
    "12.5": Exercise(
        cases=((),),
        oracle=_shares_by_walking,
        misconceptions={
            "first for good, then drawn anew": (0.5, 0.234375),
            "the first number: only half of the responses begin old": (0.46875, ...),
            "the first number: the first token of a response is before any change": (0.1171875, ...),
            "the first number: that is the share of responses whose last token is old. Take the mean over tokens": (
                0.0625,
                ...,
            ),
            "the first number: that is the share at the start. Some old versions are left on the way": (0.5, ...),
            "the second number: a draw may give the old version again, to responses that began fresh, too": (
                0.234375,
                0.234375,
            ),
            "the second number: a draw may give the current version, too": (..., 1.0),
            "the second number: 0.75 is the chance that an old token is followed by an old one": (..., 0.75),
            "the second number: draws take old versions away, too. The two shares do not add up": (..., 0.734375),
            "the second number: responses that began fresh may be given the old version": (..., 0.341796875),
            "the second number: a draw gives the old version as often as it takes it away. What is left of half?": (
                0.234375,
                ...,
            ),
        },
        hints=("The chance that token t is old, for t from 0 to 3; then their mean.",),
        tolerance=6e-3,
    ),
    "12.6": Exercise(
        cases=((),),
        oracle=_seconds,
        misconceptions={
            "first waiting, then with a queue": lambda: _seconds()[::-1],
            "the first number: a learner that waits samples and learns one after the other": lambda: (
                _rounds()[0] * SAMPLE,
                ...,
            ),
            "the second number: the slower of the two sets the pace, and that is sampling": lambda: (
                ...,
                _rounds()[1] * LEARN,
            ),
            "the second number: with a queue both run at once": lambda: (..., _rounds()[1] * (SAMPLE + LEARN)),
            "the second number: those are the rounds of the clip; unclipped was there sooner": lambda: (
                ...,
                _rounds()[2] * SAMPLE,
            ),
            "the second number: those are the rounds of the clip on fresh data": lambda: (..., _rounds()[0] * SAMPLE),
            "the second number: a last round of learning is in it, which is fair. Asked is the pace: rounds times the "
            "slower of the two": lambda: (..., _rounds()[1] * SAMPLE + LEARN),
            "the second number: those are the rounds of unclipped on fresh data": lambda: (
                ...,
                _fresh_unclipped() * SAMPLE,
            ),
            "the first number: those are the rounds of unclipped on fresh data; the clip was there sooner": lambda: (
                _fresh_unclipped() * (SAMPLE + LEARN),
                ...,
            ),
        },
        hints=("The column rounds to 0.5, times the seconds of a round: 10 + 6, or the larger of the two.",),
    ),
}
