"""Every exercise is tried with its solution, its stub, and wrong answers that must be told apart."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook import exercise
from rlnotes.notebook.exercise import Exercise, check, find, grade

COURSE = Path(__file__).parents[2] / "course"


def exercises() -> dict[str, Exercise]:
    found = {}
    for path in sorted(COURSE.glob("*.ipynb")):
        source = path.read_text(encoding="utf-8")
        for name in re.findall(r'check\(\\"([\d.]+)\\"', source):
            found[name] = find(name)
    return found


EXERCISES = exercises()


def cells(name: str) -> tuple[str, str]:
    """The cell that checks exercise ``name``, and the folded solution after it."""
    (path,) = COURSE.glob(f"{name.split('.')[0]}_*.ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    (i,) = [i for i, source in enumerate(sources) if f'check("{name}"' in source]
    solution = re.search(r"<details><summary>Solution</summary>\s+```python\n(.*?)```", sources[i + 1], re.DOTALL)
    assert solution, f"no folded solution after the cell of exercise {name}"
    return sources[i], solution.group(1)


def answer_in(code: str, checked: str) -> Any:
    """What ``code`` gives the name that the cell hands to its check."""
    name = re.findall(r'check\("[\d.]+", (\w+)\)', checked)[0]
    scope: dict[str, Any] = {"np": np, "check": lambda *_: None}
    exec(code, scope)
    return scope[name]


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


@pytest.mark.parametrize("name", EXERCISES)
def test_named_misconceptions_are_told_apart(name):
    found = EXERCISES[name]
    for reason, mistake in found.misconceptions.items():
        verdict = grade(found, mistake if found.cases[0] else mistake())
        assert verdict.status == "wrong"
        assert verdict.reason == reason


@pytest.mark.parametrize("name", EXERCISES)
def test_other_wrong_answers_are_rejected(name):
    found = EXERCISES[name]

    def off(*arguments):
        right = found.oracle(*arguments)
        return f"not {right}" if isinstance(right, str) else np.asarray(right, dtype=float) + 0.01

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


def test_check_prints_and_never_raises(capsys):
    exercise._tries.clear()
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
    verdict = grade(find("07.6"), lambda p, g: 0.25)
    assert verdict.status == "wrong" and "for 0.5, 2 it gives 0.25, and should give 0.5" in verdict.reason


def test_an_answer_that_writes_into_its_arguments_spoils_nothing():
    def wrong(tokens, eos):
        tokens[:] = 1
        return tokens > 0

    def right(rewards):
        rewards -= rewards.mean()
        return rewards / np.sqrt((rewards**2).mean() + 1e-8)

    assert grade(find("07.5"), wrong).status == "wrong"
    assert grade(find("07.1"), right).status == "right"
    assert grade(find("07.1"), lambda r: r / np.sqrt(r.var() + 1e-8)).status == "wrong"


def test_an_expression_whose_value_goes_nowhere_is_no_stub():
    def forgotten(p, group_size):
        p**group_size + (1 - p) ** group_size  # pyright: ignore[reportUnusedExpression]

    verdict = grade(find("07.6"), forgotten)
    assert verdict.status == "wrong" and "return" in verdict.reason


def test_a_mask_of_numbers_is_told_apart():
    def numbers(tokens, eos):
        ends = (tokens == eos).astype(int)
        return (np.cumsum(ends, axis=1) - ends == 0).astype(int)

    verdict = grade(find("07.5"), numbers)
    assert verdict.status == "wrong" and "True and False" in verdict.reason


def test_a_forgotten_return_is_named():
    def forgotten(rewards):
        advantages = rewards - rewards.mean()  # noqa: F841

    verdict = grade(find("07.1"), forgotten)
    assert verdict.status == "wrong" and "return" in verdict.reason


@pytest.mark.parametrize("text", ["b", "B", "(b)", " b "])
def test_a_letter_may_be_written_as_it_is_printed(text):
    assert grade(find("07.2"), text).status == "right"
