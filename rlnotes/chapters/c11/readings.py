"""What chapter 11 reads off its stored runs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rlnotes.studies.contest import results
from rlnotes.studies.tables import Table, grids, load_rows, load_table
from rlnotes.studies.verdicts import judge

Rows = list[dict[str, Any]]

TASKS = ("misled lag 64", "misled int4", "ledger int8")
# What the page calls a weight, and the methods of the contest without the clip and with it
ARMS = {
    "uncorrected": ("uncorrected", "uncorrected clip"),
    "token": ("unclipped", "pg_is clip"),
    "token, C = 2": ("token_tis", "token_tis clip"),
    "response": ("sequence_is", "sequence_is clip"),
    "response, C = 2": ("seq_tis", "seq_tis clip"),
}
BESIDE = "token"  # what weights are compared with
MINIBATCH = 128  # responses of an update in the loop and in the contest
ALARM = 0.1  # mean |pi - mu| of sampled tokens


@cache
def _contest() -> Table:
    return load_table("11_corrections")


@cache
def _best() -> dict[tuple[str, str], str]:
    """The method at its own rate, by task and objective."""
    table = _contest()
    names = (table.best(grid) for grid in grids(table.labels))
    return {(table.labels[name]["task"], table.labels[name]["recipe"]): name for name in names}


def scores(task: str, method: str) -> np.ndarray:
    """The mean accuracy of each run of a method, (runs,)."""
    return _contest().mean(_best()[task, method], _contest().score)


def less(task: str, ours: str, theirs: str) -> str:
    """The difference of two methods, with its interval and its word."""
    margin = _contest().settings["comparison"]["margin"]
    return str(judge(scores(task, ours), scores(task, theirs), margin, _contest().starts_of(_best()[task, ours])))


def clip_or_not(tasks: Sequence[str]) -> Rows:
    """A row for the start and for each weight on each task: without the clip, less token ratios; and what the clip
    adds.
    """
    rows = {(row["task"], row["method"]): row for row in results(_contest())}
    found: Rows = []
    for task in tasks:
        start = rows[task, "untrained"]
        found.append({"task": task, "weight": "untrained", "rates": None, "no clip": float(start["mean"])})
        for arm, (plain, clipped) in ARMS.items():
            own, other = rows[task, plain], rows[task, clipped]
            row: dict[str, Any] = {"task": task, "weight": arm, "rates": f"{own['rate']}, {other['rate']}"}
            row["no clip"] = float(own["mean"])
            row["less token"] = None if arm == BESIDE else less(task, plain, ARMS[BESIDE][0])
            row |= {"clip": float(other["mean"]), "clip less no clip": less(task, clipped, plain)}
            died = (own["died"].split(" of ")[0], other["died"].split(" of ")[0])
            found.append(row | {"died": ", ".join(died)})
    first = {name: None for name in found[1]}
    return [first | row for row in found]


def starts() -> dict[str, float]:
    """Greedy accuracy of the start, by task."""
    return {row["task"]: float(row["start, greedy"]) for row in results(_contest())}


def farthest(tasks: Sequence[str]) -> float:
    """The largest median of mean |pi - mu| of any run on some tasks."""
    runs = [run for (task, _), name in _best().items() if task in tasks for run in _contest().rows[name].values()]
    return max(float(np.nanmedian(run["mismatch"])) for run in runs)


def far(task: str) -> Rows:
    """Mean |pi - mu| of the runs of each method on a task, lowest, median and highest run; of how many it is above
    the alarm; and how many died.
    """
    rows = {(row["task"], row["method"]): row for row in results(_contest())}
    found: Rows = []
    for arm, methods in ARMS.items():
        for method, kind in zip(methods, ("", ", clip"), strict=True):
            runs = _contest().rows[_best()[task, method]].values()
            moved = np.array([np.nanmedian(run["mismatch"]) for run in runs])
            row: dict[str, Any] = {"weight": arm + kind, "mean accuracy": float(rows[task, method]["mean"])}
            row["mean |π − μ|"] = f"{np.median(moved):.3f} ({moved.min():.3f} to {moved.max():.3f})"
            found.append(row | {f"above {ALARM}": f"{(moved > ALARM).sum()} of {len(moved)}"})
    return found


def measured(age: int) -> Rows:
    """The stored measurements with data ``age`` rounds older than those of the last round."""
    return [row for row in load_rows("11_measured") if row["age"] == age]


def measured_in_short(ages: Sequence[int]) -> Rows:
    """Median (lowest to highest) of noise number and cosine, by age and weight, and what a minibatch keeps."""
    found: Rows = []
    for age in ages:
        for weight in dict.fromkeys(row["weight"] for row in measured(age)):
            own = [row for row in measured(age) if row["weight"] == weight]
            noise = np.array([row["noise"] for row in own])
            row: dict[str, Any] = {"data": "last round" if age == 0 else f"{age} rounds older", "weight": weight}
            row["n*"] = f"{np.median(noise):.0f} ({noise.min():.0f} to {noise.max():.0f})"
            if weight != "fresh":
                cosine = np.array([one["cosine"] for one in own])
                row["cosine"] = f"{np.median(cosine):.2f} ({cosine.min():.2f} to {cosine.max():.2f})"
                direction = np.clip(cosine, 0, 1) ** 2
                row["kept"] = float(np.median(direction / (1 + noise / MINIBATCH)))
            found.append(row)
    return [{"data": "", "weight": "", "n*": "", "cosine": None, "kept": None} | row for row in found]
