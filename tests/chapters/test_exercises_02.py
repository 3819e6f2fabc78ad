"""Exercises of chapter 02: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.chapters.c02.explorers import RoomsExplorer
from rlnotes.exact.mdp import performance_difference, surrogate
from rlnotes.exact.pathologies import two_rooms
from rlnotes.notebook.exercise import find, grade


def by_response(ratio, advantages, mask):
    return np.mean([((r - 1) * a)[np.asarray(m, bool)].sum() for r, a, m in zip(ratio, advantages, mask, strict=True)])


REPAIRED: dict[str, Callable[..., Any]] = {
    "sum, mean": lambda r, A, m: ((r - 1) * A[:, None] * m).sum(1).mean(),
    "over N": lambda r, A, m: ((r - 1) * A[:, None] * m).sum() / len(r),
    "where": lambda r, A, m: (np.where(m, r - 1, 0.0).sum(-1) * A).mean(),
    "einsum": lambda r, A, m: np.einsum("nt,n,nt->", r - 1, A, np.asarray(m, float)) / r.shape[0],
    "less what it is at 1": lambda r, A, m: ((r * m).sum(1) * A - m.sum(1) * A).mean(),
    "a loop": by_response,
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("02.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "mean per response": (
        lambda r, A, m: (((r - 1) * A[:, None] * m).sum(1) / m.sum(1)).mean(),
        "add up, they are not averaged",
    ),
    "sum of all": (lambda r, A, m: ((r - 1) * A[:, None] * m).sum(), "mean of a response"),
    "no mask": (lambda r, A, m: ((r - 1) * A[:, None]).sum(1).mean(), "outside the mask"),
    "no minus 1": (lambda r, A, m: (r * A[:, None] * m).sum(1).mean(), "Subtract 1"),
    "product": (lambda r, A, m: ((np.where(m, r, 1.0).prod(1) - 1) * A).mean(), "a sum over tokens"),
    "padded length": (lambda r, A, m: ((r - 1) * A[:, None] * m).mean(), "padding and all"),
    "a loss": (lambda r, A, m: -((r - 1) * A[:, None] * m).sum(1).mean(), "sign is turned round"),
    "log-ratio": (lambda r, A, m: (np.log(r) * A[:, None] * m).sum(1).mean(), ""),
    "wrong axis": (lambda r, A, m: ((r - 1) * A[:, None] * m).sum(0).mean(), ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_is_refused(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("02.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_what_was_given_is_no_try():
    def given(ratio, advantages, mask):
        return ((ratio - 1) * advantages[:, None] * mask).sum() / mask.sum()

    assert grade(find("02.3"), given).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("02.1", "a", "by what they happened to see"),
        ("02.1", "b", "still less"),
        ("02.2", ("a", 24), "would show a hack"),
        ("02.2", ("c", 24), "makes both rewards fall"),
        ("02.2", ("d", 24), "first step"),
        ("02.2", ("b", 12), "1.4 times"),
        ("02.2", ("b", 36), "before that"),
        ("02.2", ("b", 60), "left behind before"),
        ("02.4", (0.14, 0.22, 0.08), "swapped"),
        ("02.4", (0.14, 0.14, 0.0), "the first number: the second token's gain"),
        ("02.4", (0.3, 0.14, -0.16), "at the first token"),
        ("02.4", (0.2, 0.14, -0.06), "of each place"),
        ("02.4", (0.22, 0.14, 0.08), "in this order"),
        ("02.4", (0.22, 0.2, -0.02), "product of the two chances"),
        ("02.6", 101, "one token more"),
        ("02.6", 100.5, "come whole"),
        ("02.6", 7, "the distance twice"),
        ("02.6", 141, "factor 2"),
        ("02.6", 10_000, "one factor"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("02.1", "c"),
        ("02.1", "(c)"),
        ("02.2", ("b", 24)),
        ("02.2", ["(b)", 24.0]),
        ("02.4", (0.22, 0.14, -0.08)),
        ("02.4", (0.4 * 0.8 - 0.5 * 0.2, 0.9 * 0.6 - 0.5 * 0.8, 0.14 - 0.22)),
        ("02.6", 100),
        ("02.6", int(0.5 + 0.25 + 10_000**0.5)),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason


LEFT_OUT: dict[str, tuple[Callable[..., Any], str]] = {
    "sign": (lambda dn, do, new, a, g: (do - dn) @ (new * a).sum(-1) / (1 - g), "sign is turned round"),
    "no factor": (lambda dn, do, new, a, g: (dn - do) @ (new * a).sum(-1), "is missing"),
    "times": (lambda dn, do, new, a, g: (dn - do) @ (new * a).sum(-1) * (1 - g), "numerator"),
    "whole": (lambda dn, do, new, a, g: dn @ (new * a).sum(-1) / (1 - g), "whole change"),
    "surrogate": (lambda dn, do, new, a, g: do @ (new * a).sum(-1) / (1 - g), "surrogate itself"),
    "sizes": (lambda dn, do, new, a, g: abs(dn - do) @ abs((new * a).sum(-1)) / (1 - g), "no absolute values"),
    "all actions": (lambda dn, do, new, a, g: (dn - do) @ a.sum(-1) / (1 - g), "weigh them by the new policy"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_mutant_of_what_is_left_out_is_named(name: str):
    mutant, said = LEFT_OUT[name]
    verdict = grade(find("02.5"), mutant)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def test_what_is_left_out_is_right_in_two_forms():
    by_hand = grade(find("02.5"), lambda dn, do, new, a, g: ((dn - do)[:, None] * new * a).sum() / (1 - g))
    by_einsum = grade(find("02.5"), lambda dn, do, new, a, g: np.einsum("s,sa,sa->", dn - do, new, a) / (1 - g))
    assert by_hand.status == by_einsum.status == "right"


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.95])
def test_the_rooms_are_drawn_as_the_package_computes_them(gamma: float):
    mdp, new, old = two_rooms(gamma)
    (true, said), _ = RoomsExplorer().curves(alpha=0.6, gamma=gamma)
    for i in (0, 30, 50):
        pi = (1 - true[1][i]) * old + true[1][i] * new
        expected = performance_difference(mdp, pi, old), surrogate(mdp, pi, old)
        assert (true[2][i], said[2][i]) == pytest.approx(expected, abs=1e-12)
