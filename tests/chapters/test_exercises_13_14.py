"""Wrong answers to 14.1 and 14.5 as people write them: each is named by what it is, and not by bare numbers."""

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade


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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
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
