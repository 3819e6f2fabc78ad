"""What chapter 06 reads from its stored runs: scores, verdicts, and what a clip fraction says of a round."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rlnotes.chapters.c06.experiment import ARMS, RATES, score
from rlnotes.studies.verdicts import Verdict, judge

MARGIN = 0.02  # of mean accuracy; stated before the runs were made
BINS = {"clipped": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 1.0), "kl": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)}
"""of what a round logged: its clip fraction, and KL(old, new) of a token at its end"""
FEWEST = 20  # rounds that a bin must hold to be shown
FALL = 0.05  # of held-out accuracy
Rows = Sequence[dict[str, Any]]


def chosen(rows: Rows, role: str, task: str, arm: str) -> list[dict[str, Any]]:
    """The runs of one arm on one task, tuning or reported, by start and seed."""
    found = [row for row in rows if (row["role"], row["task"], row["arm"]) == (role, task, arm)]
    return sorted(found, key=lambda row: (row["rate"], row["start"], row["seed"]))


def died(row: dict[str, Any]) -> bool:
    """Whether a run ended below half of the best sampled accuracy that it had reached."""
    return row["sampled"][-1] < 0.5 * max(row["sampled"])


def by_rate(rows: Rows, task: str, arm: str) -> np.ndarray:
    """Scores (rates, runs) of the tuning runs."""
    tuned = chosen(rows, "tuning", task, arm)
    return np.array([[score(row) for row in tuned if row["rate"] == rate] for rate in RATES])


def verdict(rows: Rows, task: str, arm: str, other: str) -> Verdict:
    """The course's verdict on two arms at their own best rates; runs of one start are one cluster."""
    ours, theirs = (chosen(rows, "reported", task, name) for name in (arm, other))
    scores = (np.array([score(row) for row in runs]) for runs in (ours, theirs))
    return judge(*scores, margin=MARGIN, clusters=[row["start"] for row in ours])


def results(rows: Rows, task: str) -> list[dict[str, Any]]:
    """A row for the untrained starts and one for each arm."""
    runs = chosen(rows, "reported", task, "clip")
    start = {key: np.mean([row[key][0] for row in runs]) for key in ("greedy", "sampled")}
    found = [{"arm": "untrained", "greedy, end": start["greedy"], "mean accuracy": start["sampled"]}]
    for arm in ARMS:
        runs = chosen(rows, "reported", task, arm)
        scores = np.array([score(row) for row in runs])
        found.append(
            {
                "arm": arm,
                "best rate": f"{runs[0]['rate']:g}",
                "greedy, end": np.mean([row["greedy"][-1] for row in runs]),
                "mean accuracy": scores.mean(),
                "lowest run": scores.min(),
                "died": f"{sum(map(died, runs))} of {len(runs)}",
                "minus clip": "" if arm == "clip" else str(verdict(rows, task, arm, "clip")),
            }
        )
    return found


def rounds_of(rows: Rows, task: str, arm: str) -> dict[str, np.ndarray]:
    """Every round of every run of an arm: what was logged, and ``change`` of held-out sampled accuracy over it."""
    runs = [row for row in rows if (row["task"], row["arm"]) == (task, arm)]
    found = {key: np.concatenate([row[key] for row in runs]) for key in ("clipped", "clipped_last", "kl", "outside")}
    found["change"] = np.concatenate([np.diff(row["sampled"]) for row in runs])
    found["before"] = np.concatenate([row["sampled"][:-1] for row in runs])
    return found


def by_log(rows: Rows, task: str, arm: str, key: str) -> list[dict[str, Any]]:
    """What rounds did whose ``key`` of ``BINS`` lay between two limits: their number, the mean change of accuracy with
    its standard error, and the share that fell.
    """
    seen, found = rounds_of(rows, task, arm), []
    for low, high in pairwise(BINS[key]):
        inside = (seen[key] >= low) & (seen[key] < high)
        if inside.sum() < FEWEST:
            continue
        change = seen["change"][inside]
        found.append(
            {
                "between": f"{low:g} to {high:g}" if np.isfinite(high) else f"above {low:g}",
                "rounds": int(inside.sum()),
                "accuracy before": seen["before"][inside].mean(),
                "mean change": change.mean(),
                "standard error": change.std(ddof=1) / len(change) ** 0.5,
                "share that fell": (change < -FALL).mean(),
            }
        )
    return found


def deaths(rows: Rows, task: str) -> list[dict[str, Any]]:
    """For each arm how many of its tuning runs died, at each learning rate."""
    found = []
    for arm in ARMS:
        tuned = chosen(rows, "tuning", task, arm)
        dead = {f"{rate:g}": sum(died(row) for row in tuned if row["rate"] == rate) for rate in RATES}
        found.append({"arm": arm} | dead)
    return found
