"""Exercises of chapter 09: right answers in the forms that readers write, and mutants, each with what is said of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.chapters.c09.readings import the_log
from rlnotes.notebook.exercise import find, grade


def of(bar_r, A, epsilon):
    return -torch.minimum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A).mean()


def mean_log(logp, old, mask):
    return ((logp - old) * mask).sum(-1) / mask.sum(-1)


def dual_clip(logp, old, mask, A, epsilon, most):
    bar_r = mean_log(logp, old, mask).exp()
    least = torch.minimum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A)
    return -torch.where(A < 0, torch.maximum(least, most * A), least).mean()


REPAIRED: dict[str, Callable[..., Any]] = {
    "mean of the logs": lambda logp, old, mask, A, e: of(mean_log(logp, old, mask).exp(), A, e),
    "root of the product": lambda logp, old, mask, A, e: of(
        ((logp - old) * mask).sum(1).exp() ** (1 / mask.sum(1)), A, e
    ),
    "picked": lambda logp, old, mask, A, e: of(
        torch.stack([(x - y)[m > 0].mean().exp() for x, y, m in zip(logp, old, mask, strict=True)]), A, e
    ),
    "largest loss": lambda logp, old, mask, A, e: (
        torch.maximum(-mean_log(logp, old, mask).exp() * A, -mean_log(logp, old, mask).exp().clamp(1 - e, 1 + e) * A)
    ).mean(),
    "token form": lambda logp, old, mask, A, e: (
        (
            torch.maximum(
                -(form := (logp - logp.detach() + mean_log(logp, old, mask).detach()[:, None]).exp()) * A[:, None],
                -form.clamp(1 - e, 1 + e) * A[:, None],
            )
            * mask
        ).sum(1)
        / mask.sum(1)
    ).mean(),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "padding counted": (lambda x, y, m, A, e: of(((x - y).sum(1) / m.sum(1)).exp(), A, e), "keep the mask"),
    "no mask at all": (lambda x, y, m, A, e: of((x - y).mean(1).exp(), A, e), "width of the batch still divides"),
    "product": (lambda x, y, m, A, e: of(((x - y) * m).sum(1).exp(), A, e), "importance weight"),
    "arithmetic mean": (
        lambda x, y, m, A, e: of(((x - y).exp() * m).sum(1) / m.sum(1), A, e),
        "exponential of the mean log-ratio",
    ),
    "upside down": (lambda x, y, m, A, e: of(mean_log(y, x, m).exp(), A, e), "upside down"),
    "length of the batch": (
        lambda x, y, m, A, e: of((((x - y) * m).sum(1) / m.sum(1).mean()).exp(), A, e),
        "mean length of the batch",
    ),
    "all tokens": (lambda x, y, m, A, e: of((((x - y) * m).sum(1) / m.sum()).exp(), A, e), "all tokens of the batch"),
    "no exponential": (lambda x, y, m, A, e: of(mean_log(x, y, m), A, e), "its exponential is asked for"),
    "no clip": (lambda x, y, m, A, e: -(mean_log(x, y, m).exp() * A).mean(), "nothing is clipped"),
    "no minimum": (
        lambda x, y, m, A, e: -(mean_log(x, y, m).exp().clamp(1 - e, 1 + e) * A).mean(),
        "without the minimum",
    ),
    "clipped, gradient kept": (
        lambda x, y, m, A, e: -(((r := mean_log(x, y, m).exp()) + (r.clamp(1 - e, 1 + e) - r).detach()) * A).mean(),
        "gradient still flows",
    ),
    "least, gradient kept": (
        lambda x, y, m, A, e: (
            -(
                (r := mean_log(x, y, m).exp()) * A + (torch.minimum(r * A, r.clamp(1 - e, 1 + e) * A) - r * A).detach()
            ).mean()
        ),
        "the value is clipped, and the gradient still flows",
    ),
    "logarithm clipped": (
        lambda x, y, m, A, e: -torch.minimum((u := mean_log(x, y, m)).exp() * A, u.clamp(-e, e).exp() * A).mean(),
        "the logarithm is clipped",
    ),
    "tokens": (
        lambda x, y, m, A, e: (
            -(
                (torch.minimum((r := (x - y).exp()) * A[:, None], r.clamp(1 - e, 1 + e) * A[:, None]) * m).sum(1)
                / m.sum(1)
            ).mean()
        ),
        "GRPO's terms",
    ),
    "maximum": (
        lambda x, y, m, A, e: -torch.maximum((r := mean_log(x, y, m).exp()) * A, r.clamp(1 - e, 1 + e) * A).mean(),
        "the minimum was right",
    ),
    "by length": (
        lambda x, y, m, A, e: (
            -(torch.minimum((r := mean_log(x, y, m).exp()) * A, r.clamp(1 - e, 1 + e) * A)[:, None] * m).sum() / m.sum()
        ),
        "long responses weigh more",
    ),
    "sum": (lambda x, y, m, A, e: of(mean_log(x, y, m).exp(), A, e) * len(A), "not their sum"),
    "turned": (lambda x, y, m, A, e: -of(mean_log(x, y, m).exp(), A, e), "the sign is turned"),
    "sum over those with an advantage": (
        lambda x, y, m, A, e: of(mean_log(x, y, m).exp(), A, e) * len(A) / (A != 0).sum(),
        "those without an advantage, too",
    ),
    "dual clip": (lambda x, y, m, A, e: dual_clip(x, y, m, A, e, 3.0), "this is a dual clip"),
    "another dual clip": (lambda x, y, m, A, e: dual_clip(x, y, m, A, e, 10.0), ""),
    "no lower edge": (
        lambda x, y, m, A, e: -torch.minimum((r := mean_log(x, y, m).exp()) * A, r.clamp(max=1 + e) * A).mean(),
        "the lower edge",
    ),
    "no upper edge": (
        lambda x, y, m, A, e: -torch.minimum((r := mean_log(x, y, m).exp()) * A, r.clamp(min=1 - e) * A).mean(),
        "the upper edge",
    ),
    "wrong power": (lambda x, y, m, A, e: of((2 * mean_log(x, y, m)).exp(), A, e), ""),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("09.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_loss_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("09.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason, verdict.reason


def test_the_mean_over_the_width_is_what_was_given():
    verdict = grade(find("09.3"), lambda x, y, m, A, e: of((((x - y) * m).sum(1) / m.shape[1]).exp(), A, e))
    assert verdict.status == "not yet"


def log_answer(of: str = "σ", power: float = 0.5) -> float:
    last = the_log("C")[-1]
    return round({"σ": last["σ"], "KL": (2 * last["KL"]) ** 0.5}[of] / last["length"] ** power, 4)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("09.1", "a", "before anything is learned"),
        ("09.1", "b", "likelier under mu"),
        ("09.1", "d", "the other way round"),
        ("09.2", ("A", 0.02), "it is the only update"),
        ("09.2", ("B", 0.002), "the gate does act"),
        ("09.2", ("C", log_answer("KL")), "The log has sigma itself"),
        ("09.2", ("C", log_answer(power=0)), "a response's is smaller"),
        ("09.2", ("C", log_answer(power=1)), "not with the length"),
        ("09.2", ("C", 0.5), "its range is another"),
        ("09.4", 3e-4, "half the square"),
        ("09.4", 0.0173, "a 2 is missing"),
        ("09.4", 6e-4, "take the root"),
    ],
)
def test_an_answer_that_is_known_to_be_wrong_is_named(name: str, answer: Any, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("09.1", "c"),
        ("09.1", "(c)"),
        ("09.2", ("C", log_answer())),
        ("09.2", ["c", round(the_log("C")[-1]["σ"], 3) / round(the_log("C")[-1]["length"], 1) ** 0.5]),
        ("09.2", ("C", 0.027)),
        ("09.4", 0.0245),
        ("09.4", (2 * 3e-4) ** 0.5),
        ("09.4", 0.0244),
    ],
)
def test_a_right_answer_is_right_in_the_forms_that_readers_write(name: str, answer: Any):
    verdict = grade(find(name), answer)
    assert verdict.status == "right", verdict.reason


RANGES: dict[str, tuple[Callable[..., Any], str]] = {
    "numpy": (lambda x, m: x[m].std() / np.sqrt(m.sum(1).mean()), ""),
    "ddof 1": (lambda x, m: x[m].std(ddof=1) / np.sqrt(m.sum(1).mean()), ""),
    "tokens per response": (lambda x, m: np.std(x[m]) * (len(m) / m.sum()) ** 0.5, ""),
    "padding": (lambda x, m: x.std() / np.sqrt(m.sum(1).mean()), "padding is counted in the spread"),
    "padding as zeros": (lambda x, m: (x * m).std() / np.sqrt(m.sum(1).mean()), "padding is counted as zeros"),
    "width": (lambda x, m: x[m].std() / np.sqrt(x.shape[1]), "not the width"),
    "no root": (lambda x, m: x[m].std() / m.sum(1).mean(), "root of the length"),
    "all tokens": (lambda x, m: x[m].std() / np.sqrt(m.sum()), "all tokens of the batch"),
    "token": (lambda x, m: x[m].std(), "of a token alone"),
    "roots": (lambda x, m: x[m].std() / np.sqrt(m.sum(1)).mean(), "not the mean of the roots"),
    "each root": (lambda x, m: (x[m].std() / np.sqrt(m.sum(1))).mean(), "of each length here"),
    "median length": (lambda x, m: x[m].std() / np.median(m.sum(1)) ** 0.5, "not the median"),
    "within": (
        lambda x, m: np.mean([a[b].std() for a, b in zip(x, m, strict=True)]) / m.sum(1).mean() ** 0.5,
        "within each response",
    ),
    "mean square": (lambda x, m: np.sqrt(np.mean(x[m] ** 2) / m.sum(1).mean()), "root mean square"),
    "the scatter": (lambda x, m: ((x * m).sum(1) / m.sum(1)).std(), "It is a good range, too"),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_is_right_or_its_mistake_is_named(name: str):
    answer, said = RANGES[name]
    verdict = grade(find("09.5"), answer)
    assert verdict.status == ("wrong" if said else "right") and said in verdict.reason, verdict.reason
    assert verdict.known == bool(said)
