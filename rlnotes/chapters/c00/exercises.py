"""Exercises of chapter 00, start here."""

import itertools

import numpy as np

from rlnotes.chapters.c00 import readings
from rlnotes.notebook.exercise import Exercise

CARELESS, RARE, DAMAGE = 0.001, 0.01, 5


def _return_by_listing(step: float) -> float:
    """Expected return of the mixed policy, from every way an episode can go."""
    door, button = (1 - step) * RARE + step, (1 - step) * CARELESS + step
    total = 0.0
    for through, bad in itertools.product((True, False), repeat=2):
        probability = (door if through else 1 - door) * (button if bad else 1 - button)
        total += probability * ((-DAMAGE if bad else 1) if through else 0.0)
    return total


def _largest_step_that_gains() -> float:
    steps = [i / 100 for i in range(1, 101)]
    return max(step for step in steps if _return_by_listing(step) > _return_by_listing(0.0))


def _most_promised() -> int:
    return int(np.argmax([row["promised"] for row in readings.logged()])) + 1


EXERCISES: dict[str, Exercise] = {
    "00.1": Exercise(
        cases=((),),
        oracle=_largest_step_that_gains,
        misconceptions={
            "there the surrogate promises most; the true curve is far below 0": lambda: 1.0,
            "there the true gain is largest; the question is how far you can go until it is gone": lambda: 0.08,
            "there the true change is already below 0": lambda: 0.16,
        },
        hints=("Watch the true change, not the predicted one. Each press of an arrow key moves the step by 0.01.",),
    ),
    "00.2": Exercise(
        cases=((),),
        oracle=lambda: "c",
        misconceptions={
            "the rewards are known exactly here; no sampling is involved": lambda: "a",
            "the buttons pay what they paid before; only how often they are pressed has changed": lambda: "b",
        },
        hints=("How often is the room entered before the step, and how often after it?",),
    ),
    "00.3": Exercise(
        cases=((),),
        oracle=readings.fell_after,
        misconceptions={
            "that round's rollout is already a bad one; it was sampled before its own updates": lambda: (
                readings.fell_after() + 1
            ),
            "those updates were promised most; was the next rollout worse?": _most_promised,
        },
        hints=("Between which two rollouts does the reward fall? Which updates lie between them?",),
    ),
}
