"""Exercises of chapter 01: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade

RIGHT: dict[str, tuple[str, Any]] = {
    "letter": ("01.1", "a"),
    "letter in brackets": ("01.1", "(a)"),
    "log": ("01.2", ("B", 12)),
    "log as a list": ("01.2", ["b", 12.0]),
    "where": ("01.3", lambda q, p, m: np.where(m, p - q, 0).sum(-1)),
    "sum with where": ("01.3", lambda q, p, m: (p - q).sum(-1, where=m)),
    "row by row": ("01.3", lambda q, p, m: np.array([(b - a)[own].sum() for a, b, own in zip(q, p, m, strict=True)])),
    "each by itself": ("01.3", lambda q, p, m: np.where(m, p, 0).sum(-1) - np.where(m, q, 0).sum(-1)),
    "tokens": ("01.4", 92),
    "tokens by logarithms": ("01.4", float(np.ceil(np.log(256) / np.log(1.0625)))),
    "largest out": ("01.5", lambda x: np.exp(x - x.max()).sum() ** 2 / np.exp(2 * (x - x.max())).sum()),
    "shares": ("01.5", lambda x: 1 / ((np.exp(x - x.max()) / np.exp(x - x.max()).sum()) ** 2).sum()),
    "logarithms": ("01.5", lambda x: np.exp(2 * np.logaddexp.reduce(x) - np.logaddexp.reduce(2 * x))),
    "letters": ("01.6", "abc"),
    "letters in a list": ("01.6", ["c", "a", "b"]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str):
    exercise, answer = RIGHT[name]
    verdict = grade(find(exercise), answer)
    assert verdict.status == "right", verdict.reason


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "products": (
        lambda q, p, m: np.log(np.exp(np.where(m, p, 0)).prod(-1) / np.exp(np.where(m, q, 0)).prod(-1)),
        "0 / 0",
    ),
    "weight first": (lambda q, p, m: np.log(np.exp(np.where(m, p - q, 0).sum(-1))), "logarithm of a weight"),
    "sign": (lambda q, p, m: np.where(m, q - p, 0).sum(-1), "sign is wrong"),
    "mean": (lambda q, p, m: np.where(m, p - q, 0).sum(-1) / m.sum(-1), "GSPO"),
    "nansum": (lambda q, p, m: np.nansum(p - q, -1), "numbers outside the mask"),
    "no mask": (lambda q, p, m: (p - q).sum(-1), "outside the mask gets in"),
    "weights": (lambda q, p, m: np.exp(np.where(m, p - q, 0).sum(-1)), "its logarithm"),
    "sum of ratios": (lambda q, p, m: np.where(m, np.exp(p - q), 0).sum(-1), "not their product"),
    "wrong axis": (lambda q, p, m: np.where(m, p - q, 0).sum(0), ""),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mutant_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("01.3"), mutant)
    assert verdict.status == "wrong"
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_multiplying_by_the_mask_is_what_was_given():
    verdict = grade(find("01.3"), lambda q, p, m: np.where(np.isnan(q), np.nan, (p - q) * m).sum(-1))
    assert verdict.status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("01.1", "b", "trained on 60 times"),
        ("01.1", "c", "60 updates on 32 prompts"),
        ("01.2", ("A", 40), "in A the held-out reward rises"),
        ("01.2", ("B", 60), "lowest held-out"),
        ("01.2", ("B", 48), "*reward* is highest"),
        ("01.2", ("B", 3), "before the first"),
        ("01.4", 91, "one token more"),
        ("01.4", 93, "smallest number"),
        ("01.4", 142, "a coin"),
        ("01.4", 114, "other token moves"),
        ("01.4", 59, "not by 1 + TV"),
        ("01.4", 12, "must be squared"),
        ("01.4", 4080, "multiplied"),
        ("01.5", lambda x: np.exp(x).sum() ** 2 / (np.exp(x) ** 2).sum(), "overflows"),
        ("01.5", lambda x: 1 / (np.exp(x - x.max()) ** 2).sum(), "do not sum to 1"),
        ("01.5", lambda x: len(x) / (1 + np.exp(x - x.max()).var()), "squared mean"),
        ("01.5", lambda x: np.exp(x - x.max()).mean() ** 2 / np.exp(2 * (x - x.max())).mean(), "multiply by n"),
        ("01.6", "ab", "(c) is possible"),
        ("01.6", "abcd", "512 exactly"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def test_no_other_step_of_the_logs_is_right():
    for log in "AB":
        for step in range(61):
            assert (grade(find("01.2"), (log, step)).status == "right") == ((log, step) == ("B", 12))
