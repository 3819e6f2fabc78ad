"""Exercises of chapter 11: right answers in the forms that readers write, and mutants, each with what is said of it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.notebook.exercise import find, grade


def weights(logp, behavior, mask):
    return ((logp - behavior) * mask).sum(1).exp()


def scores(logp, mask):
    return (logp * mask).sum(1)


REPAIRED: dict[str, Callable[..., Any]] = {
    "detached": lambda p, q, A, m, C: -(weights(p, q, m).detach().clamp(max=C) * A * scores(p, m)).mean(),
    "clamped, then detached": lambda p, q, A, m, C: -(weights(p, q, m).clamp(max=C).detach() * A * scores(p, m)).mean(),
    "token by token": lambda p, q, A, m, C: (
        -(weights(p, q, m).clamp(max=C).detach()[:, None] * A[:, None] * p)[m].sum() / len(p)
    ),
    "a factor whose gradient is one score": lambda p, q, A, m, C: (
        -(weights(p, q, m).clamp(max=C).detach() * (scores(p, m) - scores(p, m).detach()).exp() * A).mean()
    ),
    "where": lambda p, q, A, m, C: (
        -(torch.where(weights(p, q, m) > C, C, weights(p, q, m)).detach() * A * scores(p, m)).sum() / len(A)
    ),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "token TIS": (
        lambda p, q, A, m, C: -((p - q).exp().detach().clamp(max=C) * A[:, None] * p * m).sum() / len(p),
        "each token by itself",
    ),
    "tokens capped first": (
        lambda p, q, A, m, C: -(((p - q).clamp(max=math.log(C)) * m).sum(1).exp().detach() * A * scores(p, m)).mean(),
        "before they are multiplied",
    ),
    "no mask in the weight": (
        lambda p, q, A, m, C: -((p - q).sum(1).exp().detach().clamp(max=C) * A * scores(p, m)).mean(),
        "missing in the weight",
    ),
    "no mask in the push": (
        lambda p, q, A, m, C: -(weights(p, q, m).detach().clamp(max=C) * A * p.sum(1)).mean(),
        "missing in the push",
    ),
    "no cap": (lambda p, q, A, m, C: -(weights(p, q, m) * A).mean(), "the cap is gone"),
    "not detached": (
        lambda p, q, A, m, C: -(weights(p, q, m).clamp(max=C) * A * scores(p, m)).mean(),
        "Detach the weight",
    ),
    "token mean": (
        lambda p, q, A, m, C: -(weights(p, q, m).detach().clamp(max=C) * A * scores(p, m)).sum() / m.sum(),
        "divides by tokens",
    ),
    "length mean": (
        lambda p, q, A, m, C: (
            -(weights(p, q, m).detach().clamp(max=C) * A * scores(p, m) / m.sum(1).clamp(min=1)).mean()
        ),
        "by its length",
    ),
    "sign": (lambda p, q, A, m, C: (weights(p, q, m).detach().clamp(max=C) * A * scores(p, m)).mean(), "sign"),
    "a floor": (lambda p, q, A, m, C: -(weights(p, q, m).detach().clamp(min=C) * A * scores(p, m)).mean(), ""),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("11.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_loss_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("11.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_a_mask_in_place_of_the_cap_is_what_was_given():
    def masked(p, q, A, m, C):
        w = weights(p, q, m)
        return -(torch.where(w <= C, w, 0) * A).mean()

    assert grade(find("11.3"), masked).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("11.1", "a"),
        ("11.1", "(A)"),
        ("11.2", ("629c", 23)),
        ("11.2", ["629c", 23.0]),
        ("11.4", 426),
        ("11.4", 425),
        ("11.4", 425.5),
        ("11.4", 426.6),
    ],
)
def test_a_right_answer_is_right(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("11.1", "b", "averages noise away"),
        ("11.1", "c", "so the balance moves"),
        ("11.2", (23, "629c"), "the other order"),
        ("11.2", ("1317", 23), "nobody has updated anything"),
        ("11.2", ("629c", 6), "distance before the updates"),
        ("11.2", ("629c", 20), "where the reward falls"),
        ("11.2", ("629c", 18), "not below one third"),
        ("11.2", ("629c", 24), "from the top"),
        ("11.2", (629, 23), "in quotation marks"),
        ("11.4", 276, "their squares that are to be averaged"),
        ("11.4", 56.9, "squared first"),
        ("11.4", 218, "for the signal"),
        ("11.4", 458, "the signal is in it"),
        ("11.4", 149, "noise of one response"),
        ("11.4", 0.3493, "this is the signal"),
        ("11.4", 232.5, "squared norm with 512"),
        ("11.4", 380, "leaves out the second part"),
        ("11.4", 20.6, "no root at the end"),
        ("11.4", 50, "variance of the four norms"),
    ],
)
def test_a_mistake_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def bisected(w):
    low, high = 0.0, float(w.sum())
    while high - low > 1e-6:
        C = (low + high) / 2
        low, high = (C, high) if np.maximum(w - C, 0).sum() > C else (low, C)
    return low


def by_steps(w):
    C, kept = 0.0, np.sort(w)[::-1]
    for k in range(1, len(w) + 1):
        C = max(C, kept[:k].sum() / (k + 1))
    return C


CAPS: dict[str, tuple[Callable[..., Any], str]] = {
    "mean": (lambda w: next(C for C in np.linspace(0, w.max(), 100_001) if np.maximum(w - C, 0).mean() <= C), "mean"),
    "k": (lambda w: (np.sort(w)[::-1].cumsum() / np.arange(1, len(w) + 1)).max(), "k + 1, not by k"),
    "half": (lambda w: max(w) / 2, "half of the largest"),
    "root": (lambda w: np.sqrt(len(w)), "root of n"),
    "smallest first": (lambda w: (np.sort(w).cumsum() / np.arange(2, len(w) + 2)).max(), "largest first"),
    "unsorted": (lambda w: (np.cumsum(w) / np.arange(2, len(w) + 2)).max(), "must be sorted"),
    "last": (lambda w: w.sum() / (len(w) + 1), "largest quotient"),
    "quantile": (lambda w: np.quantile(w, 0.9), ""),
}


@pytest.mark.parametrize("answer", [bisected, by_steps])
def test_a_cap_is_right_in_every_form(answer: Callable[..., Any]):
    verdict = grade(find("11.5"), answer)
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", CAPS)
def test_a_mutant_of_the_cap_is_named(name: str):
    mutant, said = CAPS[name]
    verdict = grade(find("11.5"), mutant)
    assert verdict.status == "wrong" and verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_a_noise_number_that_nobody_knows_is_told_as_it_was_written():
    for answer in (5.25, 192, 274):
        assert grade(find("11.4"), answer).reason == f"{answer} is not the answer"
