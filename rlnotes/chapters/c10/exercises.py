"""Exercises of chapter 10, SAPO."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import root_scalar

from rlnotes.notebook.exercise import Exercise

TENTH, STRENGTH = 0.1, 10.0  # of exercise 10.5: how far the gate is open, and how strong it is
LOG, ROW = "34b7", 26  # of exercise 10.3: a stored log, and its row


def _sech2(x: float) -> float:
    return 1 / math.cosh(x) ** 2


def _range_of_the_mean_gate() -> str:
    """After a round of the loop on sort, in the mean over the rounds of six stored runs."""
    from rlnotes.chapters.c10.readings import range_of  # only here: it reads a table
    from rlnotes.studies.tables import load_rows

    runs = [one for one in load_rows("10_live") if (one["role"], one["task"]) == ("loop", "sort")]
    (found,) = {range_of(one["mean_gate"]) for one in runs if one["gate"] == "sapo"}
    return found


def _held() -> tuple[float, float]:
    """Bad tokens below 0.8 and good ones above 1.2, as shares of all, in one row of a stored log."""
    from rlnotes.logs.stored_logs import stored_log  # only here: it reads a log

    (row,) = (one for one in stored_log(LOG).rows() if one.get("step") == ROW and "clip_ratio/low_mean" in one)
    return row["clip_ratio/low_mean"], row["clip_ratio/high_mean"]


def _share_of_bad() -> float:
    low, high = _held()
    return low / (low + high)


# --- 10.4: gates (r, A, tau) -> what r A is multiplied by, tensors

GateOf = Callable[[Any, Any, float], Any]
PLACES = {
    "good, far the right way": (3.0, 1.0, 1.0),
    "good, a little the right way": (1.1, 2.0, 10.0),
    "good, gone the wrong way": (0.4, 1.0, 3.0),
    "bad, far the right way": (0.2, -1.0, 3.0),
    "bad, a little the right way": (0.9, -0.5, 10.0),
    "bad, gone the wrong way": (3.0, -1.0, 1.0),
    "not moved": (1.0, -1.0, 10.0),
}


def _as_tensors(gate: GateOf, r: float, A: float, tau: float) -> np.ndarray:
    """The gate of one token, which stands between two others, since a gate works on arrays: theirs do not count."""
    import torch  # only here: the other exercises work without it

    ratios, advantages = torch.tensor([0.5, r, 2.0]), torch.tensor([1.0, A, 1.0])
    return torch.as_tensor(gate(ratios, advantages, tau)).double().numpy()[1]


def _by_the_smaller_term(r: float, A: float, tau: float) -> float:
    """The slope of the smaller of r A and the shifted soft term, by a difference quotient, over A."""

    def term(r: float, A: float) -> float:
        area, _ = quad(lambda x: _sech2(tau / 2 * (x - 1)), 1, r, epsabs=1e-13)
        return min(r * A, A + A * area)

    h = 1e-4
    return (term(r + h, A) - term(r - h, A)) / (2 * h * A)


def _soft(r: Any, tau: float) -> Any:
    return (tau * (r - 1) / 2).cosh() ** -2


def _given(r: Any, A: Any, tau: float) -> Any:
    import torch

    return torch.where(r > 1, _soft(r, tau), 1.0)


def _where(condition: Callable[[Any, Any], Any]) -> GateOf:
    def gate(r: Any, A: Any, tau: float) -> Any:
        import torch

        return torch.where(condition(r, A), _soft(r, tau), 1.0)

    return gate


# --- 10.5


def _shut_at() -> float:
    """The root of the gate less a tenth, below ratio 1."""
    return root_scalar(lambda r: _sech2(STRENGTH / 2 * (r - 1)) - TENTH, bracket=(0, 1)).root


# --- 10.2


def _held_too() -> tuple[str, str]:
    """Letters of what a hold on fallen good tokens changes, on needle and on sort, in the stored runs."""
    from rlnotes.chapters.c10.readings import less_clip, letter_of  # only here: it reads a table

    needle, sort = (
        letter_of(float(less_clip(task, "clip, fallen good held too").mean())) for task in ("needle", "sort")
    )
    return needle, sort


EXERCISES: dict[str, Exercise] = {
    "10.1": Exercise(
        cases=((),),
        oracle=_range_of_the_mean_gate,
        misconceptions={
            "a gate of strength 1 is that small only near ratio 0 or beyond 1.96: few tokens are there": lambda: "a",
            "so much the clip would take, about one token in ten. The soft gate leaves most of such a token": lambda: (
                "b"
            ),
            "it takes away less. Within 0.2 of ratio 1 one per cent at most, and most tokens are there": lambda: "c",
        },
        hints=("Most tokens stay near ratio 1. How much does the gate take away there? Fact 10.2 (i).",),
    ),
    "10.2": Exercise(
        cases=((),),
        oracle=_held_too,
        misconceptions={
            "first needle: so it would be if every good token were right. A response with one right symbol of four is "
            "better than its group. What are its other three?": lambda: ("a", ...),
            "first needle: it changes more than that. Which symbols does the clip pull back there?": (
                lambda: ("b", ...)
            ),
            "needle is right. On sort the clip still brings back the bad tokens that have risen": lambda: (
                _held_too()[0],
                "a",
            ),
            "needle is right. On sort few tokens have fallen that should have risen: little is left to gain": lambda: (
                _held_too()[0],
                "c",
            ),
        },
        hints=("Which of a response's tokens are good? Its advantage is one for all of them.",),
    ),
    "10.3": Exercise(
        cases=((),),
        oracle=lambda: (_share_of_bad(), _sech2(1.05 / 2)),
        misconceptions={
            "the share is right. That is the gate inside the clip's band; these tokens are below 0.8, and may be far": (
                lambda: (_share_of_bad(), 0.99)
            ),
            "the share is right. That is the clip's gate; a soft one is never 0, and below ratio 1 it has a floor": (
                lambda: (_share_of_bad(), 0.0)
            ),
            "the share is right. That is the floor of strength 1, for good tokens; bad ones have 1.05": (
                lambda: (_share_of_bad(), _sech2(0.5))
            ),
            "the share is right. How small can the gate of a bad token get, however small its ratio?": (
                lambda: (_share_of_bad(), ...)
            ),
            "first the share: that is the share of good tokens, high over region": lambda: (1 - _share_of_bad(), ...),
            "first the share: that is low over high; asked is the share of all that the clip held": (
                lambda: (_held()[0] / _held()[1], ...)
            ),
            "first the share: that is one of all tokens; asked is that of those which the clip held": (
                lambda: (_held()[0], ...)
            ),
            "first the share: as a share, between 0 and 1, not per cent": lambda: (100 * _share_of_bad(), ...),
        },
        hints=("region is low plus high: bad tokens below 0.8, and good ones above 1.2.",),
        tolerance=0.0035,
    ),
    "10.4": Exercise(
        cases=tuple(PLACES.values()),
        probes=tuple(PLACES),
        oracle=_by_the_smaller_term,
        measure=_as_tensors,
        given=_given,
        tolerance=1e-4,
        misconceptions={
            "it closes on both sides: a token that went the wrong way is let go, too": lambda r, A, tau: _soft(r, tau),
            "the sides are swapped: it stops the way back and leaves the way out open": _where(
                lambda r, A: (r - 1) * A < 0
            ),
            "no bad token is ever stopped: for A < 0 the way out is below 1": _where(lambda r, A: (A > 0) & (r > 1)),
            "good tokens are stopped on the way back, too: the side depends on r and on A": _where(
                lambda r, A: (A > 0) | (r < 1)
            ),
            "bad tokens are stopped on the way back, too: the side depends on r and on A": _where(
                lambda r, A: (A < 0) | (r > 1)
            ),
            "good tokens are never stopped: for A > 0 the way out is above 1": _where(lambda r, A: (A < 0) & (r < 1)),
            "the sign of A alone does not say which way the token has moved: compare r with 1, too": _where(
                lambda r, A: A > 0
            ),
            "of A only the sign counts: its size does not narrow the gate": lambda r, A, tau: _where(
                lambda r, A: (r - 1) * A > 0
            )(1 + (r - 1) * abs(A), A, tau),
            "the gate alone is asked for, without the advantage": lambda r, A, tau: (
                A * _where(lambda r, A: (r - 1) * A > 0)(r, A, tau)
            ),
            "the gate alone is asked for, without the ratio": lambda r, A, tau: (
                r * _where(lambda r, A: (r - 1) * A > 0)(r, A, tau)
            ),
        },
        hints=("For which r has a token with A < 0 moved the way its advantage asks?",),
    ),
    "10.5": Exercise(
        cases=((),),
        oracle=_shut_at,
        tolerance=2.5e-3,
        misconceptions={
            "there half of the gate is left; asked is a tenth": lambda: 1 - 2 * math.acosh(math.sqrt(2)) / STRENGTH,
            "this makes the root of the gate a tenth: sech is squared": lambda: 1 - 2 * math.acosh(10) / STRENGTH,
            "inside the sech stands half of tau: a factor 2 is missing": lambda: (
                1 - math.acosh(math.sqrt(10)) / STRENGTH
            ),
            "this solves the bound of (i), which is far from exact where the gate is nearly closed": lambda: (
                1 - 2 * math.sqrt(1 - TENTH) / STRENGTH
            ),
            "that is strength 10.5; this gate has 10": lambda: 1 - 2 * math.acosh(math.sqrt(10)) / 10.5,
            "that is its distance from ratio 1": lambda: 2 * math.acosh(math.sqrt(10)) / STRENGTH,
            "there, too; but a token that falls is below ratio 1": lambda: 1 + 2 * math.acosh(math.sqrt(10)) / STRENGTH,
        },
        hints=("Where is the square of cosh equal to 10? That is half of tau times the distance from ratio 1.",),
    ),
}
