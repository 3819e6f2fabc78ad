"""Exercises of chapter 15: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.chapters.c15.exercises import two_sided
from rlnotes.notebook.exercise import find, grade

KEPT: dict[str, Callable[..., Any]] = {
    "of the page": lambda mu, pi, A, d: ~((A > 0) & (pi - mu > d) | (A < 0) & (mu - pi > d)),
    "by the sign": lambda mu, pi, A, d: np.sign(A) * (pi - mu) <= d,
    "as equation 12": lambda mu, pi, A, d: ~((np.abs(pi - mu) > d) & (A * (pi / mu - 1) > 0)),
    "by where": lambda mu, pi, A, d: np.where(A > 0, pi - mu <= d, mu - pi <= d),
    "a list": lambda mu, pi, A, d: [
        not (a * (p - m) > 0 and abs(p - m) > d) for m, p, a in zip(mu, pi, A, strict=True)
    ],
}


@pytest.mark.parametrize("name", KEPT)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("15.3"), KEPT[name])
    assert verdict.status == "right", verdict.reason


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "clip": (lambda mu, pi, A, d: ~((A > 0) & (pi > (1 + d) * mu) | (A < 0) & (pi < (1 - d) * mu)), "compares prob"),
    "the page's clip": (lambda mu, pi, A, d: ~((A > 0) & (pi > 1.28 * mu) | (A < 0) & (pi < 0.8 * mu)), "1.28"),
    "signs": (lambda mu, pi, A, d: ~((A < 0) & (pi - mu > d) | (A > 0) & (mu - pi > d)), "wrong way round"),
    "dropped": (lambda mu, pi, A, d: (A > 0) & (pi - mu > d) | (A < 0) & (mu - pi > d), "dropped ones"),
    "good alone": (lambda mu, pi, A, d: ~((A > 0) & (pi - mu > d)), "stops no bad"),
    "bad alone": (lambda mu, pi, A, d: ~((A < 0) & (mu - pi > d)), "stops no good"),
    "an open end": (lambda mu, pi, A, d: ~((A > 0) & (pi - mu >= d) | (A < 0) & (mu - pi >= d)), "exactly δ"),
    "with its size": (lambda mu, pi, A, d: A * (pi - mu) <= d, "only its sign"),
    "no limit": (lambda mu, pi, A, d: A * (pi - mu) <= 0, "however little"),
    "0.15 always": (lambda mu, pi, A, d: np.sign(A) * (pi - mu) <= 0.15, ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_mask_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("15.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_what_was_given_is_no_try():
    assert grade(find("15.3"), two_sided).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("15.1", "a", "sixteen updates"),
        ("15.1", "b", "not even a little"),
        ("15.1", "d", "stops no token"),
        ("15.2", (0.5, 8.5), "first the ratio"),
        ("15.2", (7.5, 0.5), "one more"),
        ("15.2", (1.15, 0.5), "to be seen from 0.02"),
        ("15.2", (1.28, 0.5), "edge of 1.28"),
        ("15.2", (0.17, 0.5), "divide by"),
        ("15.2", (8.5, 3.75), "ends at 1"),
        ("15.2", (8.5, 4.25), "ends at 1"),
        ("15.2", (8.5, 1.0), "where it gets"),
        ("15.2", (8.5, 0.15), "what DPPO allows"),
        ("15.2", (8.5, 0.14), "clip of 1.28"),
        ("15.5", ("a", 1, "no"), "no update has been made"),
        ("15.5", ("c", 1, "no"), "a limit moves nothing"),
        ("15.5", ("b", 7, "no"), "wrong from the start"),
        ("15.5", ("b", 0, "no"), "counting begins"),
        ("15.5", ("b", 1, "yes"), "farther from μ"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("15.1", "c"),
        ("15.1", "(c)"),
        ("15.2", (8.5, 0.5)),
        ("15.2", [0.17 / 0.02, 1 - 0.5]),
        ("15.5", ("b", 1, "no")),
        ("15.5", ["(b)", 1, "No"]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason


def topk(kept: Callable[..., list[int]], other: Callable[[float], float] = abs) -> Callable[..., float]:
    def found(mu, pi, token, k):
        gap = (mu - pi)[kept(mu, token, k)]
        return (np.abs(gap).sum() + other(gap.sum())) / 2

    return found


TOPK: dict[str, tuple[Callable[..., float], str]] = {
    "forgets that other may grow": (topk(lambda mu, t, k: sorted({t, *np.argsort(-mu)[:k]}), float), "size"),
    "counts the token twice": (topk(lambda mu, t, k: [t, *np.argsort(-mu)[:k]]), "twice"),
    "the rarest": (topk(lambda mu, t, k: sorted({t, *np.argsort(mu)[:k]})), "rarest"),
    "one fewer": (topk(lambda mu, t, k: sorted({t, *np.argsort(-mu)[: k - 1]})), "in addition"),
    "without the token": (topk(lambda mu, t, k: np.argsort(-mu)[:k].tolist()), "told apart too"),
    "binary": (lambda mu, pi, t, k: abs(mu[t] - pi[t]), "binary TV"),
    "full": (lambda mu, pi, t, k: np.abs(mu - pi).sum() / 2, "full TV"),
    "as printed": (topk(lambda mu, t, k: sorted({t, *np.argsort(-mu)[:k]}), lambda gap: 0.0), "as printed"),
}


@pytest.mark.parametrize("name", TOPK)
def test_a_mutant_of_top_k_is_named(name: str):
    mutant, said = TOPK[name]
    verdict = grade(find("15.4"), mutant)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def test_top_k_is_right_as_the_page_solves_it():
    right = topk(lambda mu, t, k: sorted({t, *np.argsort(-mu, kind="stable")[:k].tolist()}))
    assert grade(find("15.4"), right).status == "right"
