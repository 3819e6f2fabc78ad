"""Every exercise is tried with its solution, its stub, and wrong answers that must be told apart."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.bounds.cpi import step_size
from rlnotes.notebook import exercise
from rlnotes.notebook.exercise import Exercise, check, find, grade
from tests.course.form import Page

COURSE = Path(__file__).parents[2] / "course"


def exercises() -> dict[str, Exercise]:
    found = {}
    for path in sorted([*COURSE.glob("*.ipynb"), *COURSE.glob("deeper/*.ipynb")]):
        source = path.read_text(encoding="utf-8")
        for name in re.findall(r'check\(\\"([\d.]+)\\"', source):
            found[name] = find(name)
    return found


EXERCISES = exercises()


def cells(name: str) -> tuple[str, str]:
    """The cell that checks exercise ``name``, and the folded solution after it."""
    paths = [*COURSE.glob(f"{name.split('.')[0]}_*.ipynb"), *COURSE.glob(f"deeper/{name.split('.')[0]}_*.ipynb")]
    notebooks = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    sources = ["".join(cell["source"]) for notebook in notebooks for cell in notebook["cells"]]
    (i,) = [i for i, source in enumerate(sources) if f'check("{name}"' in source]
    solution = re.search(r"<details><summary>Solution</summary>\s+```python\n(.*?)```", sources[i + 1], re.DOTALL)
    assert solution, f"no folded solution after the cell of exercise {name}"
    return sources[i], solution.group(1)


def answer_in(code: str, checked: str) -> Any:
    """What the cell hands to its check, after ``code`` has run."""
    calls = [node for node in ast.walk(ast.parse(checked)) if isinstance(node, ast.Call)]
    (answer,) = [call.args[1] for call in calls if ast.unparse(call.func) == "check"]
    scope: dict[str, Any] = {"np": np, "torch": torch, "check": lambda *_, **__: None}
    exec(code, scope)
    return eval(compile(ast.Expression(answer), "answer", "eval"), scope)


def test_the_course_has_exercises():
    assert len(EXERCISES) >= 5


@pytest.mark.parametrize("name", EXERCISES)
def test_the_folded_solution_is_right(name):
    cell, solution = cells(name)
    verdict = grade(EXERCISES[name], answer_in(solution, cell))
    assert verdict.status == "right", verdict.reason


@pytest.mark.parametrize("name", EXERCISES)
def test_the_stub_is_not_yet(name):
    cell, _ = cells(name)
    assert grade(EXERCISES[name], answer_in(cell, cell)).status == "not yet"


def handed_in(found: Exercise, mistake: Any) -> Any:
    """A mistake as a reader hands it in: a function, or a value in which ``...`` has become a step."""
    if found.cases[0]:
        return mistake
    value = mistake() if callable(mistake) else mistake
    return tuple(-1 if part is ... else part for part in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", EXERCISES)
def test_named_misconceptions_are_told_apart(name):
    found = EXERCISES[name]
    for reason, mistake in found.misconceptions.items():
        verdict = grade(found, handed_in(found, mistake))
        assert verdict.status == "wrong"
        assert verdict.reason == reason


@pytest.mark.parametrize("name", EXERCISES)
def test_other_wrong_answers_are_rejected(name):
    found = EXERCISES[name]

    def off(*arguments):
        right = found.oracle(*arguments)
        if isinstance(right, str):
            return f"not {right}"
        numbers = np.asarray(right, dtype=float)
        return numbers + 0.01 * np.maximum(1, abs(numbers))

    def shaped(*arguments):
        return np.zeros((7, 7))

    def raising(*arguments):
        raise RuntimeError("oh")

    for wrong in (off, shaped, raising, lambda *_: np.nan, lambda *_: "a text", lambda *_: [[1], [2, 3]]):
        assert grade(found, wrong).status == "wrong"
    assert "RuntimeError: oh" in grade(found, raising).reason


@pytest.mark.parametrize("name", EXERCISES)
def test_there_are_enough_wrong_answers_and_a_ladder_of_hints(name):
    found = EXERCISES[name]
    assert len(found.misconceptions) >= (3 if found.cases[0] else 2)
    assert found.hints


def test_in_the_second_edition_hints_follow_the_mistake():
    """Beside the mistakes that are named there is one hint an exercise, which shows no code."""
    for name in EXERCISES:
        (path,) = COURSE.glob(f"{name.split('.')[0]}_*.ipynb")
        if Page.read(path).is_second_edition:
            assert len(EXERCISES[name].hints) == 1, name
            assert not re.search(r" = |return |np\.|torch\.", EXERCISES[name].hints[0]), name


EQUAL = Exercise(
    cases=((0.5, 2), (0.35, 4), (0.9, 8), (0.1, 3)),
    oracle=lambda p, size: p**size + (1 - p) ** size,
    misconceptions={"this counts only the groups in which all are right": lambda p, size: p**size},
    hints=("one", "two", "three"),
)
"""the share of groups whose rewards are all equal"""
OWN = Exercise(
    cases=((np.array([[5, 6, 0, 0], [5, 6, 7, 8], [0, 5, 0, 6]]), 0),),
    oracle=lambda tokens, eos: np.array([[True, True, True, False], [True] * 4, [True, False, False, False]]),
    misconceptions={},
    hints=("one",),
)
"""the mask of a response's own tokens"""
CENTRED = Exercise(
    cases=((np.array([1.0, 0.0, 0.0, 0.0]),), (np.array([2.0, 5.0, 11.0]),)),
    oracle=lambda rewards: (rewards - rewards.mean()) / rewards.std(),
    misconceptions={},
    hints=("one",),
)
"""the advantages of a group"""


def test_check_prints_and_never_raises(capsys, monkeypatch):
    exercise._tries.clear()
    monkeypatch.setattr(exercise, "find", lambda name: EQUAL)
    check("07.6", ...)
    check("07.6", None)
    assert capsys.readouterr().out.count("not yet") == 2
    check("07.6", lambda p, g: p**g)
    shown = capsys.readouterr().out
    assert "counts only the groups in which all are right" in shown and "Hint" not in shown
    for _ in range(4):
        check("07.6", lambda p, g: p + g)
    shown = capsys.readouterr().out
    assert [f"Hint {i} of 3" in shown for i in (1, 2, 3)] == [True] * 3
    assert "All hints are out" in shown
    check("07.6", lambda p, g: p**g + (1 - p) ** g)
    assert capsys.readouterr().out == "Exercise 07.6: right.\n"
    check("07.6", "something else")
    assert "wrong" in capsys.readouterr().out


def test_an_unknown_mistake_is_answered_with_the_case_and_the_right_value():
    verdict = grade(EQUAL, lambda p, g: 0.25)
    assert verdict.status == "wrong" and "for 0.5, 2 it gives 0.25, and should give 0.5" in verdict.reason


def test_an_answer_that_writes_into_its_arguments_spoils_nothing():
    def wrong(tokens, eos):
        tokens[:] = 1
        return tokens > 0

    def right(rewards):
        rewards -= rewards.mean()
        return rewards / np.sqrt((rewards**2).mean())

    assert grade(OWN, wrong).status == "wrong"
    assert grade(CENTRED, right).status == "right"
    assert grade(CENTRED, lambda r: r / np.sqrt(r.var() + 1e-8)).status == "wrong"


def test_an_expression_whose_value_goes_nowhere_is_no_stub():
    def forgotten(p, group_size):
        p**group_size + (1 - p) ** group_size  # pyright: ignore[reportUnusedExpression]

    verdict = grade(EQUAL, forgotten)
    assert verdict.status == "wrong" and "return" in verdict.reason


def test_a_mask_of_numbers_is_told_apart():
    def numbers(tokens, eos):
        ends = (tokens == eos).astype(int)
        return (np.cumsum(ends, axis=1) - ends == 0).astype(int)

    verdict = grade(OWN, numbers)
    assert verdict.status == "wrong" and "True and False" in verdict.reason


def test_a_forgotten_return_is_named():
    def forgotten(rewards):
        advantages = rewards - rewards.mean()  # noqa: F841

    verdict = grade(CENTRED, forgotten)
    assert verdict.status == "wrong" and "return" in verdict.reason


@pytest.mark.parametrize("text", ["b", "B", "(b)", " b "])
def test_a_letter_may_be_written_as_it_is_printed(text):
    assert grade(replace(OWN, cases=((),), oracle=lambda: "b"), text).status == "right"


def judged(name: str, answer: Any) -> str:
    verdict = grade(find(name), answer)
    assert verdict.status == "wrong"
    assert verdict.known, verdict.reason
    return verdict.reason


def test_01_3_refuses_a_logarithm_of_the_weight_that_overflows():
    """Exp last, or never: the advice of the chapter's section on products."""

    def weight_first(logp_behavior, logp, mask):
        with np.errstate(all="ignore"):
            return np.log(np.exp(np.where(mask, logp - logp_behavior, 0).sum(-1)))

    def ratios_first(logp_behavior, logp, mask):
        with np.errstate(all="ignore"):
            return np.log(np.prod(np.exp(np.where(mask, logp - logp_behavior, 0)), -1))

    for wrong in (weight_first, ratios_first):
        assert "overflows" in judged("01.3", wrong)
    assert grade(find("01.3"), lambda q, p, m: np.nansum(np.where(m, p - q, np.nan), -1)).status == "right"


def test_chapter_04_the_largest_gain_counts_states_that_the_old_policy_never_visits():
    def visited_only(d, other, a_old, gamma):
        G = (other * a_old).sum(-1)
        return [d @ G / (1 - gamma), np.abs(G[d > 0]).max()]

    verdict = grade(find("04.1"), visited_only)
    assert verdict.status == "wrong" and "over all states" in verdict.reason


@pytest.mark.parametrize("at_zero", [lambda g: 1.0, lambda g: float(g != 0)])
def test_chapter_04_a_discount_of_zero_does_not_make_a_losing_step_safe(at_zero):
    def careless(gamma, g, epsilon):
        if gamma == 0:
            return at_zero(g)
        return 0.0 if g <= 0 else min(1.0, (1 - gamma) ** 2 * g / (4 * gamma * epsilon))

    for case in find("04.3").cases:
        assert find("04.3").oracle(*case) == pytest.approx(step_size(*case), abs=1e-6)
    assert step_size(0.0, -0.5, 1.0) == 0.0
    assert grade(find("04.3"), careless).status == "wrong"


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.3])
def test_chapter_04_an_estimate_of_g_that_is_right_in_the_mean_is_right(constant):
    def centred(walks, gamma):
        return np.mean([(gamma ** np.arange(len(r)) * (r - constant) * a).sum() for r, a in walks])

    assert grade(find("04.5"), centred).status == "right"
