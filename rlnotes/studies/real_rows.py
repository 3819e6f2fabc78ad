"""The stored measurements of the real model, read without PyTorch: how right its answers are, over the seconds."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

GOAL = 0.85  # of held-out questions, answered by sampling
ALONE = "alone"  # the arm by which speed is judged
ROWS = Path(__file__).parents[1] / "chapters" / "c18" / "18_real_curve.csv"


class Point(NamedTuple):
    """A measurement: seconds of steps until then, and the share of held-out questions answered right."""

    seconds: float
    accuracy: float
    greedy: float


def curves(arm: str = ALONE, path: Path = ROWS) -> dict[int, list[Point]]:
    """The stored measurements of an arm, by seed."""
    found: dict[int, list[Point]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["arm"] == arm:
                point = Point(*(float(row[name]) for name in ("seconds", "accuracy", "greedy")))
                found.setdefault(int(row["seed"]), []).append(point)
    return found


def reached(points: Iterable[Point], goal: float = GOAL) -> float:
    """Seconds of steps until a measurement of the sampled answers shows the ``goal``; infinite if none does."""
    return next((point.seconds for point in points if point.accuracy >= goal), float("inf"))
