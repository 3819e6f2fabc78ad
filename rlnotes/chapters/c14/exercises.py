"""Exercises of chapter 14, trust region masking."""

import math

import numpy as np

from rlnotes.exact.token_families import parity
from rlnotes.exact.token_surrogates import error, surrogate
from rlnotes.exact.tokens import improvement
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 14.1


def _how_often() -> str:
    """By the stored run that the loop is, behind four bits at the largest rate: its first twelve rounds."""
    from rlnotes.chapters.c14.readings import arm, letter  # only here: it needs torch

    rows = [row for row in arm("four bits", 8e-4) if row["seed"] == 0 and row["round"] <= 12]
    return letter(sum(row["R log w"] > 0 for row in rows))


# --- 14.2


def _which_log() -> tuple[str, str, int]:
    """That whose mask drops most where the two policies agree, what says so, and when nearly all is dropped."""
    logs = {"A": stored_log("1c47"), "B": stored_log("29eb")}
    narrow = min(logs, key=lambda name: logs[name].rows()[0]["mismatch"])
    return narrow, "mismatch", logs[narrow].first("no_gradient", above=0.9)


# --- 14.3

_LOG_R = np.array([[0.2, -0.1, 0.3], [-0.4, 0.9, 7.0], [-0.8, -1.1, 0.1], [0.6, 5.0, 5.0]])
_OWN = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]]) > 0
BATCHES: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {
    "all kept": (_LOG_R, _OWN, np.array([1.0, 0.5, 0.2, 0.0]), np.array([True] * 4)),
    "a right response dropped": (_LOG_R, _OWN, np.array([1.0, 1.0, 0.2, 0.7]), np.array([True, False, True, True])),
    "a wrong response dropped": (_LOG_R, _OWN, np.array([1.0, 0.0, 1.0, 0.3]), np.array([True, False, True, True])),
    "several dropped": (_LOG_R, _OWN, np.array([0.4, 0.9, 1.0, 0.6]), np.array([False, True, False, False])),
}


def _as_given(log_r, own, reward, kept):
    log_w = np.where(own, log_r, 0).sum(1)
    return np.mean(kept * reward * log_w)


def _promise_by_walking(log_r: np.ndarray, own: np.ndarray, reward: np.ndarray, kept: np.ndarray) -> float:
    """Response by response: its part of L less its k3 where it is kept, the reward where not."""
    total = 0.0
    for row, inside, gain, keep in zip(log_r, own, reward, kept, strict=True):
        ratios = [math.exp(x) for x, real in zip(row, inside, strict=True) if real]
        part = sum(r - 1 for r in ratios) - sum(r - 1 - math.log(r) for r in ratios)
        total += gain * (part if keep else -1)
    return total / len(reward)


def _log_w(log_r: np.ndarray, own: np.ndarray) -> np.ndarray:
    return np.where(own, log_r, 0).sum(1)


# --- 14.4


def _surrogate_and_error() -> tuple[float, float]:
    case = parity(2, 0.3, 0.1)
    return surrogate(*case), error(*case)


def _change() -> float:
    return improvement(*parity(2, 0.3, 0.1))


# --- 14.5

RARE, SURE, OUT = 0.0068, 0.95, 1 / 500


def _first(chance: float, missed: float) -> int:
    """The first n with (1 - chance)^n at most ``missed``, by trying one after another."""
    left, n = 1.0, 0
    while left > missed:
        left *= 1 - chance
        n += 1
    return n


