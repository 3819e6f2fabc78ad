"""What chapter 11 reads off its stored runs."""

from collections.abc import Callable, Sequence
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
BY_TOKEN = ("uncorrected", "token", "token, C = 2")
"""where the clip drops a token; a response's mean has one weight in every term, and less of it is left"""
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


def ends(task: str, method: str) -> np.ndarray:
    """The last accuracy of each run of a method, (runs,)."""
    return _contest().last(_best()[task, method], _contest().score, 1)


def less(task: str, ours: str, theirs: str, of: Callable[[str, str], np.ndarray] = scores) -> str:
    """The difference of two methods, with its interval and its word: in the mean over the run, or in their ``ends``."""
    margin = _contest().settings["comparison"]["margin"]
    return str(judge(of(task, ours), of(task, theirs), margin, _contest().starts_of(_best()[task, ours])))


def compared(tasks: Sequence[str], clip: bool = False, arms: Sequence[str] = tuple(ARMS)) -> Rows:
    """A row for each weight on each task, in the mean over the run and at its end: without the clip, after the start,
    beside token ratios; or with the clip beside the same weight without it.
    """
    rows = {(row["task"], row["method"]): row for row in results(_contest())}
    beside, found = "no clip" if clip else BESIDE, []
    for task in tasks:
        if not clip:
            start = float(rows[task, "untrained"]["mean"])
            found.append({"task": task, "weight": "untrained", "over the run": start})
        for arm in arms:
            ours, theirs = ARMS[arm][::-1] if clip else (ARMS[arm][0], ARMS[BESIDE][0])
            row: dict[str, Any] = {"task": task, "weight": arm + ", clip" * clip, "rate": rows[task, ours]["rate"]}
            for name, of in (("over the run", scores), ("at the end", ends)):
                row[name] = float(of(task, ours).mean())
                row[f"{name}, less {beside}"] = None if ours == theirs else less(task, ours, theirs, of)
            if clip:
                runs = _contest().rows[_best()[task, ours]].values()
                row["dropped"] = float(np.mean([np.nanmedian(run["no_gradient"]) for run in runs]))
            found.append(row | {"died": rows[task, ours]["died"]})
    first = {name: None for name in found[-1] if name != "task" or len(tasks) > 1}
    return [first | {name: row[name] for name in first if name in row} for row in found]


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
