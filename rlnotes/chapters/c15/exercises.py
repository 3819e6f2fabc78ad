"""Exercises of chapter 15: ratio or divergence?"""

import itertools

import numpy as np

from rlnotes.estimators.bucketed import topk_tv, topk_tv_as_printed
from rlnotes.estimators.divergences import log_probs
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 15.1


def _once() -> str:
    """By the stored runs with one update to a rollout."""
    from rlnotes.chapters.c15.readings import once_letter  # only here: it needs torch

    return once_letter()


# --- 15.2

LIMIT, RARE, MIDDLE = 0.15, 0.02, 0.5


def _as_wide() -> tuple[float, float]:
    """The ratio at which a token of ``RARE`` has moved by ``LIMIT``; how far one of ``MIDDLE`` may rise under it."""
    ratio = (RARE + LIMIT) / RARE
    return ratio, min(ratio * MIDDLE, 1.0) - MIDDLE


# --- 15.3

Case = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def two_sided(mu, pi, A, delta):
    """What is to be repaired: a token on its way back is dropped, too."""
    return np.abs(pi - mu) <= delta


def _one_by_one(mu: np.ndarray, pi: np.ndarray, A: np.ndarray, delta: float) -> np.ndarray:
    """Token by token, in the words of figure 1 of source 004."""
    moved = [(now - before, a) for before, now, a in zip(mu, pi, A, strict=True)]
    return np.array([not (a > 0 and grown > delta) and not (a < 0 and -grown > delta) for grown, a in moved])


def _ratio(mu: np.ndarray, pi: np.ndarray, A: np.ndarray, delta: float) -> np.ndarray:
    return ~((A > 0) & (pi / mu > 1 + delta) | (A < 0) & (pi / mu < 1 - delta))


def _probe(*tokens: tuple[float, float, float], delta: float = LIMIT) -> Case:
    mu, pi, A = map(np.array, zip(*tokens, strict=True))
    return mu, pi, A, delta


PROBES = {
    "A > 0, far above μ": _probe((0.1, 0.4, 1.0), (0.02, 0.9, 0.5)),
    "A > 0, far below μ": _probe((0.6, 0.3, 1.0), (0.99, 0.7, 2.0)),
    "A < 0, far below μ": _probe((0.6, 0.3, -1.0), (0.99, 0.8, -0.5)),
    "A < 0, far above μ": _probe((0.1, 0.4, -1.0), (0.02, 0.9, -0.5)),
    "near μ": _probe((0.5, 0.55, 1.0), (0.5, 0.6, 1.0), (0.5, 0.4, -1.0), (0.3, 0.4, -1.0)),
    "a rare token, ratio 100": _probe((1e-4, 1e-2, 1.0), (1e-2, 1e-4, -1.0)),
    "a change of δ itself": _probe((0.25, 0.5, 1.0), (0.75, 0.5, -1.0), delta=0.25),
    "δ = 0.05": _probe((0.5, 0.6, 1.0), (0.5, 0.4, -1.0), (0.5, 0.4, 1.0), (0.5, 0.54, 1.0), delta=0.05),
}

# --- 15.4

_PAIRS = (
    (np.array([0.99, 0.0099, 0.0001]), np.array([0.80, 0.19, 0.01])),
    (np.array([0.2, 0.5, 0.3]), np.array([0.2, 0.3, 0.5])),
    (np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.45, 0.05, 0.4])),
    (np.array([0.5, 0.3, 0.12, 0.08]), np.array([0.7, 0.1, 0.15, 0.05])),  # the likeliest token has grown
)
_TOPK = tuple((mu, pi, token, k) for (mu, pi), token, k in itertools.product(_PAIRS, (0, 2), (1, 2)))


def _topk(mu: np.ndarray, pi: np.ndarray, token: int, k: int, printed: bool = False) -> float:
    form = topk_tv_as_printed if printed else topk_tv
    return float(form(log_probs(mu[None]), log_probs(pi[None]), np.array([token]), k)[0])


def _bucketed(mu: np.ndarray, pi: np.ndarray, kept: list[int]) -> float:
    gap = (mu - pi)[sorted({*kept})]
    return float(np.abs(gap).sum() + abs(gap.sum())) / 2


def _likeliest(p: np.ndarray, k: int) -> list[int]:
    return np.argsort(-p, kind="stable")[:k].tolist()


def _twice(mu: np.ndarray, pi: np.ndarray, token: int, k: int) -> float:
    gap = (mu - pi)[[token, *_likeliest(mu, k)]]
    return float(np.abs(gap).sum() + abs(gap.sum())) / 2


def _signed(mu: np.ndarray, pi: np.ndarray, token: int, k: int) -> float:
    gap = (mu - pi)[sorted({token, *_likeliest(mu, k)})]
    return float(np.abs(gap).sum() + gap.sum()) / 2


# --- 15.5


def _from_where() -> tuple[str, int, str]:
    """The first step is before any update: who is far there is another policy; and whether DPPO's limit lets it be."""
    step = stored_log("6f5e").first("mismatch", above=0.01)
    return "b", step, "no" if stored_log("6f5e").rows()[0]["mismatch"] > LIMIT else "yes"


EXERCISES: dict[str, Exercise] = {
    "15.1": Exercise(
        cases=((),),
        oracle=_once,
        misconceptions={
            "that would be its lead with sixteen updates. When the only gradient is taken, where is π?": lambda: "a",
            "not even a little: when the only gradient is taken nothing has moved": lambda: "b",
            "the clip stops no token either: no ratio has left 1": lambda: "d",
        },
        hints=("The mask looks at π before the update. How far is it from μ then?",),
    ),
    "15.2": Exercise(
        cases=((),),
        oracle=_as_wide,
        misconceptions={
            "first the ratio, then how far the other token may rise": (0.5, 8.5),
            "the first number: 7.5 times its probability is the rise; the ratio is one more": (
                7.5,
                ...,
            ),
            "the first number: 0.15 is a change of the probability, to be seen from 0.02": (1.15, ...),
            "the first number: that is the clip's edge of 1.28": (1.28, ...),
            "the first number: 0.17 is where the token gets; divide by where it began": (0.17, ...),
            "the second number: a probability ends at 1": (..., 3.75),
            "the second number: a probability ends at 1; and that is where it gets, not how far it rises": (..., 4.25),
            "the second number: that is where it gets; asked is how far it rises": (..., 1.0),
            "the second number: 0.15 is what DPPO allows; this is the clip": (..., 0.15),
            "the second number: that is what the clip of 1.28 allows": (..., 0.14),
        },
        hints=("From 0.02 DPPO allows 0.17. Which ratio is that? Then hold a token of 0.5 to that ratio.",),
        tolerance=6e-3,
    ),
    "15.3": Exercise(
        cases=tuple(PROBES.values()),
        probes=tuple(PROBES),
        oracle=_one_by_one,
        given=two_sided,
        misconceptions={
            "that is the clip, on the ratio; DPPO compares probabilities": _ratio,
            "that is the page's clip, at ratios of 0.8 and 1.28; DPPO compares probabilities, with delta": (
                lambda mu, pi, A, delta: ~((A > 0) & (pi > 1.28 * mu) | (A < 0) & (pi < 0.8 * mu))
            ),
            "the signs are the wrong way round: with A > 0 a token moves away when it grows": (
                lambda mu, pi, A, delta: _one_by_one(mu, pi, -A, delta)
            ),
            "these are the dropped ones": lambda *given: ~_one_by_one(*given),
            "that stops no bad token": lambda mu, pi, A, delta: ~((A > 0) & (pi - mu > delta)),
            "that stops no good token": lambda mu, pi, A, delta: ~((A < 0) & (mu - pi > delta)),
            "a change of exactly δ is kept: what is above δ is dropped": lambda mu, pi, A, delta: (
                ~(np.sign(A) * (pi - mu) >= delta)
            ),
            "the size of the advantage does not count, only its sign": lambda mu, pi, A, delta: A * (pi - mu) <= delta,
            "that drops whatever moves away, however little": lambda mu, pi, A, delta: A * (pi - mu) <= 0,
        },
        hints=("A token with A > 0 that lies far below μ is pushed back up. Does that widen the distance?",),
    ),
    "15.4": Exercise(
        cases=_TOPK,
        oracle=_topk,
        misconceptions={
            'without "other" it is equation (15) as printed, and may be half of the binary TV': lambda m, p, t, k: (
                _topk(m, p, t, k, printed=True)
            ),
            "a half is missing": lambda m, p, t, k: 2 * _topk(m, p, t, k),
            "the sampled token is told apart too, if it is not among the K": lambda m, p, t, k: _bucketed(
                m, p, _likeliest(m, k)
            ),
            "this is the full TV": lambda m, p, t, k: np.abs(m - p).sum() / 2,
            "this is the binary TV: the K likeliest are told apart, too": lambda m, p, t, k: abs(m[t] - p[t]),
            "the K likeliest are mu's, not pi's": lambda m, p, t, k: _bucketed(m, p, [t, *_likeliest(p, k)]),
            "these are mu's K rarest; np.argsort goes up": lambda m, p, t, k: _bucketed(m, p, [t, *_likeliest(-m, k)]),
            "where the sampled token is among the K, it counts twice here": _twice,
            "the sampled token comes in addition to the K, and not in place of one": lambda m, p, t, k: _bucketed(
                m, p, [t, *_likeliest(m, k - 1)]
            ),
            '"other" moved by the size of its change, whichever way': _signed,
        },
        hints=("What do mu and pi give to all the others together? That is one more outcome.",),
    ),
    "15.5": Exercise(
        cases=((),),
        oracle=_from_where,
        misconceptions={
            "the letter: at step 1 no update has been made, and the distance is there": ("a", ..., ...),
            "the letter: a limit moves nothing. |π − μ| is large before it acts": ("c", ..., ...),
            "the step: by then the reward is 0. Which number was wrong from the start?": (..., 7, ...),
            "the step: counting begins at 1": (..., 0, ...),
            "the last word: 0.163 is above 0.15, and the push would take the token farther from μ": (
                ...,
                ...,
                "yes",
            ),
        },
        hints=("One update to a rollout: at step 1 π has not been moved. How far should it be from μ?",),
    ),
}
