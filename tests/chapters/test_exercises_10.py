"""Exercises of chapter 10: right answers in the forms that readers write, and mutants, each with what is said of it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rlnotes.notebook.exercise import find, grade


def closed(r, tau):
    return torch.cosh(tau * (r - 1) / 2) ** -2


def of(condition: Callable[..., Any]) -> Callable[..., Any]:
    return lambda r, A, tau: torch.where(condition(r, A), closed(r, tau), torch.ones_like(r))


def assigned(r, A, tau):
    gate = torch.ones_like(r)
    away = torch.sign(A) * (r - 1) > 0
    gate[away] = closed(r, tau)[away]
    return gate


REPAIRED: dict[str, Callable[..., Any]] = {
    "product": of(lambda r, A: (r - 1) * A > 0),
    "at ratio 1 too": of(lambda r, A: (r - 1) * A >= 0),
    "two cases": of(lambda r, A: (A > 0) & (r > 1) | (A < 0) & (r < 1)),
    "equal comparisons": of(lambda r, A: (r > 1) == (A > 0)),
    "assigned": assigned,
    "by the sigmoid": lambda r, A, tau: torch.where(
        (r - 1) * A > 0, 4 * torch.sigmoid(tau * (r - 1)) * torch.sigmoid(-tau * (r - 1)), 1.0
    ),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "two sides": (lambda r, A, tau: closed(r, tau), "closes on both sides"),
    "swapped": (of(lambda r, A: (r - 1) * A < 0), "sides are swapped"),
    "good only": (of(lambda r, A: (A > 0) & (r > 1)), "no bad token is ever stopped"),
    "bad only": (of(lambda r, A: (A < 0) & (r < 1)), "good tokens are never stopped"),
    "all good": (of(lambda r, A: (A > 0) | (r < 1)), "good tokens are stopped on the way back"),
    "all bad": (of(lambda r, A: (A < 0) | (r > 1)), "bad tokens are stopped on the way back"),
    "by the sign": (of(lambda r, A: A > 0), "compare r with 1"),
    "A in the argument": (
        lambda r, A, tau: torch.where((r - 1) * A > 0, torch.cosh(tau * (r - 1) * A / 2) ** -2, 1.0),
        "only the sign counts",
    ),
    "times A": (lambda r, A, tau: A * of(lambda r, A: (r - 1) * A > 0)(r, A, tau), "without the advantage"),
    "times r": (lambda r, A, tau: r * of(lambda r, A: (r - 1) * A > 0)(r, A, tau), "without the ratio"),
    "no half": (lambda r, A, tau: torch.where((r - 1) * A > 0, torch.cosh(tau * (r - 1)) ** -2, 1.0), ""),
    "zero": (lambda r, A, tau: torch.where((r - 1) * A > 0, 0.0, 1.0), ""),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("10.4"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_gate_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("10.4"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_a_check_names_the_tokens_at_which_a_gate_is_wrong_and_no_others():
    mutant, _ = BROKEN["two sides"]
    assert grade(find("10.4"), mutant).fails == ("good, gone the wrong way", "bad, gone the wrong way")


def test_the_given_gate_is_what_was_given():
    assert grade(find("10.4"), of(lambda r, A: r > 1)).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("10.1", "a", "beyond 1.96"),
        ("10.1", "b", "one token in ten"),
        ("10.1", "c", "it takes away less"),
        ("10.2", ("a", "b"), "if every good token were right"),
        ("10.2", ("b", "b"), "pull back there"),
        ("10.2", ("c", "a"), "still brings back"),
        ("10.2", ("c", "c"), "little is left"),
        ("10.3", (0.84, 0.99), "inside the clip's band"),
        ("10.3", (0.84, 0), "never 0"),
        ("10.3", (0.84, 0.786), "floor of strength 1"),
        ("10.3", (0.84, 0.42), "How small can the gate"),
        ("10.3", (0.84, 0.76), "How small can the gate"),
        ("10.3", (0.16, 0.77), "share of good tokens"),
        ("10.3", (5.27, 0.77), "low over high"),
        ("10.3", (0.0165, 0.77), "one of all tokens"),
        ("10.3", (84, 0.768), "not per cent"),
        ("10.5", 0.824, "half of the gate"),
        ("10.5", 0.401, "sech is squared"),
        ("10.5", 0.818, "factor 2 is missing"),
        ("10.5", 0.81, "solves the bound"),
        ("10.5", 0.654, "strength 10.5"),
        ("10.5", 0.364, "distance from ratio 1"),
        ("10.5", 1.364, "below ratio 1"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("10.1", "d"),
        ("10.1", "(d)"),
        ("10.2", ("c", "b")),
        ("10.2", ["(C)", "(B)"]),
        ("10.3", (0.84, 0.77)),
        ("10.3", [0.0165 / 0.0196, 0.768]),
        ("10.5", 1 - 2 * math.acosh(math.sqrt(10)) / 10),
        ("10.5", 0.636),
        ("10.5", 0.64),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason
