"""Wrong answers to the exercises of chapters 16 and 17 that were once taken for right, or told apart by nothing."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade


def judged(name: str, answer: Any):
    return grade(find(name), answer)


def minirl_tis(high: float = 1.28, low: float = 0.8, sided: bool = True) -> Callable[..., np.ndarray]:
    def weights(logp, logp_mu, logp_k, advantages):
        since = np.exp(logp - logp_k)
        dropped = ((advantages > 0) & (since > high)) | ((advantages < 0) & (since < low))
        dropped = dropped if sided else (since > high) | (since < low)
        return np.where(dropped, 0.0, np.minimum(np.exp(logp - logp_mu), 3.0))

    return weights


def rollouts(rounded: Callable[[float], float], wait: int = 1) -> Callable[..., float]:
    def count(goal, start, delta, lag, recomputed):
        steps = rounded((goal - start) / delta)
        return steps if recomputed else (steps - 1) * (lag + wait) + 1

    return count


def verdict_by(low: Callable[[np.ndarray], float], high: Callable[[np.ndarray], float]) -> Callable[..., int]:
    return lambda ours, theirs: int(low(ours - theirs) > 0) - int(high(ours - theirs) < 0)


def tied(ours, theirs):
    gaps = ours - theirs
    return 1 if gaps.min() >= 0 else -1 if gaps.max() <= 0 else 0


def hochberg(p):
    order, m = np.argsort(p), len(p)
    for last in range(m - 1, -1, -1):
        if p[order[last]] <= 0.05 / (m - last):
            return np.isin(np.arange(m), order[: last + 1])
    return np.zeros(m, dtype=bool)


def holm(p, largest: bool = True):
    order = np.argsort(p)
    limits = 0.05 / np.arange(len(p), 0, -1)
    keep = np.zeros(len(p), dtype=bool)
    keep[order] = np.logical_and.accumulate(p[order] <= limits if largest else p[order] < limits)
    return keep


def quarter(values: np.ndarray) -> slice:
    return slice(values.size // 4, values.size - values.size // 4)


def by_value(values: np.ndarray) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return values[(values >= low) & (values <= high)].mean()


WRONG: dict[str, tuple[str, Any, str]] = {
    "eps_high of 0.2": ("16.1", minirl_tis(high=1.2), "1.28"),
    "the two ends swapped": ("16.1", minirl_tis(high=1.2, low=0.72), "lower end"),
    "both sides": ("16.1", minirl_tis(sided=False), "one side"),
    "an open end": ("16.2", lambda p, m, a, d: ~((a < 0) & (np.exp(m) - np.exp(p) > d)), "exactly delta"),
    "A = 0 is bad": ("16.2", lambda p, m, a, d: ~((a <= 0) & (np.exp(m) - np.exp(p) >= d)), "advantage 0"),
    "logs": ("16.2", lambda p, m, a, d: ~((a < 0) & (m - p >= d)), "logs"),
    "0.5 always": ("16.2", lambda p, m, a, d: ~((a < 0) & (np.exp(m) - np.exp(p) >= 0.5)), "argument delta"),
    "to the nearest": ("16.4", rollouts(round), "nearest"),
    "one step more": ("16.4", rollouts(lambda steps: math.floor(steps) + 1), "even"),
    "rounded down": ("16.4", rollouts(math.floor), "round up"),
    "one rollout too few": ("16.4", lambda g, s, d, lag, k: rollouts(math.ceil, 1 if lag == 0 else 0)(g, s, d, lag, k),
                            "between two steps"),
    "a tie counts as ahead": ("16.5", tied, "holds 0"),
    "quantiles of the five": ("16.5", verdict_by(lambda g: np.quantile(g, 0.025), lambda g: np.quantile(g, 0.975)),
                              "quantiles of the five"),
    "four of five": ("16.5", verdict_by(lambda g: np.sort(g)[1], lambda g: np.sort(g)[-2]), "four of five"),
    "not sorted": ("17.1", lambda v: v.ravel()[quarter(v)].mean(), "sort the runs first"),
    "sorted by task": ("17.1", lambda v: np.sort(v).ravel()[quarter(v)].mean(), "each task for itself"),
    "the range": ("17.1", lambda v: np.quantile(v, 0.75) - np.quantile(v, 0.25), "a width"),
    "only the lowest": ("17.1", lambda v: np.sort(v.ravel())[v.size // 4 :].mean(), "only the lowest"),
    "only the highest": ("17.1", lambda v: np.sort(v.ravel())[: -(v.size // 4)].mean(), "only the highest"),
    "by value": ("17.1", by_value, "number of runs"),
    "Hochberg": ("17.4", hochberg, "Hochberg's rule"),
    "smaller, not equal": ("17.4", lambda p: holm(p, largest=False), "equal to its limit"),
    "in the order of size": ("17.4", lambda p: holm(np.sort(p)), "order of p"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_named(case: str):
    name, answer, words = WRONG[case]
    verdict = judged(name, answer)
    assert verdict.status == "wrong" and verdict.known
    assert words in verdict.reason


RIGHT: dict[str, tuple[str, Any]] = {
    "weights": ("16.1", minirl_tis()),
    "expm1": ("16.2", lambda p, m, a, d: (a >= 0) | (np.exp(m) - np.exp(p) < d)),
    "np.ceil": ("16.4", rollouts(lambda steps: np.ceil(steps))),
    "the range of five": ("16.5", verdict_by(np.min, np.max)),
    "Holm": ("17.4", holm),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_answer_in_another_form_is_right(case: str):
    name, answer = RIGHT[case]
    assert judged(name, answer).status == "right"


@pytest.mark.parametrize("name", ["16.1", "16.2", "17.1", "17.4"])
def test_only_the_last_hint_shows_code(name: str):
    for hint in find(name).hints[:-1]:
        assert "np." not in hint and " = " not in hint
