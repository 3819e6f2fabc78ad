"""Exercises of chapter 14: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade


def log_w(x: np.ndarray, own: np.ndarray) -> np.ndarray:
    return (x * own).sum(1)


REPAIRED: dict[str, Callable[..., Any]] = {
    "where": lambda x, own, r, k: np.mean(r * np.where(k, log_w(x, own), -1)),
    "two terms": lambda x, own, r, k: (k * r * log_w(x, own)).mean() - ((1 - k) * r).mean(),
    "by hand": lambda x, own, r, k: sum(g * (x[i][own[i]].sum() if k[i] else -1.0) for i, g in enumerate(r)) / len(r),
    "L less k3": lambda x, own, r, k: np.mean(
        r * np.where(k, (own * np.expm1(x)).sum(1) - (own * (np.expm1(x) - x)).sum(1), -1)
    ),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("14.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "over the kept": (lambda x, own, r, k: (r * log_w(x, own))[k].mean(), "over kept responses"),
    "divided by the kept": (lambda x, own, r, k: (r * np.where(k, log_w(x, own), -1)).sum() / k.sum(), "over all"),
    "costs 1": (lambda x, own, r, k: np.mean(k * r * log_w(x, own)) - np.mean(~k), "its own reward"),
    "no mask": (lambda x, own, r, k: np.mean(r * log_w(x, own)), "no mask at all"),
    "best mask": (lambda x, own, r, k: np.mean(r * np.maximum(log_w(x, own), -1)), "the best mask"),
    "w - 1": (lambda x, own, r, k: np.mean(r * np.where(k, np.exp(log_w(x, own)) - 1, -1)), "in place of log w"),
    "padding": (lambda x, own, r, k: np.mean(r * np.where(k, x.sum(1), -1)), "after the end"),
    "no k3": (lambda x, own, r, k: np.mean(r * np.where(k, (own * np.expm1(x)).sum(1), -1)), "k3 of the kept"),
    "swapped": (lambda x, own, r, k: np.mean(r * np.where(k, -1, log_w(x, own))), "changed places"),
    "plus": (lambda x, own, r, k: np.mean(r * np.where(k, log_w(x, own), 1)), ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("14.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_what_was_given_is_no_try():
    given = grade(find("14.3"), lambda x, own, r, k: np.mean(k * r * log_w(x, own)))
    assert given.status == "not yet"


def test_the_sharper_bound_lies_between_the_promise_and_the_change():
    for x, own, reward, kept in find("14.3").cases:
        w = np.exp(log_w(x, own))
        sharper = np.mean(reward * np.where(kept, w - 1, -1))
        assert find("14.3").oracle(x, own, reward, kept) < sharper <= np.mean(reward * (w - 1))


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("14.1", "a", "so for L - D_seq"),
        ("14.1", "b", "refuses where J falls"),
        ("14.2", ("A", "no_gradient", 1), "has a reason"),
        ("14.2", ("B", "no_gradient", 11), "no reason to drop"),
        ("14.2", ("B", "reward", 11), "says nothing of the mask"),
        ("14.2", ("B", "mismatch", 10), "still below 0.9"),
        ("14.2", ("B", "mismatch", 12), "was before"),
        ("14.2", ("B", "mismatch", 13), "nearly 1"),
        ("14.4", (0.08, 0.02), "Error is negative"),
        ("14.4", (0.06, -0.02), "in place of L"),
        ("14.4", (0.04, -0.02), "one bit only"),
        ("14.4", (0.08, 0.06), "what L leaves out"),
        ("14.4", (0.08, -0.01), "each gives -0.01"),
        ("14.4", (-0.02, 0.08), "first L"),
        ("14.5", (439, 347), "round up"),
        ("14.5", (148, 347), "63 %"),
        ("14.5", (140, 347), "do not add up"),
        ("14.5", (8, 347), "still missed"),
        ("14.5", (440, 346), "a little more than half"),
        ("14.5", (440, 250), "do not add up"),
        ("14.5", (440, 500), "37 %"),
        ("14.5", (347, 440), "first responses"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("14.1", "c"),
        ("14.1", "(c)"),
        ("14.2", ("B", "mismatch", 11)),
        ("14.2", ["b", "mismatch", 11.0]),
        ("14.4", (0.08, -0.02)),
        ("14.4", [2 * 0.1 * (0.7 - 0.3), 0.06 - 0.08]),
        ("14.5", (440, 347)),
        ("14.5", [440.0, 347]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason
