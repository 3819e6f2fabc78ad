"""What chapter 11 reads off its stored runs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rlnotes.studies import contest
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import Verdict, judge

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
def _chosen() -> dict[tuple[str, str], str]:
    """The method at its own rate, by task and objective."""
    return contest.chosen(_contest())


def scores(task: str, method: str) -> np.ndarray:
    """The mean accuracy of each run of a method, (runs,)."""
    return _contest().mean(_chosen()[task, method], _contest().score)


def ends(task: str, method: str) -> np.ndarray:
    """The last accuracy of each run of a method, (runs,)."""
    return _contest().last(_chosen()[task, method], _contest().score, 1)


def less(task: str, ours: str, theirs: str) -> Verdict:
    """The verdict on two methods, in the mean over the run."""
    return contest.less(_contest(), _chosen()[task, ours], _chosen()[task, theirs])


def less_at_the_end(task: str, ours: str, theirs: str) -> Verdict:
    """The verdict on two methods, in the last accuracy."""
    margin = _contest().settings["comparison"]["margin"]
    return judge(ends(task, ours), ends(task, theirs), margin, _contest().starts_of(_chosen()[task, ours]))


def compared(
    tasks: Sequence[str], clip: bool = False, arms: Sequence[str] = tuple(ARMS), verdict_at_the_end: bool = True
) -> Rows:
    """A row for each weight on each task, in the mean over the run and at its end: without the clip, after the start,
    beside token ratios; or with the clip beside the same weight without it.
    """
    rows = {(row["task"], row["method"]): row for row in contest.results(_contest())}
    beside, found = "no clip" if clip else BESIDE, []
    for task in tasks:
        if not clip:
            start = float(rows[task, "untrained"]["mean"])
            found.append({"task": task, "weight": "untrained", "over the run": start})
        for arm in arms:
            ours, theirs = ARMS[arm][::-1] if clip else (ARMS[arm][0], ARMS[BESIDE][0])
            row: dict[str, Any] = {"task": task, "weight": arm + ", clip" * clip, "rate": rows[task, ours]["rate"]}
            row["over the run"] = float(scores(task, ours).mean())
            row[f"over the run, less {beside}"] = None if ours == theirs else str(less(task, ours, theirs))
            row["at the end"] = float(ends(task, ours).mean())
            if verdict_at_the_end:
                told = None if ours == theirs else str(less_at_the_end(task, ours, theirs))
                row[f"at the end, less {beside}"] = told
            if clip:
                runs = _contest().rows[_chosen()[task, ours]].values()
                row["dropped"] = float(np.mean([np.nanmedian(run["no_gradient"]) for run in runs]))
            found.append(row | {"died": rows[task, ours]["died"]})
    first = {name: None for name in found[-1] if name != "task" or len(tasks) > 1}
    return [first | {name: row[name] for name in first if name in row} for row in found]


def starts() -> dict[str, float]:
    """Greedy accuracy of the start, by task."""
    return {row["task"]: float(row["start, greedy"]) for row in contest.results(_contest())}


def farthest(tasks: Sequence[str]) -> float:
    """The largest median of mean |pi - mu| of any run on some tasks."""
    runs = [run for (task, _), name in _chosen().items() if task in tasks for run in _contest().rows[name].values()]
    return max(float(np.nanmedian(run["mismatch"])) for run in runs)


def far(task: str) -> Rows:
    """Mean |pi - mu| of the runs of each method on a task, lowest, median and highest run; of how many it is above
    the alarm; and how many died.
    """
    rows = {(row["task"], row["method"]): row for row in contest.results(_contest())}
    found: Rows = []
    for arm, methods in ARMS.items():
        for method, kind in zip(methods, ("", ", clip"), strict=True):
            runs = _contest().rows[_chosen()[task, method]].values()
            moved = np.array([np.nanmedian(run["mismatch"]) for run in runs])
            row: dict[str, Any] = {"weight": arm + kind, "mean accuracy": float(rows[task, method]["mean"])}
            row["mean |π − μ|"] = f"{np.median(moved):.3f} ({moved.min():.3f} to {moved.max():.3f})"
            found.append(row | {f"above {ALARM}": f"{(moved > ALARM).sum()} of {len(moved)}"})
    return found


def measured(age: int) -> Rows:
    """The stored measurements with data ``age`` rounds older than those of the last round."""
    return [row for row in load_rows("11_measured") if row["age"] == age]


def noise_and_signal(small: float, large: float, n: int, N: int) -> tuple[float, float]:
    """The variance of one response's estimate and the squared length of its mean, from gradient norms with n responses
    and with N.

    With n responses the mean squared norm is signal + noise / n; so two sizes tell both apart (McCandlish et al.,
    2018).

    >>> noise_and_signal(small=2.0, large=1.25**0.5, n=8, N=96)
    (24.0, 1.0)
    """
    noise = (small**2 - large**2) / (1 / n - 1 / N)
    return round(noise, 9), round(small**2 - noise / n, 9)


def variance_and_mean(row: dict[str, Any]) -> tuple[float, float]:
    """Those of a stored measurement."""
    return noise_and_signal(row["norm, 32"], row["norm, all"], 32, row.get("responses", 1024))


def measured_in_short(ages: Sequence[int]) -> Rows:
    """By age and weight: medians of variance and of the squared mean, median (lowest to highest) of noise number and
    cosine, and what a minibatch keeps, where the estimate of the cosine is cut to 0 to 1.
    """
    found: Rows = []
    for age in ages:
        for weight in dict.fromkeys(row["weight"] for row in measured(age)):
            own = [row for row in measured(age) if row["weight"] == weight]
            noise = np.array([row["noise"] for row in own])
            row: dict[str, Any] = {"data": "last round" if age == 0 else f"{age} rounds older", "weight": weight}
            variance, mean = np.median([variance_and_mean(one) for one in own], axis=0)
            row |= {"variance": f"{variance:.0f}", "mean²": f"{mean:.2g}"}
            row["n*"] = f"{np.median(noise):.0f} ({noise.min():.0f} to {noise.max():.0f})"
            if weight != "fresh":
                cosine = np.array([one["cosine"] for one in own])
                row["cosine"] = f"{np.median(cosine):.2f} ({cosine.min():.2f} to {cosine.max():.2f})"
                direction = np.clip(cosine, 0, 1) ** 2
                row["kept"] = float(np.median(direction / (1 + noise / MINIBATCH)))
            found.append(row)
    first = dict.fromkeys(("data", "weight", "variance", "mean²", "n*", "cosine", "kept"))
    return [first | row for row in found]


def measured_again() -> Rows:
    """Each weight's variance, squared mean and noise number in two states: first measured, and with more responses."""
    more, found = load_rows("11_again"), []
    for row in (one for one in more if one["weight"] in ARMS):
        (first,) = (one for one in measured(4) if (one["seed"], one["weight"]) == (row["seed"], row["weight"]))
        for own, responses in ((first, 1024), (row, row["responses"])):
            variance, mean = variance_and_mean(own)
            told: dict[str, Any] = {"seed": row["seed"], "weight": row["weight"], "responses": responses}
            found.append(told | {"variance": variance, "mean²": mean, "n*": own["noise"], "cosine": own["cosine"]})
    return found
