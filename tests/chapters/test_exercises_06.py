"""Exercises of chapter 06: right answers in the forms that readers write, and mutants, each with what is said of it."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.chapters.c06.exercises import ALARM, FALL, LOG
from rlnotes.chapters.c06.readings import HIDDEN, HIDDEN_SEED, without_names
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import find, grade
from rlnotes.studies.tables import load_rows


def clip(ratio, epsilon):
    return torch.clamp(ratio, 1 - epsilon, 1 + epsilon)


def mended(ratio, advantages, epsilon):
    return -torch.minimum(ratio * advantages, clip(ratio, epsilon) * advantages)


REPAIRED: dict[str, Callable[..., Any]] = {
    "minimum": mended,
    "maximum of the losses": lambda r, A, e: torch.maximum(-r * A, -clip(r, e) * A),
    "by sign": lambda r, A, e: -torch.where(A > 0, r.clamp(max=1 + e), r.clamp(min=1 - e)) * A,
    "stack": lambda r, A, e: -torch.stack([r * A, clip(r, e) * A]).min(0).values,
    "the slope alone": lambda r, A, e: -r * A * ~(((A > 0) & (r > 1 + e)) | ((A < 0) & (r < 1 - e))),
    "mask": lambda r, A, e: -A * torch.where(((A > 0) & (r > 1 + e)) | ((A < 0) & (r < 1 - e)), clip(r, e), r),
}
BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "clamp": (lambda r, A, e: -clip(r, e) * A, "clamp on both sides"),
    "maximum": (lambda r, A, e: -torch.maximum(r * A, clip(r, e) * A), "larger of the two"),
    "sign": (lambda r, A, e: -mended(r, A, e), "sign"),
    "other half": (lambda r, A, e: -torch.maximum(r, clip(r, e)) * A, "A < 0 only"),
    "detached": (lambda r, A, e: mended(r.detach(), A, e) + 0 * r, ""),
    "no clip": (lambda r, A, e: -r * A, "no gate closes"),
    "dual clip": (
        lambda r, A, e: torch.where(A < 0, torch.minimum(mended(r, A, e), -3 * A), mended(r, A, e)),
        "dual clip",
    ),
    "max below": (
        lambda r, A, e: -A * torch.where(A > 0, r.clamp(max=1 + e), r.clamp(max=1 - e)),
        "with min, not with max",
    ),
    "only above": (lambda r, A, e: -torch.minimum(r * A, r.clamp(max=1 + e) * A), "ratio 0.5"),
    "only below": (lambda r, A, e: -torch.minimum(r * A, r.clamp(min=1 - e) * A), "good token at ratio 4"),
    "epsilon fixed": (lambda r, A, e: mended(r, A, 0.2), "whatever epsilon says"),
    "mean": (lambda r, A, e: mended(r, A, e).mean(), "their mean"),
    "sum": (lambda r, A, e: mended(r, A, e).sum(), "their sum"),
    "no pull back": (
        lambda r, A, e: torch.where((r - 1).abs() > e, mended(r, A, e).detach() + 0 * r, mended(r, A, e)),
        "all four gates",
    ),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_is_right_in_every_form(name: str):
    verdict = grade(find("06.3"), REPAIRED[name])
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutant_of_the_loss_is_refused_at_a_named_probe(name: str):
    mutant, said = BROKEN[name]
    verdict = grade(find("06.3"), mutant)
    assert verdict.status == "wrong" and verdict.fails
    assert verdict.known == bool(said) and said in verdict.reason


def test_a_loss_that_is_not_known_is_answered_in_slopes():
    detached = BROKEN["detached"][0]
    assert "it gives [0], and should give [-1]" in grade(find("06.3"), detached).reason


def test_the_smaller_ratio_is_what_was_given():
    """min(r, clip(r)) A is the loss that is to be mended, in other words."""
    assert grade(find("06.3"), lambda r, A, e: -torch.minimum(r, clip(r, e)) * A).status == "not yet"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((4, 4), "The second 4 is right"),
        ((4, 1), "first the falls"),
        ((4, 7), "second number is wrong, too"),
        ((2, 3), "with the row before"),
        ((1, 5), "in all: one of them fell"),
        ((1, 15), "how many other rounds there are"),
        ((1, 16), "how many rounds did not fall"),
        ((1, 3), "first number is right. Count the other"),
        ((0, 5), "it rings over one of the four"),
        ((2, 4), "the 4 is right"),
        ("1, 4", "2 things are asked for"),
        (5, "2 things are asked for"),
    ],
)
def test_another_count_of_alarms_is_answered_with_what_it_counts(answer: Any, said: str):
    verdict = grade(find("06.2"), answer)
    assert verdict.status == "wrong" and said in verdict.reason


@pytest.mark.parametrize("answer", [(1, 4), [1, 4.0]])
def test_the_alarm_rings_over_one_fall_of_four(answer: Any):
    assert grade(find("06.2"), answer).status == "right"


def test_the_log_of_the_alarm_is_read_as_the_solution_says():
    """Which rounds fell and rang; three decimals, as the page shows, are enough to tell. Compared with the row before,
    as a reader might, the count is another one.
    """
    rows = stored_log(LOG).rows()
    change = np.diff([row["reward"] for row in rows])
    rings = np.array([row["no_gradient"] for row in rows]) > ALARM
    assert [i + 1 for i in np.flatnonzero(change < -FALL)] == [3, 7, 10, 18]
    assert [i + 1 for i in np.flatnonzero(rings)] == [2, 3, 4, 5, 11]
    assert [round(rows[i - 1]["no_gradient"], 3) for i in (3, 7, 10, 18)] == [0.163, 0.017, 0.012, 0.005]
    assert (int(change.argmax()) + 1, round(change.max(), 2)) == (4, 0.50)
    assert min(abs(change + FALL).min(), min(abs(row["no_gradient"] - ALARM) for row in rows)) > 0.001
    late = change < -FALL
    assert (int((late & rings[1:]).sum()), int((~late & rings[1:]).sum())) == (2, 3)
    assert stored_log(LOG).path.parent.name == "healthy_updates"


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("06.1", 0.5, "half as long"),
        ("06.1", 2, "no step longer"),
        ("06.1", 3.98, "Asked for is its factor"),
        ("06.1", 0.25, "half of a half"),
        ("06.1", 1.05, "no edge is in play"),
        ("06.1", "1", "without quotes"),
        ("06.5", 15, "512 / 128"),
        ("06.5", 31, "n multiplies both sizes"),
        ("06.5", 6, "only the first pass"),
        ("06.5", 1, "Count the others"),
        ("06.5", 8, "first update"),
        ("06.5", 4, "one pass"),
        ("06.5", 3, "both passes"),
        ("06.5", 64, "n does not enter"),
        ("06.5", 56, "leave n out"),
        ("06.5", 63, "counts prompts"),
    ],
)
def test_a_number_that_is_known_to_be_wrong_is_named(name: str, answer: float, said: str):
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason


@pytest.mark.parametrize(
    ("name", "answer"),
    [("06.5", 7), ("06.5", 7.0)],
)
def test_a_number_is_right_as_precisely_as_it_is_asked_for(name: str, answer: float):
    assert grade(find(name), answer).status == "right"


TOOLS = find("06.4").oracle()


def test_the_tools_are_told_apart_by_the_rule_of_the_solution():
    """The one of fewest updates is the stop, the one that ends nearer to the reference than it began the penalty, and
    of the other two the clip is nearer to the old policy.
    """
    rows = load_rows("06_one_round")
    own = {row["run"]: row for row in without_names(rows)}
    (before,) = (row for row in rows if (row.get("arm"), row["seed"]) == ("before", HIDDEN_SEED))
    (stop,) = (run for run in own if own[run]["updates"] < 16)
    (penalty,) = (run for run in own if own[run]["KL(new, ref)"] < before["kl_reference"])
    rest = sorted(set(own) - {stop, penalty}, key=lambda run: own[run]["KL(old, new)"])
    found = dict(zip([stop, penalty, *rest], ("stop", "penalty", "clip", "unclipped"), strict=True))
    assert tuple(found[run] for run in "ABCD") == TOOLS == tuple(name.removeprefix("strong_") for name in HIDDEN)
    assert round(before["kl_reference"], 2) == 0.79  # as the exercise says


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ("stop", "clip", "look at the updates"),
        ("unclipped", "penalty", "knows the reference"),
        ("clip", "penalty", "does not hold a round"),
        ("stop", "penalty", "does not know the reference"),
        ("stop", "unclipped", "ends a round early"),
        ("clip", "unclipped", "nearer to the old policy than without"),
    ],
)
def test_two_tools_that_are_swapped_are_named(left: str, right: str, said: str):
    swapped = {left: right, right: left}
    verdict = grade(find("06.4"), [swapped.get(name, name) for name in TOOLS])
    assert verdict.status == "wrong" and verdict.known and said in verdict.reason


def test_a_tool_of_another_name_is_no_wrong_order():
    verdict = grade(find("06.4"), ("strong_penalty", "stop", "no clip", "clip"))
    assert verdict.known and "no name of a run" in verdict.reason


def test_no_other_order_of_the_tools_is_right():
    spaced = [name.replace("_", " ") for name in HIDDEN]
    assert all(grade(find("06.4"), names).status == "right" for names in (TOOLS, HIDDEN, [*HIDDEN], spaced))
    assert all(grade(find("06.4"), order).status == "wrong" for order in set(permutations(TOOLS)) - {TOOLS})


def test_half_a_band_changes_nothing_in_the_first_update():
    assert grade(find("06.1"), 1).status == "right"
    assert grade(find("06.1"), 0.9).status == "wrong"
    for words in ("unchanged", "the same"):
        assert "a number is asked for" in grade(find("06.1"), words).reason
    assert "without quotes" in grade(find("06.1"), "1").reason


def test_a_forward_loop_and_a_discount_are_named():
    def forward(reward, values, lam):
        td, carry, found = np.append(values[1:], reward) - values, 0.0, []
        for error in td:
            carry = error + lam * carry
            found.append(carry)
        return np.array(found)

    def discounted(reward, values, lam):
        td, carry, found = np.append(0.99 * values[1:], reward) - values, 0.0, []
        for error in td[::-1]:
            carry = error + 0.99 * lam * carry
            found.append(carry)
        return np.array(found[::-1])

    def summed(weights):
        return lambda reward, values, lam: np.cumsum(
            weights(lam, len(values)) * (np.append(values[1:], reward) - values)
        )

    assert "from the end" in grade(find("06.6"), forward).reason
    assert "not from the first token" in grade(find("06.6"), summed(lambda lam, n: lam ** np.arange(n))).reason
    assert "begins at the first token" in grade(find("06.6"), summed(lambda lam, n: np.ones(n))).reason
    assert "gamma is 1" in grade(find("06.6"), discounted).reason


def test_a_weighted_error_and_a_sum_of_two_are_named():
    def weighted(reward, values, lam):
        return lam ** np.arange(len(values)) * (np.append(values[1:], reward) - values)

    def of_two(reward, values, lam):
        td = np.append(values[1:], reward) - values
        return td + lam * np.append(td[1:], 0.0)

    assert "one TD error for each token" in grade(find("06.6"), weighted).reason
    assert "sum of two TD errors" in grade(find("06.6"), of_two).reason


def test_the_advantages_of_a_reader_who_counts_lambda_from_the_first_token_are_named():
    def counted(reward, values, lam):
        errors = np.append(values[1:], reward) - values
        return np.array([sum(lam**k * errors[k] for k in range(t, len(errors))) for t in range(len(errors))])

    verdict = grade(find("06.6"), counted)
    assert verdict.known and "distance from this token" in verdict.reason
