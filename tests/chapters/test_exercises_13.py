<<<<<<< HEAD
"""Exercises of chapter 13: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any
=======
<<<<<<<< HEAD:tests/chapters/test_exercises_13_14.py
"""Wrong answers to 14.1 and 14.5 as people write them: each is named by what it is, and not by bare numbers."""
========
"""Wrong answers to 13.4 as people write them: each is named by what it is, and not by bare numbers."""
>>>>>>>> bbc4840 (Deeper page of chapter 14):tests/chapters/test_exercises_13.py
>>>>>>> bbc4840 (Deeper page of chapter 14)

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade

<<<<<<< HEAD
Loss = Callable[..., Any]


def times(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_k), np.exp(logp_k - logp_mu)
    return -(w * np.minimum(r * A, np.clip(r, 0.8, 1.2) * A)).mean()


def moved_in(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_mu), np.exp(logp_k - logp_mu)
    return np.maximum(-r * A, -np.clip(r, 0.8 * w, 1.2 * w) * A).mean()


def by_mask(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_k), np.exp(logp_k - logp_mu)
    shut = np.where(A > 0, r > 1.2, r < 0.8)
    return -np.where(shut, w * np.clip(r, 0.8, 1.2) * A, w * r * A).mean()


@pytest.mark.parametrize("loss", [times, moved_in, by_mask])
def test_a_repair_is_right_in_every_form(loss: Loss):
    verdict = grade(find("13.3"), loss)
    assert verdict.status == "right", verdict.reason


def with_weight(weight: Callable[..., np.ndarray]) -> Loss:
    def loss(logp, logp_k, logp_mu, A):
        r = np.exp(logp - logp_k)
        return -(weight(logp, logp_k, logp_mu) * np.minimum(r * A, np.clip(r, 0.8, 1.2) * A)).mean()

    return loss


def inside(logp, logp_k, logp_mu, A):
    wr = np.exp(logp - logp_mu)
    return -np.minimum(wr * A, np.clip(wr, 0.8, 1.2) * A).mean()


def one_branch(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_k), np.exp(logp_k - logp_mu)
    return -np.minimum(w * r * A, np.clip(r, 0.8, 1.2) * A).mean()


def plus(logp, logp_k, logp_mu, A):
    r, w = np.exp(logp - logp_mu), np.exp(logp_k - logp_mu)
    return -np.minimum(r * A, np.clip(r, w - 0.2, w + 0.2) * A).mean()


BROKEN: dict[str, tuple[Loss, str]] = {
    "inside": (inside, "slipped into the band"),
    "one branch": (one_branch, "both branches"),
    "upside down": (with_weight(lambda n, k, m: np.exp(m - k)), "upside down"),
    "twice": (with_weight(lambda n, k, m: np.exp(2 * (k - m))), "there twice"),
    "whole ratio": (with_weight(lambda n, k, m: np.exp(n - m)), "the whole ratio"),
    "normalised": (with_weight(lambda n, k, m: np.exp(k - m) / np.exp(k - m).mean()), "divided by their mean"),
    "cut": (with_weight(lambda n, k, m: np.minimum(np.exp(k - m), 2)), "`decoupled`"),
    "log": (with_weight(lambda n, k, m: k - m), "exponential"),
    "plus": (plus, "this is `plus`"),
    "unclipped": (lambda n, k, m, a: -(np.exp(n - m) * a).mean(), "no clip is left"),
    "sign": (lambda *given: -times(*given), "the sign is turned"),
    "sum": (lambda *given: times(*given) * given[3].size, "a mean over tokens"),
    "two-sided": (lambda n, k, m, a: -(np.exp(k - m) * np.clip(np.exp(n - k), 0.8, 1.2) * a).mean(), ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_is_refused_and_named(name: str):
    loss, said = BROKEN[name]
    verdict = grade(find("13.3"), loss)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_what_was_given_is_no_try():
    assert grade(find("13.3"), with_weight(lambda n, k, m: np.ones(n.shape))).status == "not yet"


HIGHEST: dict[str, tuple[Callable[..., Any], str]] = {
    "ratios": (lambda m, k, e: np.array([1 + e, k / m + e, k / m * (1 + e)]), "multiply by mu"),
    "epsilon": (lambda m, k, e: np.array([m * (1 + e), k + e, k * (1 + e)]), "not epsilon"),
    "of pi_k": (lambda m, k, e: np.array([m * (1 + e), k * (1 + e), k * (1 + e)]), "that is `times`"),
    "around pi_k": (lambda m, k, e: np.array([k * (1 + e), k + e * m, k * (1 + e)]), "wherever pi_k is"),
    "opened": (lambda m, k, e: np.array([max(k, m * (1 + e)), k + e * m, k * (1 + e)]), "end below it"),
    "lower": (lambda m, k, e: np.array([m * (1 - e), k - e * m, k * (1 - e)]), "lower ends"),
    "swapped": (lambda m, k, e: np.array([m * (1 + e), k * (1 + e), k + e * m]), "changed places"),
}


@pytest.mark.parametrize("name", HIGHEST)
def test_a_wrong_end_is_named(name: str):
    answer, said = HIGHEST[name]
    verdict = grade(find("13.5"), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def test_the_ends_are_right_as_a_list_too():
    assert grade(find("13.5"), lambda m, k, e: [m + m * e, k + m * e, k + k * e]).status == "right"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("13.1", "a", "far above 1.2"),
        ("13.2", (0.4, 0.0, -0.4), "sum of pi times A"),
        ("13.2", (0.2, 0.0, -0.4), "asked are changes"),
        ("13.2", (-0.4, -0.4, -0.4), "counts 1.2 there"),
        ("13.2", (-0.4, 0.2, -0.4), "before and after"),
        ("13.2", (-0.4, 0.0, 0.0), "and L falls"),
        ("13.2", (-0.4, 0.0, -0.24), "takes the worse branch"),
        ("13.2", (-0.4, 0.0, 0.2), "at the new policy"),
        ("13.4", ("pi_k", "other", 7), "every ratio to pi_k is 1"),
        ("13.4", ("mu", "old", 7), "no weights are older"),
        ("13.4", ("mu", "other", 6), "still have unequal"),
        ("13.4", ("mu", "other", 8), "first one"),
        ("13.4", ("mu", "other", 1), "falls to 0"),
        ("13.4", ("mu", "other", 30), "long before"),
        ("13.6", (632, 574), "first at mu"),
        ("13.6", (10, 8), "each costs milliseconds"),
        ("13.6", (918, 790), "8 rounds old"),
        ("13.6", (574, 459), "one more pass"),
        ("13.6", (790, 632), "no further pass"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("13.2", (-0.4, 0, -0.4)),
        ("13.2", [0.2 - 0.6, 0.0, 0.2 - 0.6]),
        ("13.4", ("mu", "other", 7)),
        ("13.4", ["mu", "other", 7.0]),
        ("13.6", (574, 632)),
        ("13.6", (10 * 57.4, 8 * 79.0)),
        ("13.6", [570, 632]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason
=======

<<<<<<<< HEAD:tests/chapters/test_exercises_13_14.py
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
========
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
>>>>>>>> bbc4840 (Deeper page of chapter 14):tests/chapters/test_exercises_13.py


@pytest.mark.parametrize(
    ("answer", "said"),
    [
<<<<<<<< HEAD:tests/chapters/test_exercises_13_14.py
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
========
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
>>>>>>>> bbc4840 (Deeper page of chapter 14):tests/chapters/test_exercises_13.py
>>>>>>> bbc4840 (Deeper page of chapter 14)
