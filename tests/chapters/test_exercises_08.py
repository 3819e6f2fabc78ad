"""Exercises of chapter 08: right answers in the forms that readers write, and mutants, each with what is said of it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rlnotes.notebook.exercise import find, grade


def tokens_of(parts):
    return sum(mask.sum() for _, mask in parts)


REPAIRED: dict[str, Callable[..., Any]] = {
    "share of each part": lambda parts: sum((x * m).sum() / tokens_of(parts) for x, m in parts),
    "one division": lambda parts: sum((x * m).sum() for x, m in parts) / tokens_of(parts),
    "weighted means": lambda parts: sum(m.sum() / tokens_of(parts) * (x * m).sum() / m.sum() for x, m in parts),
    "picked": lambda parts: torch.cat([x[m.bool()] for x, m in parts]).mean(),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "sum of means": (lambda parts: sum((x * m).sum() / m.sum() for x, m in parts), "results are added up"),
    "padding": (lambda parts: sum((x * m).sum() for x, m in parts) / sum(m.numel() for _, m in parts), "padding"),
    "divided twice": (
        lambda parts: sum((x * m).sum() for x, m in parts) / tokens_of(parts) / len(parts),
        "number of parts once more",
    ),
    "by responses": (
        lambda parts: sum((x * m).sum() for x, m in parts) / sum(len(m) for _, m in parts),
        "divides by tokens",
    ),
    "response means": (
        lambda parts: torch.cat([(x * m).sum(1) / m.sum(1) for x, m in parts]).mean(),
        "that is the response mean",
    ),
    "no mask": (lambda parts: sum(x.sum() for x, _ in parts) / tokens_of(parts), "mask is missing"),
    "no division": (lambda parts: sum((x * m).sum() for x, m in parts), "nothing is divided"),
    "parts by responses": (
        lambda parts: sum(len(m) * (x * m).sum() / m.sum() for x, m in parts) / sum(len(m) for _, m in parts),
        "share of the responses",
    ),
    "the last part alone": (lambda parts: [(x * m).sum() / m.sum() for x, m in parts][-1], "only the last part"),
    "the last sum alone": (lambda parts: (parts[-1][0] * parts[-1][1]).sum() / tokens_of(parts), "only the last part"),
    "the first part's tokens": (lambda parts: sum((x * m).sum() / parts[0][1].sum() for x, m in parts), ""),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("08.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_loss_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("08.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason


@pytest.mark.parametrize("cut", [lambda x: x.detach(), lambda x: x.item()])
def test_a_loss_without_a_gradient_is_named(cut: Callable[..., Any]):
    verdict = grade(find("08.3"), lambda parts: cut(sum((x * m).sum() for x, m in parts) / tokens_of(parts)))
    assert verdict.status == "wrong" and verdict.known and "cut off the gradient" in verdict.reason, verdict.reason


def test_the_mean_of_means_is_what_was_given():
    verdict = grade(find("08.3"), lambda parts: torch.stack([(x * m).sum() / m.sum() for x, m in parts]).mean())
    assert verdict.status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("08.1", "c", "three in four are right"),
        ("08.1", "b", "nearly 8"),
        ("08.2", ("A", 11.8), "in which the two columns part"),
        ("08.2", ("C", 7.6), "far shorter"),
        ("08.2", ("B", 5.3), "mean length of all"),
        ("08.2", ("B", 2.4), "right ones"),
        ("08.2", ("B", 7.7), "by their shares"),
        ("08.2", ("B", 14.4), "table of the loop"),
        ("08.2", ("B", 14.5), "table of the loop"),
        ("08.4", -0.005, "after a right letter"),
        ("08.4", 0.02 / 3, "(G - 1) / G"),
        ("08.4", 0.0067, "(G - 1) / G"),
        ("08.4", 0.0075, "stops alone"),
        ("08.4", 0.0025, "goes on alone"),
        ("08.4", 0.00625, "share 1 - p"),
        ("08.4", 0.025, "not -1"),
        ("08.4", 0.01, "1/4, not 1/2"),
        ("08.4", 0.02, "1/4 in all"),
        ("08.4", 0, "equal shares"),
        ("08.4", 0.01125, "here they are 4 and 12"),
        ("08.5", (17, 2), "after 17 it is at 0.44"),
        ("08.5", (17.65, 2), "whole rollouts"),
        ("08.5", (17.66, 2), "whole rollouts"),
        ("08.5", (18, 3), "exactly needs no rollout more"),
        ("08.5", (120, 6), "by a factor"),
        ("08.5", (25, 5), "factors of 1.2"),
        ("08.5", (2, 18), "first with 0.2"),
        ("08.5", (14, 2), "DAPO's 0.28"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("08.1", "a"),
        ("08.1", "(a)"),
        ("08.2", ("B", 15.1)),
        ("08.2", ["b", 15]),
        ("08.2", ("B", (5.34 - 0.770 * 2.41) / 0.230)),
        ("08.4", 0.005),
        ("08.4", 3 / 4 * 0.8 * 0.2 / 4 * (1 / 4 - 1 / 12)),
        ("08.5", (18, 2)),
        ("08.5", [18.0, 2.0]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason
