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

LIMIT = 0.15


def _from_where() -> tuple[str, int, str]:
    """The first step is before any update: who is far there is another policy; and whether DPPO's limit lets it be."""
    step = stored_log("6f5e").first("mismatch", above=0.01)
    return "b", step, "no" if stored_log("6f5e").rows()[0]["mismatch"] > LIMIT else "yes"


# --- 15.3

DELTA, LOW, HIGH = 0.05, 0.2, 0.28


def _stricter() -> tuple[float, float]:
    """On a fine grid of mu: the first at which DPPO's edge is the nearer one, for a good token and for a bad one."""
    mu = np.arange(1, 100_001) / 100_000
    return tuple(float(mu[(clip > DELTA + 1e-12).argmax()]) for clip in (HIGH * mu, LOW * mu))


# --- 15.4

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


def _probe(
    *tokens: tuple[float, float, float], delta: float = LIMIT
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    mu, pi, A = map(np.array, zip(*tokens, strict=True))
    return mu, pi, A, delta


PROBES = {
    "A > 0, far above μ": _probe((0.1, 0.4, 1.0), (0.02, 0.9, 0.5)),
    "A > 0, far below μ": _probe((0.6, 0.3, 1.0), (0.99, 0.7, 2.0)),
    "A < 0, far below μ": _probe((0.6, 0.3, -1.0), (0.99, 0.8, -0.5)),
    "A < 0, far above μ": _probe((0.1, 0.4, -1.0), (0.02, 0.9, -0.5)),
    "near μ": _probe((0.5, 0.6, 1.0), (0.5, 0.4, -1.0), (0.3, 0.4, -1.0)),
    "a rare token, ratio 100": _probe((1e-4, 1e-2, 1.0), (1e-2, 1e-4, -1.0)),
    "a change of δ itself": _probe((0.25, 0.5, 1.0), (0.75, 0.5, -1.0), delta=0.25),
    "δ = 0.05": _probe((0.5, 0.6, 1.0), (0.5, 0.4, -1.0), (0.5, 0.4, 1.0), (0.5, 0.54, 1.0), delta=0.05),
}

# --- 15.5

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
        oracle=_from_where,
        misconceptions={
            "the letter: at step 1 no update has been made, and the distance is there": ("a", ..., ...),
            "the letter: a limit moves nothing. |π − μ| is large before it acts": ("c", ..., ...),
            "the step: by then the reward is 0. Which number was wrong from the start?": (..., 7, ...),
            "the step: counting begins at 1": (..., 0, ...),
            "the last word: the mean of |π − μ| at step 1 is above 0.15; another yardstick does not move μ": (
                ...,
                ...,
                "yes",
            ),
        },
        hints=("One update to a rollout: at step 1 π has not been moved. How far should it be from μ?",),
    ),
    "15.3": Exercise(
        cases=((),),
        oracle=_stricter,
        misconceptions={
            "first for a good token, then for a bad one": (DELTA / LOW, DELTA / HIGH),
            "those are the numbers for δ = 0.15": (LIMIT / HIGH, LIMIT / LOW),
            "the first number: a good token may rise by 0.28 μ, up to 1.28 μ": (DELTA / (1 + HIGH), ...),
            "the second number: a bad token may fall by 0.2 μ, down to 0.8 μ": (..., DELTA / (1 - LOW)),
            "the first number: the upper end is 0.28": (DELTA / LOW, ...),
            "the second number: the lower end is 0.2": (..., DELTA / HIGH),
            "0.28 μ and 0.2 μ are what the clip allows. Where is that as much as δ?": (HIGH * DELTA, LOW * DELTA),
        },
        hints=("How far may a token of probability μ go under the clip? Where is that as far as 0.05?",),
        tolerance=6e-3,
    ),
    "15.4": Exercise(
        cases=tuple(PROBES.values()),
        probes=tuple(PROBES),
        oracle=_one_by_one,
        given=two_sided,
        misconceptions={
            "that is the clip, on the ratio; DPPO compares probabilities": _ratio,
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
    "15.5": Exercise(
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
}
