"""Exercises of chapter 12: right answers in the forms that readers write, and mistakes with what is said of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.exercise import find, grade

REPAIRED: dict[str, Callable[..., Any]] = {
    "take_along_axis": lambda logp, version: np.take_along_axis(logp, version[None], 0)[0],
    "indices": lambda logp, version: logp[
        version, np.arange(version.shape[0])[:, None], np.arange(version.shape[1])[None, :]
    ],
    "choose": lambda logp, version: np.choose(version, logp),
    "a sum over versions": lambda logp, version: sum((version == i) * logp[i] for i in range(len(logp))),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("12.4"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


def of_rows(pick: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    return lambda logp, version: np.stack([logp[i, n] for n, i in enumerate(pick(version))])


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "newest": (of_rows(lambda version: version.max(1)), "newest version"),
    "last": (of_rows(lambda version: version[:, -1]), "wrote the last one"),
    "average policy": (
        lambda logp, version: np.log(
            sum(np.exp(logp[i]) * (version == i).mean(1, keepdims=True) for i in range(len(logp)))
        ),
        "average policy",
    ),
    "mean of logarithms": (
        lambda logp, version: sum(logp[i] * (version == i).mean(1, keepdims=True) for i in range(len(logp))),
        "mean of log-probabilities",
    ),
    "probabilities": (lambda logp, version: np.exp(np.choose(version, logp)), "logarithms are asked for"),
    "most": (of_rows(lambda version: np.array([np.bincount(row).argmax() for row in version])), "most of them"),
    "likeliest version": (lambda logp, version: logp.max(0), "gives it most"),
    "mean of versions": (lambda logp, version: logp.mean(0), "One version wrote"),
    "versions alone": (lambda logp, version: logp[version], "of shape (responses, tokens)"),
    "oldest": (of_rows(lambda version: version.min(1)), ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("12.4"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_the_version_that_began_is_what_was_given():
    assert grade(find("12.4"), of_rows(lambda version: version[:, 0])).status == "not yet"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("12.1", "a", "undo what others did"),
        ("12.1", "c", "come back"),
        ("12.2", (20, 2, 15), "S is above 0.1 again"),
        ("12.2", (6, 15, 15), "U is above 0.05 again"),
        ("12.2", (2, 6, 15), "first the alarm on S"),
        ("12.2", (6, 2, 11), "a round of this run has 8"),
        ("12.2", (6, 2, 23), "older than it"),
        ("12.2", (6, 2, 19), "came after"),
        ("12.2", (6, 2, 14), "one too small"),
        ("12.2", (6, 2, 16), "one too large"),
        ("12.2", (6, 2, 32), "count 32 updates back"),
        ("12.5", (0.46875, 0.5), "only half"),
        ("12.5", (0.23, 0.25), "left of half"),
        ("12.5", (0.117, 0.5), "before any change"),
        ("12.5", (0.0625, 0.5), "last token"),
        ("12.5", (0.5, 0.5), "left on the way"),
        ("12.5", (0.234, 0.234), "old version again"),
        ("12.5", (0.5, 0.234), "first for good"),
        ("12.5", (0.23, 1), "current version, too"),
        ("12.5", (0.23, 0.75), "followed by an old one"),
        ("12.5", (0.23, 0.73), "do not add up"),
        ("12.5", (0.23, 0.34), "began fresh"),
        ("12.6", (110, 80), "first waiting"),
        ("12.6", (50, 110), "one after the other"),
        ("12.6", (80, 66), "that is sampling"),
        ("12.6", (80, 176), "both run at once"),
        ("12.6", (80, 170), "rounds of the clip"),
        ("12.6", (80, 50), "the clip on fresh data"),
        ("12.6", (80, 60), "unclipped on fresh data"),
        ("12.6", (80, 116), "last round of learning"),
        ("12.6", (96, 110), "unclipped on fresh data"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("12.1", "b"),
        ("12.1", "(b)"),
        ("12.2", (6, 2, 15)),
        ("12.2", [6, 2.0, 15]),
        ("12.5", (0.23, 0.5)),
        ("12.5", (15 / 64, 1 / 2)),
        ("12.5", (0.5 * (1 - 0.5**4) / (0.5 * 4), 0.5)),
        ("12.6", (80, 110)),
        ("12.6", [5 * 16.0, 11 * 10]),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason


def tv(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.abs(p - q).sum(-1) / 2


STALENESS: dict[str, tuple[Callable[..., Any], str]] = {
    "twice": (lambda d, p, c: (d * np.abs(p - c).sum(-1)).sum(), "half of the sum"),
    "average policy": (
        lambda d, p, c: (d.sum(0) * tv(np.einsum("is,isa->sa", d, p) / d.sum(0)[:, None], c)).sum(),
        "average policy",
    ),
    "unweighted": (lambda d, p, c: tv(p, c).mean(), "weigh with d"),
    "largest difference": (lambda d, p, c: (d * np.abs(p - c).max(-1)).sum(), "difference of one action"),
    "largest": (lambda d, p, c: tv(p, c).max(), "largest distance"),
}


@pytest.mark.parametrize("name", STALENESS)
def test_a_mutant_of_staleness_is_named(name: str):
    mutant, said = STALENESS[name]
    verdict = grade(find("12.3"), mutant)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


def test_staleness_is_right_by_einsum_too():
    def staleness(d, policies, current):
        return np.einsum("is,is->", d, tv(policies, current))

    assert grade(find("12.3"), staleness).status == "right"
