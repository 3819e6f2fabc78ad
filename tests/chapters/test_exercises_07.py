"""Exercises of chapter 07: right answers in the forms that readers write, and mutants, each with what is said of it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rlnotes.chapters.c07.exercises import EXERCISES, LOG
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import grade


def live(logp):
    return (logp - logp.detach()).exp()


def k3(logp, ref):
    return (ref - logp).exp() - 1 - (ref - logp)


RIGHT: dict[str, Callable[..., Any]] = {
    "k2": lambda p, q: (p - q) ** 2 / 2,
    "k1 as a reward of its own token": lambda p, q: (p - q).detach() * p,
    "k1 times the live ratio": lambda p, q: (p - q) * live(p),
    "k1 detached, times the live ratio": lambda p, q: (p - q).detach() * live(p),
    "k3 times the live ratio": lambda p, q: k3(p, q) * live(p),
    "value of k1, gradient of k2": lambda p, q: (p - q).detach() + (p - q) ** 2 / 2 - ((p - q) ** 2 / 2).detach(),
    "k2 and a k1 that does nothing": lambda p, q: (p - q) ** 2 / 2 + 3 * (p - q),
    "half of a square, otherwise": lambda p, q: 0.5 * torch.square(q - p),
}
WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "square": (lambda p, q: (p - q) ** 2, "half of the square"),
    "k3": (k3, "the other way round"),
    "k3 turned": (lambda p, q: k3(q, p), "wrong way up"),
    "ratio": (lambda p, q: (p - q).exp(), "wrong way up"),
    "abs": (lambda p, q: (p - q).abs(), "absolute value"),
    "minus k2": (lambda p, q: -((p - q) ** 2) / 2, "sign"),
    "times its probability": (lambda p, q: p.exp() * (p - q), "already"),
    "k3 as a reward": (lambda p, q: k3(p, q).detach() * p, "k3 as a reward"),
    "k2 times the live ratio": (lambda p, q: (p - q) ** 2 / 2 * live(p), ""),
    "log-ratio to the reference, detached the other way": (lambda p, q: (p - q) * p.detach(), ""),
}
GIVEN: dict[str, Callable[..., Any]] = {
    "turned": lambda p, q: q - p,
    "doubled": lambda p, q: 2 * (p - q),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_penalty_is_right_in_every_form_that_has_the_gradient(name: str):
    verdict = grade(EXERCISES["07.3"], RIGHT[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", WRONG)
def test_a_mutant_of_the_penalty_is_refused_and_named(name: str):
    mutant, said = WRONG[name]
    verdict = grade(EXERCISES["07.3"], mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason


@pytest.mark.parametrize("reduced", [torch.sum, torch.mean])
def test_a_sum_or_a_mean_is_refused_since_it_would_count_for_each_token(reduced):
    verdict = grade(EXERCISES["07.3"], lambda p, q: reduced((p - q) ** 2 / 2))
    assert verdict.status == "wrong" and "a number for each" in verdict.reason


def test_what_is_all_detached_is_refused_in_its_own_words():
    for penalty in (lambda p, q: (p - q).detach(), lambda p, q: 0.5 * (p - q).detach() ** 2):
        verdict = grade(EXERCISES["07.3"], penalty)
        assert verdict.status == "wrong" and "nothing is left to differentiate" in verdict.reason


@pytest.mark.parametrize("name", GIVEN)
def test_what_still_has_no_gradient_in_the_mean_is_not_yet(name: str):
    assert grade(EXERCISES["07.3"], GIVEN[name]).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("07.1", (1, 100)),
        ("07.1", [1.0, 100]),
        ("07.2", ("b", 7)),
        ("07.2", ["B", 7.0]),
        ("07.2", ("b", "7")),
        ("07.4", (22, 52.1)),
        ("07.4", (21.99, 52.14)),
        ("07.5", "ace"),
        ("07.5", "e, a, c"),
    ],
)
def test_a_right_answer_is_right(name: str, answer: Any):
    verdict = grade(EXERCISES[name], answer)
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("07.1", (100, 100), "divided out"),
        ("07.1", (100, 1), "other way round"),
        ("07.1", (1, 1), "grows like the rewards"),
        ("07.1", (10, 100), "second is right"),
        ("07.1", (1, 10), "first is right"),
        ("07.2", ("b", 6), "look at the step"),
        ("07.2", ("b", 13), "look at the step"),
        ("07.2", ("d", 7), "every advantage is 0"),
        ("07.2", ("c", 7), "add up to 0"),
        ("07.2", ("a", 7), "pulls back"),
        ("07.4", (0.34, 0.81), "shares of one"),
        ("07.4", (5.5, 3.26), "these are groups"),
        ("07.4", (5.5, 3.3), "these are groups"),
        ("07.4", (42.0, 11.9), "push nothing"),
        ("07.4", (52.1, 22), "groups of 4 first"),
        ("07.4", (22, 13.04), "4 groups, of 16"),
        ("07.4", (1.37, 52.1), "16 groups, of 4"),
        ("07.4", (6.4, 6.4), "expected right answers"),
        ("07.5", "abce", "b does not hold"),
        ("07.5", "acde", "d does not hold"),
        ("07.5", "bd", "do not hold"),
        ("07.5", "ce", "TRL"),
        ("07.5", "ae", "in the reward"),
        ("07.5", "ac", "either direction"),
        ("07.5", ("c",), "the loss has a place"),
        ("07.5", "e", "k1 in the reward"),
        ("07.5", "a", "verl"),
    ],
)
def test_a_mistake_is_named(name: str, answer: Any, said: str):
    verdict = grade(EXERCISES[name], answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason


def test_the_log_of_the_exercise_is_of_a_run_with_k1_in_the_loss():
    assert stored_log(LOG).path.parent.name == "k1_in_loss_misled"
    assert [finding.rule.name for finding in stored_log(LOG).report().findings][:1] == ["penalty-outweighs"]
