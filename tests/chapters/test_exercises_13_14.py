"""Wrong answers to 13.4, 14.1 and 14.5 as people write them: each is named by what it is, and not by bare numbers."""

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade


def greedy(pi_k, advantages, shift, line: str):
    """The solution of 13.4 with one line exchanged."""
    new, best = pi_k.copy(), np.argmax(advantages)
    order = np.argsort(advantages)[:-1]
    if line == "only the worst":
        order = order[:1]
    if line == "best first":
        order = order[::-1]
    for a in order:
        move = min(new[a], shift)
        new[a] -= move
        if line != "lost":
            new[best] += move
        if line != "budget":
            shift -= move
    return new


def shared(pi_k, advantages, shift):
    new, good = pi_k.copy(), advantages > 0
    share = pi_k * good / (pi_k * good).sum()
    for a in np.argsort(advantages)[:-1]:
        move = min(new[a], shift)
        new[a] -= move
        new += move * share
        shift -= move
    return new


def mixture(pi_k, advantages, shift):
    target = np.zeros_like(pi_k)
    target[np.argmax(advantages)] = 1
    return (1 - shift) * pi_k + shift * target


def renormalised(pi_k, advantages, shift):
    new = pi_k.copy()
    new[np.argmax(advantages)] += shift
    new[np.argmin(advantages)] -= shift
    new = np.clip(new, 0, None)
    return new / new.sum()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda p, a, s: greedy(p, a, s, "only the worst"), "go on with the next one"),
        (lambda p, a, s: greedy(p, a, s, "best first"), "begins with the second best"),
        (lambda p, a, s: greedy(p, a, s, "lost"), "do not sum to 1"),
        (lambda p, a, s: greedy(p, a, s, "budget"), "must be taken off `shift`"),
        (lambda p, a, s: greedy(p, a, 2 * s, ""), "twice `shift`"),
        (shared, "not to all good ones"),
        (mixture, "mixture with the best action"),
        (renormalised, "cutting off at 0"),
    ],
)
def test_13_4_names_what_goes_wrong_in_the_filling(answer, said: str):
    verdict = grade(find("13.4"), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason
    assert grade(find("13.4"), lambda p, a, s: greedy(p, a, s, "")).status == "right"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda n, o, r: (r * (np.exp((n - o).sum(1)) - 1)).mean(), "plain estimate of J(pi) - J(mu) itself"),
        (lambda n, o, r: (r * np.exp(n - o).prod(1)).mean(), "an estimate of J(pi)"),
        (lambda n, o, r: (r[:, None] * np.exp(n - o)).sum() / len(r), "without the - 1"),
        (lambda n, o, r: (n - o).sum() / len(r), "the reward is missing"),
    ],
)
def test_14_1_says_what_w_minus_1_is(answer, said: str):
    verdict = grade(find("14.1"), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda p, r, x, k: p @ (r * np.where(k, x.prod(1) - 1, -1)), "a lower bound, too"),
        (lambda p, r, x, k: p @ (r * (x.prod(1) - 1)), "the change of J itself"),
        (lambda p, r, x, k: p[k] @ (r[k] * (x[k].prod(1) - 1)), "leaves dropped answers out"),
        (lambda p, r, x, k: p @ (k * r * np.log(x).sum(1)) - p[~k].sum(), "must be weighted with it"),
        (lambda p, r, x, k: p @ (r * np.where(k, -1, np.log(x).sum(1))), "changed places"),
        (lambda p, r, x, k: p @ (r * np.maximum(np.log(x).sum(1), -1)), "the best mask"),
        (lambda p, r, x, k: np.mean(p * r * np.where(k, np.log(x).sum(1), -1)), "the mean's weight already"),
        (lambda p, r, x, k: np.sum(r * np.where(k, np.log(x).sum(1), -1)), "under mu is missing"),
    ],
)
def test_14_5_says_what_w_minus_1_is_and_what_is_forgotten(answer, said: str):
    verdict = grade(find("14.5"), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason


def test_14_5_the_sharper_bound_lies_between_the_promise_and_the_change():
    for probs, reward, ratios, kept in find("14.5").cases:
        sharper = probs @ (reward * np.where(kept, ratios.prod(1) - 1, -1))
        assert find("14.5").oracle(probs, reward, ratios, kept) < sharper <= probs @ (reward * (ratios.prod(1) - 1))