EXERCISES: dict[str, Exercise] = {
    "14.1": Exercise(
        cases=((),),
        oracle=_how_often,
        misconceptions={
            "that is so for L - D_seq, which takes off the KL of all responses. R log w counts rewarded ones only": (
                lambda: "a"
            ),
            "it refuses where J falls, and that is rare even here": lambda: "b",
        },
        hints=("What does R log w take off for a response without a reward? And how many have one at the start?",),
    ),
    "14.2": Exercise(
        cases=((),),
        oracle=_which_log,
        misconceptions={
            "A drops more at first, and has a reason: its two policies differ. See what becomes of both columns": (
                "A",
                ...,
                ...,
            ),
            "the run is right. But no_gradient in row 1 is higher in the healthy run: which column says that B has no "
            "reason to drop anything?": ("B", "no_gradient", ...),
            "the run is right. But the reward of row 1 says nothing of the mask; A's is even lower": (
                "B",
                "reward",
                ...,
            ),
            "run and column are right. At step 10 no_gradient is still below 0.9": ("B", "mismatch", 10),
            "run and column are right. At step 12 it is above 0.9, but it was before": ("B", "mismatch", 12),
            "run and column are right. That is where it is nearly 1; asked is 0.9": ("B", "mismatch", 13),
        },
        hints=("A mask should drop where the two policies differ. In which run does it drop where they agree?",),
    ),
    "14.3": Exercise(
        cases=tuple(BATCHES.values()),
        probes=tuple(BATCHES),
        oracle=_promise_by_walking,
        given=_as_given,
        misconceptions={
            "that is the mean over kept responses. It forgets what the dropped ones may lose, and who is counted": (
                lambda x, own, r, k: (r * _log_w(x, own))[k].mean()
            ),
            "the mean is over all responses, kept or not": lambda x, own, r, k: (
                np.sum(r * np.where(k, _log_w(x, own), -1)) / k.sum()
            ),
            "a dropped response costs its own reward, not 1": lambda x, own, r, k: np.mean(
                np.where(k, r * _log_w(x, own), -1)
            ),
            "this has no mask at all: a dropped response counts by its log w": lambda x, own, r, k: np.mean(
                r * _log_w(x, own)
            ),
            "that is the promise of the best mask. Here the mask is given": lambda x, own, r, k: np.mean(
                r * np.maximum(_log_w(x, own), -1)
            ),
            "with w - 1 in place of log w it is a lower bound, too, and a higher one. But from a batch it has the "
            "tail; Theorem 14.18 has log w": lambda x, own, r, k: np.mean(
                r * np.where(k, np.expm1(_log_w(x, own)), -1)
            ),
            "what stands after the end of a response is no token of it: keep np.where(own, ...)": lambda x, own, r, k: (
                np.mean(r * np.where(k, x.sum(1), -1))
            ),
            "L of the kept ones less what is dropped: the k3 of the kept ones is missing": lambda x, own, r, k: np.mean(
                r * np.where(k, np.where(own, np.expm1(x), 0).sum(1), -1)
            ),
            "kept and dropped have changed places": lambda x, own, r, k: np.mean(r * np.where(k, -1, _log_w(x, own))),
        },
        hints=("What is the least that w - 1 can be, if one has not looked? Weigh it with the response's reward.",),
    ),
    "14.4": Exercise(
        cases=((),),
        oracle=_surrogate_and_error,
        misconceptions={
            "L is right, and so is the size of Error. L promises more than comes, so Error is negative": lambda: (
                _surrogate_and_error()[0],
                -_surrogate_and_error()[1],
            ),
            "that is the change of J in place of L. L adds what each bit would do alone": lambda: (_change(), ...),
            "L is that of one bit only; it is a sum over both": lambda: (_surrogate_and_error()[0] / 2, ...),
            "L is right. The second number is the change of J; Error is what L leaves out of it": lambda: (
                _surrogate_and_error()[0],
                _change(),
            ),
            "L is right. Two of the four responses have reward 1, and each gives -0.01": lambda: (
                _surrogate_and_error()[0],
                _surrogate_and_error()[1] / 2,
            ),
            "first L, then Error": lambda: _surrogate_and_error()[::-1],
        },
        hints=("Compute J(mu) and J(pi) first. Then L: move one bit, leave the other to mu, and add both.",),
    ),
    "14.5": Exercise(
        cases=((),),
        oracle=lambda: (_first(RARE, 1 - SURE), _first(OUT, 0.5)),
        misconceptions={
            "the first number: round up, 439 are a little too few": lambda: (439, ...),
            "the first number: after 1 / 0.0068 responses it has been seen with a chance of about 63 % only": lambda: (
                math.ceil(1 / RARE),
                ...,
            ),
            "the first number: chances of seeing it do not add up; chances of missing it multiply": lambda: (
                math.ceil(SURE / RARE),
                ...,
            ),
            "the first number: with so many it is still missed with a chance of 95 %": lambda: (
                _first(RARE, SURE),
                ...,
            ),
            "the second number: round up, at 346 a little more than half is kept": lambda: (..., 346),
            "the second number: chances of being out do not add up": lambda: (..., round(0.5 / OUT)),
            "the second number: after 500 tokens one is out in the mean, and 37 % are kept": lambda: (..., 500),
            "first responses, then tokens": lambda: (_first(OUT, 0.5), _first(RARE, 1 - SURE)),
        },
        hints=(
            "A branch is missed n times with probability (1 - p)^n; a response of n tokens is kept in the same way.",
        ),
    ),
}
