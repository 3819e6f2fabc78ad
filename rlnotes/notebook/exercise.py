"""Exercises that answer at once: not yet, wrong and why, or right. A check never raises.

Beside a function or a value that is asked for there are three kinds:

*predict, then run*
    The reader commits to a number, a word or an order, and only then the check runs the cell's ``run`` and compares
    with what it gives back. The oracle is the run as the package has it.
*read this log*
    The answer is a tuple, of a column and a step or of what is counted, and so is each mistake, with ``...`` for "any".
*repair this*
    ``given`` is what is wrong in one place; ``probes`` names the cases, so that a check says which of them fail: every
    region, both sides of every edge, a second value of every constant; and ``measure`` runs an answer on a case where
    its return alone says too little, as of a loss its gradient.
"""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
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
    | ``misconceptions`` | what a known mistake computes or answers, by the sentence that explains it |
    | ``hints`` | one hint, without code, for what goes wrong in no known way. Of several, one more with each such try |
    | ``also`` | a second right answer, where the question leaves room for two |
    | ``given`` | what the reader is to repair: handing it in unchanged is no try |
    | ``probes`` | a name for each case, for a check that says where an answer fails |
    | ``measure`` | ``measure(answer, *case)`` is compared with the oracle; without it, what the answer returns |

    The solution is folded below the exercise: whoever asks for it opens it there, after one try or none.
    """

    cases: tuple[tuple[Any, ...], ...]
    oracle: Callable[..., Any]
    misconceptions: dict[str, Any]
    hints: tuple[str, ...]
    tolerance: float = 1e-6
    also: Callable[..., Any] | None = None
    given: Any = None
    probes: tuple[str, ...] = ()
    measure: Callable[..., Any] | None = None

    def __post_init__(self):
        if self.probes and len(self.probes) != len(self.cases):
            raise ValueError(f"probes has {len(self.probes)} names for {len(self.cases)} cases; name each of them")

    def result(self, answer: Any, case: tuple[Any, ...]) -> Any:
        """What ``answer``, a function or a value, gives for ``case``, whose arguments it may write into."""
        if self.measure:
            return self.measure(answer, *deepcopy(case))
        return answer(*deepcopy(case)) if callable(answer) else answer

    def is_like(self, found: list[Any], other: Any) -> bool:
        """True if the results ``found`` of an answer are in every case those of ``other``, a mistake."""
        return all(_agree(a, self.result(other, c), self.tolerance) for a, c in zip(found, self.cases, strict=True))


@dataclass(frozen=True)
class Grade:
    """What a check found."""

    status: Literal["not yet", "wrong", "right"]
    reason: str = ""
    known: bool = False  # a mistake that the exercise knows by name, so that the reason is itself a hint
    fails: tuple[str, ...] = ()  # names of the probes on which it is wrong


def _letters(value: Any) -> list[str]:
    """The letters of a choice, however it is written: "(c), d", ["d", "c"] and "cd" are the same."""
    return sorted(letter for letter in "".join(map(str, value)).lower() if letter.isalpha())


def _agree(a: Any, b: Any, tolerance: float) -> bool:
    """The same choice of letters, or arrays of one shape and nearly the same numbers; NaN equals NaN.

    A tuple is compared part by part, in its order, and ``...`` in ``b`` agrees with anything.
    """
    if b is ...:
        return True
    if isinstance(b, tuple):
        same = isinstance(a, list | tuple | np.ndarray) and len(a) == len(b)
        return same and all(_agree(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(b, str):
        return isinstance(a, str | list | tuple | set) and _letters(a) == _letters(b)
    if isinstance(a, str):
        return False
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def _unanswered(answer: Any) -> bool:
    """True if there is no answer, or one of several parts is missing."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    return answer is None or any(part is ... for part in parts)


def _is_stub(function: Callable[..., Any]) -> bool:
    """True if the function's body is only what it was given as: a comment and ``...``, so it computes nothing."""
    code = getattr(function, "__code__", None)
    return code is not None and len(code.co_code) == len(_nothing.__code__.co_code)


def _nothing() -> None: ...


