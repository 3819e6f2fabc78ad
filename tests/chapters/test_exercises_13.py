"""Exercises of chapter 13: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade

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
