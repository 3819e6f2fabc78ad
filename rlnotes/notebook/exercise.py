"""Exercises that answer at once: not yet, wrong and why, or right. A check never raises."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

SHOWN = 8  # entries of an array in a message
NOT_A_MASK = (
    "the places are right, but these are numbers, and x[mask] does not pick the places of the ones then. "
    "Give back True and False, for example by a comparison"
)


@dataclass(frozen=True)
class Exercise:
    """A question with an answer that can be computed in a second, independent way.

    | field | meaning |
    |---|---|
    | ``cases`` | arguments that the learner's function is called with; one empty tuple if the answer is a value |
    | ``oracle`` | the right answer to each, found another way than the solution finds it |
    | ``misconceptions`` | what a known mistake computes, by the sentence that explains it |
    | ``hints`` | shown one after another, one more with each try that goes wrong in no known way |
    | ``also`` | a second right answer, where the question leaves room for two |
    """

    cases: tuple[tuple[Any, ...], ...]
    oracle: Callable[..., Any]
    misconceptions: dict[str, Callable[..., Any]]
    hints: tuple[str, ...]
    tolerance: float = 1e-6
    also: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Grade:
    """What a check found."""

    status: Literal["not yet", "wrong", "right"]
    reason: str = ""
    known: bool = False  # a mistake that the exercise knows by name, so that the reason is itself a hint


def _letters(value: Any) -> list[str]:
    """The letters of a choice, however it is written: "(c), d", ["d", "c"] and "cd" are the same."""
    return sorted(letter for letter in "".join(value).lower() if letter.isalpha())


def _agree(a: Any, b: Any, tolerance: float) -> bool:
    """The same choice of letters, or arrays of one shape and nearly the same numbers; NaN equals NaN."""
    if isinstance(b, str):
        return isinstance(a, str | list | tuple | set) and _letters(a) == _letters(b)
    if isinstance(a, str):
        return False
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def _unanswered(answer: Any) -> bool:
    return answer is None or answer is ...


def _is_stub(function: Callable[..., Any]) -> bool:
    """True if the function's body is only what it was given as: a comment and ``...``, so it computes nothing."""
    code = getattr(function, "__code__", None)
    return code is not None and len(code.co_code) == len(_nothing.__code__.co_code)


def _nothing() -> None: ...


def grade(exercise: Exercise, answer: Any) -> Grade:
    """Judge ``answer``, a function or a value."""
    if _unanswered(answer):
        return Grade("not yet")
    function = answer if callable(answer) else lambda: answer
    found = []
    for case in exercise.cases:
        try:
            result = function(*deepcopy(case))  # an answer may write into its arguments
        except NotImplementedError:
            return Grade("not yet")
        except Exception as error:  # whatever a learner's code raises is news for the learner
            return Grade("wrong", f"for {_shown(case)} it raises {type(error).__name__}: {error}")
        if result is None and callable(answer) and not _is_stub(answer):
            return Grade("wrong", "the function gives back None: it must end with a return")
        if _unanswered(result):
            return Grade("not yet")
        found.append(result)
    try:
        right = [_agree(a, exercise.oracle(*case), exercise.tolerance) for a, case in zip(found, exercise.cases)]  # noqa: B905
        if also := exercise.also:
            right = [r or _agree(a, also(*c), exercise.tolerance) for r, a, c in zip(right, found, exercise.cases)]  # noqa: B905
        if all(right):
            wanted = exercise.oracle(*exercise.cases[0])
            if np.asarray(wanted).dtype == bool and np.asarray(found[0]).dtype != bool:
                return Grade("wrong", NOT_A_MASK, known=True)
            return Grade("right")
        for reason, mistake in exercise.misconceptions.items():
            if all(_agree(a, mistake(*c), exercise.tolerance) for a, c in zip(found, exercise.cases, strict=True)):
                return Grade("wrong", reason, known=True)
    except (TypeError, ValueError):  # not numbers at all
        return Grade("wrong", f"the answer {found[0]!r} is not of the kind that is asked for")
    i = right.index(False)
    wanted = exercise.oracle(*exercise.cases[i])
    if isinstance(wanted, str):
        return Grade("wrong", f"{found[i]!r} is not the answer")
    if not exercise.cases[i]:
        quoted = isinstance(found[i], str)
        return Grade("wrong", "write the number without quotes" if quoted else f"{_text(found[i])} is not the answer")
    where = f"for {_shown(exercise.cases[i])} it gives"
    return Grade("wrong", f"{where} {_text(found[i])}, and should give {_text(wanted)}")


def _shown(case: tuple[Any, ...]) -> str:
    return ", ".join(_text(argument) for argument in case) or "no argument"


def _text(value: Any) -> str:
    """An argument or answer as one line, arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        parts = [_text(part) for part in value[:SHOWN]] + [f"... {len(value)} in all"] * (len(value) > SHOWN)
        return "[" + ", ".join(parts) + "]"
    return f"{value + 0.0:.6g}" if isinstance(value, float) else str(value)  # + 0.0 turns -0.0 into 0


_tries: Counter[str] = Counter()


def find(name: str) -> Exercise:
    """The exercise called ``name``: "07.2" is the second of chapter 07. Raises ``KeyError`` if there is none."""
    module = import_module(f"rlnotes.chapters.c{name.split('.')[0]}.exercises")
    return module.EXERCISES[name]


def check(name: str, answer: Any) -> None:
    """Say whether ``answer`` to exercise ``name`` is right, and if not, why.

    A mistake that is known is explained. Any other brings the next hint; the last one gives the answer away.
    """
    exercise = find(name)
    verdict = grade(exercise, answer)
    if verdict.status == "not yet":
        print(f"Exercise {name}: not yet. Replace the ... and run the cell again.")
        return
    if verdict.status == "right":
        print(f"Exercise {name}: right.")
        return
    print(f"Exercise {name}: wrong: {verdict.reason}.")
    if verdict.known:
        return
    tries = _tries[name]
    _tries[name] += 1
    if tries < len(exercise.hints):
        print(f"Hint {tries + 1} of {len(exercise.hints)}: {exercise.hints[tries]}")
    else:
        print("All hints are out. The solution is folded below.")