def grade(exercise: Exercise, answer: Any) -> Grade:
    """Judge ``answer``, a function or a value."""
    if _unanswered(answer):
        return Grade("not yet")
    found = []
    for case in exercise.cases:
        try:
            result = exercise.result(answer, case)
        except NotImplementedError:
            return Grade("not yet")
        except Exception as error:  # whatever a learner's code raises is news for the learner
            return Grade("wrong", f"for {_shown(case)} it raises {type(error).__name__}: {error}")
        if result is None and callable(answer) and not _is_stub(answer):
            return Grade("wrong", "the function gives back None: it must end with a return")
        if _unanswered(result):
            return Grade("not yet")
        found.append(result)
    wanted = [exercise.oracle(*case) for case in exercise.cases]
    try:
        right = [_agree(a, b, exercise.tolerance) for a, b in zip(found, wanted, strict=True)]
        if also := exercise.also:
            right = [r or _agree(a, also(*c), exercise.tolerance) for r, a, c in zip(right, found, exercise.cases)]  # noqa: B905
        if all(right):
            if np.asarray(wanted[0]).dtype == bool and np.asarray(found[0]).dtype != bool:
                return Grade("wrong", NOT_A_MASK, known=True)
            return Grade("right")
        if exercise.given is not None and exercise.is_like(found, exercise.given):
            return Grade("not yet", "It computes what the given one computes. Find where that is wrong, mend it")
        fails = tuple(name for name, r in zip(exercise.probes, right, strict=False) if not r)
        for reason, mistake in exercise.misconceptions.items():
            if exercise.is_like(found, mistake):
                return Grade("wrong", reason, known=True, fails=fails)
        alike = _alike(found, wanted, exercise.tolerance)
    except (TypeError, ValueError):  # not numbers at all
        return Grade("wrong", f"the answer {found[0]!r} is not of the kind that is asked for")
    i = right.index(False)
    case, got, asked = exercise.cases[i], found[i], wanted[i]
    if case and not isinstance(asked, str):
        reason = f"for {_shown(case)} it gives {_text(got)}, and should give {_text(asked)}{alike}"
        return Grade("wrong", reason, fails=fails)
    if not isinstance(asked, str | tuple) and isinstance(got, str) and any(map(str.isdigit, got)):
        return Grade("wrong", "write the number without quotes", known=True)  # the rest may be right: no hint
    reason = f"{got!r} is not the answer" if isinstance(got, str) else f"{_text(got)} is not the answer"
    if isinstance(asked, tuple) and not (isinstance(got, list | tuple) and len(got) == len(asked)):
        reason += f": {len(asked)} things are asked for, in brackets and with commas between"
    return Grade("wrong", reason)


def _alike(found: list[Any], wanted: list[Any], tolerance: float) -> str:
    """What is wrong with all of some arrays in the same way: their shape, their sign, or a factor."""
    if any(isinstance(x, str | tuple) for x in (*found, *wanted)):
        return ""
    for a, b in zip(found, wanted, strict=True):
        if np.shape(a) != np.shape(b):
            return f": the shape is {np.shape(a)} and should be {np.shape(b)}"
    a, b = (np.concatenate([np.ravel(np.asarray(x, dtype=np.float64)) for x in each]) for each in (found, wanted))
    if not np.isfinite([a, b]).all() or len(np.unique(abs(b).round(9))) < 2:
        return ""
    factor = a @ b / (b @ b)
    if factor == 0 or not np.allclose(a, factor * b, rtol=tolerance, atol=tolerance):
        return ""
    return ": every sign is turned round" if np.isclose(factor, -1) else f": everywhere {factor:.4g} times as much"


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


def check(name: str, answer: Any, run: Callable[[], Any] | None = None) -> None:
    """Say whether ``answer`` to exercise ``name`` is right, and if not, why.

    A mistake that is known is explained. Any other brings a hint. ``run`` is what the reader predicts: it is called as
    soon as there is an answer, and gives back the number, the word or the order to compare with. Only what it raises
    comes through.
    """
    exercise = find(name)
    if run and not _unanswered(answer):
        seen = run()
        print(f"Exercise {name}: the run gives {_text(seen)}.")
        exercise = replace(exercise, oracle=lambda: seen)
    verdict = grade(exercise, answer)
    if verdict.status == "not yet":
        print(f"Exercise {name}: not yet. {verdict.reason or 'Replace the ...'} and run the cell again.")
        return
    if verdict.status == "right":
        probes = f", on all {len(exercise.cases)} probes" if exercise.probes else ""
        print(f"Exercise {name}: right{probes}.")
        return
    print(f"Exercise {name}: wrong: {verdict.reason}{'' if verdict.reason.endswith('?') else '.'}")
    if verdict.fails:
        print(f"It fails at {len(verdict.fails)} of {len(exercise.cases)} probes: {'; '.join(verdict.fails)}.")
    if not verdict.known:
        print(_hint(name, exercise.hints))


def _hint(name: str, hints: tuple[str, ...]) -> str:
    if len(hints) == 1:
        return f"Hint: {hints[0]}"
    tries = _tries[name]
    _tries[name] += 1
    if tries < len(hints):
        return f"Hint {tries + 1} of {len(hints)}: {hints[tries]}"
    return "All hints are out. The solution is folded below."
