"""Exercises of chapter 18: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade


def stopped(ratio: np.ndarray, A: np.ndarray) -> np.ndarray:
    return (A > 0) & (ratio > 1.28) | (A < 0) & (ratio < 0.8)


KEPT: dict[str, Callable[..., Any]] = {
    "ratio": lambda p, mu, k, A: ~stopped(np.exp(p - k), A),
    "quotient": lambda p, mu, k, A: ~stopped(np.exp(p) / np.exp(k), A),
    "by cases": lambda p, mu, k, A: np.where(A > 0, np.exp(p - k) <= 1.28, np.exp(p - k) >= 0.8),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "both": (lambda p, mu, k, A: ~stopped(np.exp(p - mu), A) & ~stopped(np.exp(p - k), A), "inside both"),
    "halfway": (lambda p, mu, k, A: ~stopped(np.exp(p - (mu + k) / 2), A), "halfway"),
    "near mu": (lambda p, mu, k, A: ~((A * (np.exp(p) - np.exp(mu))) > 0.15), "DPPO's mask"),
    "pi_k over mu": (lambda p, mu, k, A: ~stopped(np.exp(k - mu), A), "does not change with the updates"),
    "both sides": (lambda p, mu, k, A: abs(np.exp(p - k) - 1.04) <= 0.24, "pushed back"),
    "upside down": (lambda p, mu, k, A: ~stopped(np.exp(k - p), A), "upside down"),
    "nothing": (lambda p, mu, k, A: np.full(A.shape, True), "none of these tokens is stopped"),
    "dual clip": (lambda p, mu, k, A: ~(stopped(np.exp(p - k), A) | (A < 0) & (p - k > np.log(3))), "dual clip"),
    "dual clip, far": (lambda p, mu, k, A: ~(stopped(np.exp(p - k), A) | (A < 0) & (p - k > np.log(10))), ""),
    "narrower": (
        lambda p, mu, k, A: ~((A > 0) & (p - k > np.log(1.2)) | (A < 0) & (p - k < np.log(0.8))),
        "the centre",
    ),
    "a little narrower": (
        lambda p, mu, k, A: ~((A > 0) & (np.exp(p - k) > 1.26) | (A < 0) & (np.exp(p - k) < 0.8)),
        "the centre",
    ),
    "a little wider": (
        lambda p, mu, k, A: ~((A > 0) & (np.exp(p - k) > 1.28) | (A < 0) & (np.exp(p - k) < 0.78)),
        "",
    ),
    "wrong end": (lambda p, mu, k, A: ~stopped(np.exp(p - k), -A), "upside down"),
    "other limits": (lambda p, mu, k, A: ~((A > 0) & (np.exp(p - k) > 1.2) | (A < 0) & (np.exp(p - k) < 0.72)), ""),
    "one end": (lambda p, mu, k, A: ~((A > 0) & (np.exp(p - k) > 1.28)), ""),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_mask_around_pi_k_is_right_in_every_form(name: str):
    verdict = grade(find("18.3"), KEPT[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_mask_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("18.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_the_mask_around_mu_is_what_was_given():
    assert grade(find("18.3"), lambda p, mu, k, A: ~stopped(np.exp(p - mu), A)).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("18.1", "a", "so it is with the real model"),
        ("18.1", "c", "but no more"),
        ("18.2", ("A", "mismatch", "c"), "rises"),
        ("18.5", ("not told", 6), "which is the first"),
        ("18.2", ("B", "truncated", "a"), "answer first and then chat on"),
        ("18.2", ("B", "reward", "c"), "near 0 in both"),
        ("18.2", ("B", "loss", "c"), "centred advantages"),
        ("18.2", ("B", "no_gradient", "c"), "no token has an advantage"),
        ("18.2", ("629c", "mismatch", "c"), "B log 629c"),
        ("18.2", ("B", "mismatch", "a"), "fit into the same 16 tokens"),
        ("18.2", ("B", "mismatch", "b"), "never rose"),
        ("18.2", ("B", "mismatch", "d"), "would rise"),
        ("18.4", (250, 0.004), "half a cell to its end"),
        ("18.4", (1000, 0.004), "a round has eight"),
        ("18.4", (125, 0.008), "not half of one"),
        ("18.4", (125, 0.0005), "that is one update"),
        ("18.4", (125, 0.4), "is a share"),
        ("18.4", (125, "0.4 %"), "without quotes"),
        ("18.5", ("better", 4), "4.30 times 0.06"),
        ("18.5", ("within", 4), "needs a margin"),
        ("18.5", ("worse", 4), "interval below"),
        ("18.5", ("not told", 3), "more are needed"),
        ("18.5", ("not told", 5), "fewer, too"),
        ("18.5", ("not told", "4"), "without quotes"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said.lower() in verdict.reason.lower(), verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("18.1", "(b)"),
        ("18.2", ("b", "mismatch", "(c)")),
        ("18.4", (125, 0.004)),
        ("18.4", [0.01 / 1e-5 / 8, 8 * 1e-5 / 0.02]),
        ("18.5", ("not told", 4)),
        ("18.5", ["Not told", 4.0]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason
