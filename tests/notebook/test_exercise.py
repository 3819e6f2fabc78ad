"""The engine of the exercises: what a check says of each kind of answer, and the three kinds of exercise."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook import exercise
from rlnotes.notebook.exercise import Exercise, check, grade


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a check of an exercise prints."""

    def said(asked: Exercise, answer: Any, run: Callable[[], Any] | None = None) -> str:
        monkeypatch.setattr(exercise, "find", lambda name: asked)
        check("99.1", answer, run)
        return capsys.readouterr().out

    return said


# --- Predict, then run

PREDICT = Exercise(
    cases=((),),
    oracle=lambda: 4,
    misconceptions={
        "after two it is still inside": 2,
        "it left before": 8,
        "the clip holds no ratio": "never",
    },
    hints=("What is the ratio before the first update?",),
)


def test_nothing_runs_before_the_reader_has_committed(say):
    def run():
        raise AssertionError("it ran")

    assert say(PREDICT, ..., run).startswith("Exercise 99.1: not yet. Replace the ...")
    assert say(PREDICT, None, run).startswith("Exercise 99.1: not yet. Replace the ...")


def test_the_check_compares_with_the_run_and_runs_once(say):
    ran = []

    def run():
        ran.append(1)
        print("the table of the run")
        return 8

    said = say(PREDICT, 8, run)
    assert said == "the table of the run\nExercise 99.1: the run gives 8.\nExercise 99.1: right.\n"
    assert "wrong: after two it is still inside." in say(PREDICT, 2, run)
    assert "4 is not the answer" in say(PREDICT, 4, run)  # the run of the package is another one
    assert len(ran) == 3


@pytest.mark.parametrize("answer", [4, 4.0, np.int64(4), np.array(4.0)])
def test_a_number_is_right_in_every_form(answer):
    assert grade(PREDICT, answer).status == "right"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (2, "after two"),
        (8, "it left before"),
        ("never", "holds no ratio"),
        ("Never.", "holds no ratio"),
        (3, "3 is not the answer"),
        ("4", "write the number without quotes"),
        ("always", "'always' is not the answer"),
        ([4], "is not the answer"),
        (np.nan, "nan is not the answer"),
    ],
)
def test_predictions_are_told_apart(answer, said):
    verdict = grade(PREDICT, answer)
    assert verdict.status == "wrong" and said in verdict.reason


ORDER = Exercise(
    cases=((),),
    oracle=lambda: ("clip", "stop", "unclipped"),
    misconceptions={"from the other end": ("unclipped", "stop", "clip"), "the clip is first": (..., "clip", ...)},
    hints=("Which of them can pull back?",),
)


@pytest.mark.parametrize("answer", [("clip", "stop", "unclipped"), ["Clip", "stop", "Unclipped "]])
def test_an_order_is_right_as_tuple_or_list(answer):
    assert grade(ORDER, answer).status == "right"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("unclipped", "stop", "clip"), "other end"),
        (("stop", "clip", "unclipped"), "the clip is first"),
        (("clip", "unclipped", "stop"), "[clip, unclipped, stop] is not the answer"),
        (("clip", "stop"), "3 things are asked for"),
        ("clip", "3 things are asked for"),
    ],
)
def test_another_order_is_wrong(answer, said):
    verdict = grade(ORDER, answer)
    assert verdict.status == "wrong" and said in verdict.reason


# --- Read this log

ROWS = [dict(step=s, reward=s / 9, kl=0.01, value_loss=0.1 + (s >= 6) * 2.0) for s in range(1, 10)]
LOG = Exercise(
    cases=((),),
    oracle=lambda: ("value_loss", next(row["step"] for row in ROWS if row["value_loss"] > 1)),
    misconceptions={
        "the reward would fall": ("reward", ...),
        "KL would grow": ("kl", ...),
        "the column is right": ("value_loss", ...),
    },
    hints=("Which column depends on the value of the last state?",),
)


@pytest.mark.parametrize("answer", [("value_loss", 6), ["value loss", 6], ("Value loss", 6.0)])
def test_a_column_and_a_step_are_right_in_every_form(answer):
    assert grade(LOG, answer).status == "right"


@pytest.mark.parametrize(
    ("answer", "said", "known"),
    [
        (("reward", 6), "the reward would fall", True),
        (("reward", 2), "the reward would fall", True),
        (("kl", 9), "KL would grow", True),
        (("value_loss", 5), "the column is right", True),
        (("value_loss", 7), "the column is right", True),
        ("value_loss", "2 things are asked for", False),
        (6, "2 things are asked for", False),
        (("entropy", 6), "[entropy, 6] is not the answer", False),
    ],
)
def test_other_columns_and_steps_are_answered_with_what_they_would_show(answer, said, known):
    verdict = grade(LOG, answer)
    assert (verdict.status, verdict.known) == ("wrong", known) and said in verdict.reason


@pytest.mark.parametrize("answer", [(..., ...), ["value_loss", ...], (..., 6)])
def test_half_an_answer_is_not_yet_one(answer):
    assert grade(LOG, answer).status == "not yet"


# --- Repair this


def given(ratio, advantages, epsilon):
    return -(np.minimum(ratio, 1 + epsilon) * advantages)


def clamped(ratio, advantages, epsilon):
    return -(np.clip(ratio, 1 - epsilon, 1 + epsilon) * advantages)


def larger(ratio, advantages, epsilon):
    return -np.maximum(ratio * advantages, -clamped(ratio, advantages, epsilon))


def mended(ratio, advantages, epsilon):
    return -np.minimum(ratio * advantages, -clamped(ratio, advantages, epsilon))


def by_sign(ratio, advantages, epsilon):
    kept = np.where(advantages > 0, np.minimum(ratio, 1 + epsilon), np.maximum(ratio, 1 - epsilon))
    return -kept * advantages


def fixed_epsilon(ratio, advantages, epsilon):
    return mended(ratio, advantages, 0.2)


def one_sided(ratio, advantages, epsilon):
    """Mends the one region that is tried first, and leaves the other."""
    return np.where((advantages < 0) & (ratio > 1 + epsilon), -ratio * advantages, given(ratio, advantages, epsilon))


REGIONS = {
    f"A {'>' if A > 0 else '<'} 0, {where} the band": (np.array([r]), np.array([A]), 0.2)
    for A in (1.0, -2.0)
    for where, r in (("below", 0.5), ("inside", 1.1), ("above", 1.5))
}
PROBES = REGIONS | {"another epsilon": (np.array([1.3]), np.array([1.0]), 0.4)}


def loss_and_slope(loss, ratio, advantages, epsilon):
    """The value and a central difference: a loss of the right value may push wrongly."""
    up, down = (loss(ratio + h, advantages, epsilon) for h in (1e-5, -1e-5))
    return np.append(loss(ratio, advantages, epsilon), (up - down) / 2e-5)


def by_region(ratio, advantages, epsilon):
    (r,), (A,) = ratio, advantages
    kept, moves = r, 1.0
    if A > 0 and r > 1 + epsilon:
        kept, moves = 1 + epsilon, 0.0
    if A < 0 and r < 1 - epsilon:
        kept, moves = 1 - epsilon, 0.0
    return np.array([-kept * A, -moves * A])


REPAIR = Exercise(
    cases=tuple(PROBES.values()),
    probes=tuple(PROBES),
    oracle=by_region,
    measure=loss_and_slope,
    given=given,
    misconceptions={
        "a clamp on both sides closes the gates that must stay open": clamped,
        "the larger term closes the wrong gates": larger,
        "epsilon is written down as 0.2": fixed_epsilon,
    },
    hints=("Take a bad token far above the band.",),
    tolerance=1e-4,
)
BAD = ("A < 0, below the band", "A < 0, above the band")


def test_what_was_given_is_no_try(say):
    said = say(REPAIR, given)
    assert said == (
        "Exercise 99.1: not yet. It computes what the given one computes. "
        "Find where that is wrong, mend it and run the cell again.\n"
    )
    assert grade(REPAIR, lambda r, a, e: -a * np.minimum(1 + e, r)).status == "not yet"


@pytest.mark.parametrize("answer", [mended, by_sign])
def test_every_form_of_the_repair_is_right(answer, say):
    assert say(REPAIR, answer) == "Exercise 99.1: right, on all 7 probes.\n"


def test_a_mutant_is_named_with_the_probes_where_it_fails(say):
    said = say(REPAIR, clamped)
    assert "wrong: a clamp on both sides closes the gates that must stay open." in said
    assert "It fails at 2 of 7 probes: A > 0, below the band; A < 0, above the band." in said
    assert "Hint" not in said
    assert grade(REPAIR, fixed_epsilon).fails == ("another epsilon",)


def test_a_repair_of_half_is_told_what_is_left(say):
    said = say(REPAIR, one_sided)
    assert "It fails at 1 of 7 probes: A < 0, below the band." in said
    assert "Hint: Take a bad token far above the band." in said


def test_the_probes_see_a_slope_that_the_value_hides():
    value_alone = replace(REPAIR, measure=None, oracle=lambda *case: by_region(*case)[:1])

    def frozen(ratio, advantages, epsilon):
        """The value is right at each probe, and it does not move with the ratio."""
        at_probe = np.array([r for (r,), _, _ in PROBES.values()])
        return mended(at_probe[abs(at_probe - ratio).argmin(keepdims=True)], advantages, epsilon)

    assert grade(value_alone, frozen).status == "right"
    assert set(grade(REPAIR, frozen).fails) == set(PROBES) - {"A > 0, above the band", BAD[0]}


def test_every_probe_is_needed():
    """For each there is a mutant that fails there and nowhere else."""
    for name, (ratio, advantage, epsilon) in PROBES.items():

        def mutant(r, a, e, at=ratio, sign=advantage, band=epsilon):
            there = (abs(r - at) < 0.01) & (a == sign) & (e == band)
            return np.where(there, 7 * r, mended(r, a, e))

        assert grade(REPAIR, mutant).fails == (name,)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda r, a, e: None, "raises TypeError"),
        (lambda r, a, e: r @ np.ones(3), "raises ValueError"),
        (lambda r, a: r, "raises TypeError"),
    ],
)
def test_a_repair_that_does_not_run_is_news_for_the_reader(answer, said):
    verdict = grade(REPAIR, answer)
    assert verdict.status == "wrong" and said in verdict.reason


def test_each_probe_has_a_name():
    with pytest.raises(ValueError, match="probes has 6 names for 7 cases"):
        replace(REPAIR, probes=REPAIR.probes[1:])


def test_a_setting_can_be_repaired_too():
    settings = Exercise(
        cases=((512,), (64,)),
        probes=("many prompts", "few prompts"),
        oracle=lambda prompts: 4 * prompts // 16,
        measure=lambda config, prompts: config["epochs"] * prompts // config["minibatch"],
        given={"epochs": 4, "minibatch": 32},
        misconceptions={"one pass": {"epochs": 1, "minibatch": 16}},
        hints=("Count the updates of a round.",),
    )
    assert grade(settings, {"epochs": 4, "minibatch": 16}).status == "right"
    assert grade(settings, {"epochs": 8, "minibatch": 32}).status == "right"
    assert grade(settings, dict(epochs=4, minibatch=32)).status == "not yet"
    assert grade(settings, dict(epochs=1, minibatch=16)).reason == "one pass"
    assert "KeyError" in grade(settings, dict(epochs=1)).reason


# --- Hints

DOUBLE = Exercise(
    cases=((np.array([1.0, 2.0]),), (np.array([3.0, -1.0]),)),
    oracle=lambda x: x * 2,
    misconceptions={"squared": lambda x: x * x},
    hints=("Think of a mirror.",),
)


def test_one_hint_comes_with_every_unknown_mistake_however_often(say):
    for _ in range(5):
        assert say(DOUBLE, lambda x: x + 1).endswith("\nHint: Think of a mirror.\n")
    assert "Hint" not in say(DOUBLE, lambda x: x * x)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: -2 * x, ": every sign is turned round$"),
        (lambda x: x / 2, ": everywhere 0.25 times as much$"),
        (lambda x: 2 * x[:, None], r": the shape is \(2, 1\) and should be \(2,\)$"),
        (lambda x: x + 1, r"should give \[2, 4\]$"),
        (lambda x: 0 * x, r"should give \[2, 4\]$"),
        (lambda x: np.full(2, np.inf), r"should give \[2, 4\]$"),
        (lambda x: "a text", r"should give \[2, 4\]$"),
    ],
)
def test_what_is_wrong_everywhere_alike_is_said(answer, said):
    verdict = grade(DOUBLE, answer)
    assert verdict.status == "wrong" and re.search(said, verdict.reason)


def test_one_number_has_no_factor():
    alone = Exercise(cases=((1,), (-1,)), oracle=lambda x: 3.0, misconceptions={}, hints=("",))
    assert grade(alone, lambda x: 6.0).reason == "for 1 it gives 6, and should give 3"
