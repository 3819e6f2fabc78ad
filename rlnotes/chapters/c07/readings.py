"""What chapter 07 reads from its stored runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlnotes.chapters.c07.studies import ARMS, BETAS, SIZES, TWICE, UNPENALISED
from rlnotes.exact.groups import wasted_share
from rlnotes.lm.tasks import Needle
from rlnotes.studies import contest
from rlnotes.studies.tables import Table, died, grids
from rlnotes.studies.verdicts import paired_difference

TASKS = tuple(BETAS)
SIZE = 2  # of a group: the one with which the others are compared
ORDER = (*ARMS, *(f"grpo, G = {size}" for size in SIZES))  # of the arms of both tables
AGAIN = (8, 16)  # sizes of a group that were tried once more
LATE = 3  # measurements of which the end is the mean
MOSTLY = 0.8  # share of equal groups from which on the card worries
SAME_RATE = "1e-3"  # at which the penalties are compared beside their own: it was tried for all of them


def chosen(table: Table, task: str) -> dict[str, str]:
    """The method of each arm on a task, at the rate that was tuned for it."""
    own = contest.chosen(table)
    return {arm: own[task, arm] for arm in ORDER if (task, arm) in own}


def rate_of(table: Table, name: str) -> str:
    """Its learning rate, and whether that is at an end of those tried."""
    (grid,) = (grid for grid in grids(table.labels) if name in grid)
    return table.labels[name]["rate"] + ", at an end" * (name in (grid[0], grid[-1]))


def deaths(table: Table, name: str) -> str:
    """How many of the reported runs ended below half of their own best accuracy."""
    runs = [values for _, values in table.curves(name, "accuracy")]
    return f"{sum(map(died, runs))} of {len(runs)}"


def groups(table: Table, tasks: Sequence[str] = TASKS) -> list[dict[str, Any]]:
    """A row for the start and for each size of a group on each task, at its own rate: mean accuracy over the run, with
    the verdict on it, greedy accuracy at the end, how many runs died, and how many began with mostly equal groups.
    """
    found: list[dict[str, Any]] = []
    for task in tasks:
        own = chosen(table, task)
        reference = own[f"grpo, G = {SIZE}"]
        start, greedy = (table.start(reference, metric).mean() for metric in ("accuracy", "greedy"))
        found.append({"task": task, "arm": "untrained", "rate": "–", "mean": start, "greedy": greedy})
        for arm, name in own.items():
            told = "" if name == reference else str(contest.less(table, name, reference, "accuracy"))
            row = {"task": task, "arm": arm, "rate": rate_of(table, name), "mean": table.mean(name, "accuracy").mean()}
            row |= {f"mean less G = {SIZE}": told, "greedy": table.last(name, "greedy", 1).mean()}
            mostly = sum(columns["wasted_groups"][1] >= MOSTLY for columns in table.rows[name].values())
            found.append(row | {"died": deaths(table, name), "mostly equal": str(mostly)})
    return found


def eight_or_sixteen(table: Table, again: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups of 8 against groups of 16 on the first task, at the rate that is best for both: a row for the runs that
    are reported, for those that chose the rate, and for those made ``again`` (seed, size, accuracy). Mean accuracy
    over the run, the difference of the pairs with its interval, and how many runs died.
    """
    names = [chosen(table, TASKS[0])[f"grpo, G = {size}"] for size in AGAIN]
    kinds = {"the ten reported": table, "the three that chose the rate": replace(table, rows=table.tuning)}
    runs = {kind: [[run for _, run in own.curves(name, "accuracy")] for name in names] for kind, own in kinds.items()}
    runs["ten further ones"] = [[np.array(row["accuracy"]) for row in again if row["size"] == size] for size in AGAIN]
    found = []
    for kind, both in runs.items():
        means = [np.array([run[1:].mean() for run in own]) for own in both]  # all but the start
        gap = paired_difference(means[0], means[1])
        row: dict[str, Any] = {"runs": kind} | {
            f"G = {size}": own.mean() for size, own in zip(AGAIN, means, strict=True)
        }
        row["8 less 16, seed by seed"] = f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
        found.append(row | {"died": " and ".join(str(sum(map(died, own))) for own in both)})
    return found


def deaths_by_rate(table: Table, task: str) -> list[dict[str, Any]]:
    """How many of the tuning runs died at each learning rate, a column for each arm."""
    apart, found = replace(table, rows=table.tuning), {}
    for name in (name for name in table.tuning if table.labels[name]["task"] == task):
        rate, arm = table.labels[name]["rate"], table.labels[name]["recipe"]
        found.setdefault(rate, {})[arm] = deaths(apart, name)
    arms = [arm for arm in ORDER if any(arm in row for row in found.values())]
    return [{"rate": rate} | {arm: found[rate].get(arm, "–") for arm in arms} for rate in sorted(found, key=float)]


def equal_shares(chances: np.ndarray, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Share of equal groups to expect of ``chances`` (prompts,) of a right answer, a row for each size of a group: the
    mean over prompts, and what the mean chance would give, which is something else.

    >>> equal_shares(np.array([0.0, 0.5]), [4])
    [{'G': 4, 'mean over prompts': 0.5625, 'of the mean p': 0.3203125}]
    """
    return [
        {
            "G": size,
            "mean over prompts": float(np.mean([wasted_share(size, float(p)) for p in chances])),
            "of the mean p": wasted_share(size, float(chances.mean())),
        }
        for size in sizes
    ]


def equal_early(table: Table, task: str) -> np.ndarray:
    """Share of the groups whose rewards are all equal at the first step that is recorded, of each reported run of all
    sizes, (sizes, runs).
    """
    names = chosen(table, task).values()
    return np.array([[columns["wasted_groups"][1] for columns in table.rows[name].values()] for name in names])


def penalties(table: Table, tasks: Sequence[str] = TASKS, other: str = UNPENALISED) -> list[dict[str, Any]]:
    """A row for the start and for each arm on each task, at its own rate: accuracy, greedy accuracy and KL at the end;
    the score, accuracy less beta times KL, as the mean over the run, with the verdict on it.
    """
    found: list[dict[str, Any]] = []
    titles = {"accuracy": "accuracy", "greedy": "greedy", "KL": "kl_reference"}
    for task in tasks:
        own = chosen(table, task)
        starts = {title: table.start(own[other], metric).mean() for title, metric in titles.items()}
        found.append({"task": task, "arm": "untrained", "rate": "–"} | starts | {"score": starts["accuracy"]})
        for arm, name in own.items():
            ends = {title: table.last(name, metric, LATE).mean() for title, metric in titles.items()}
            told = "" if arm == other else str(contest.less(table, name, own[other], "penalised"))
            row = {"task": task, "arm": arm, "rate": rate_of(table, name)} | ends
            found.append(row | {"score": table.mean(name, "penalised").mean(), f"score less {other}": told})
    return found


def worth(table: Table, arms: Sequence[str] = ("k1 in reward", "k2 in loss")) -> list[dict[str, Any]]:
    """Of :func:`penalties` the scores alone: a row for the start, for the unpenalised arm and for ``arms``, and for
    each task the score and the verdict on it.
    """
    by_task = {task: {row["arm"]: row for row in penalties(table, [task])} for task in TASKS}
    less = f"score less {UNPENALISED}"
    found: list[dict[str, Any]] = []
    for arm in ("untrained", UNPENALISED, *arms):
        row: dict[str, Any] = {"arm": arm}
        for task, rows in by_task.items():
            row |= {f"{task}: score": rows[arm]["score"], f"{task}: less {UNPENALISED}": rows[arm].get(less) or "–"}
        found.append(row)
    return found


def at_rate(table: Table, rate: str, tasks: Sequence[str] = TASKS) -> list[dict[str, Any]]:
    """Where the tuning runs of each arm end at one learning rate, accuracy and KL, lowest and highest; "–" where that
    rate was not tried.
    """
    apart = replace(table, rows=table.tuning)
    found: list[dict[str, Any]] = []
    for arm in (arm for arm in ORDER if table.where(recipe=arm)):
        row = {"arm": arm}
        for task in tasks:
            names = table.where(recipe=arm, task=task, rate=rate)
            for title, metric in (("accuracy", "accuracy"), ("KL", "kl_reference")):
                ends = sorted(apart.last(names[0], metric, 1)) if names else []
                row[f"{task}: {title}"] = f"{ends[0]:.2f} to {ends[-1]:.2f}" if ends else "–"
        found.append(row)
    return found


def held(table: Table, task: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """KL to the reference and accuracy at the end of the tuning runs at the rate ``SAME_RATE``, (runs,) each, by arm,
    without the one that is another one's equal.
    """
    apart, found = replace(table, rows=table.tuning), {}
    for arm in (arm for arm in ARMS if arm != TWICE):
        (name,) = table.where(recipe=arm, task=task, rate=SAME_RATE)
        found[arm] = apart.last(name, "kl_reference", 1), apart.last(name, "accuracy", 1)
    return found


def best_under(task: str, chances: Sequence[np.ndarray]) -> tuple[float, float]:
    """J and KL of the best policy under the penalty of a task, the mean over its starts; ``chances`` (prompts,) of a
    right answer of each start of the first task. On the second each of four positions has one chance of its own.
    """
    starts, positions = (chances, 1) if task == TASKS[0] else ([np.array([Needle().rare])], Needle().size)
    J, KL = np.mean([frontier(own, np.array([BETAS[task]]), positions) for own in starts], 0)[:, 0]
    return float(J), float(KL)


def score(task: str, accuracy: np.ndarray | float, kl: np.ndarray | float) -> np.ndarray:
    """What was asked for: accuracy less beta times the KL to the reference."""
    return np.asarray(accuracy) - BETAS[task] * np.asarray(kl)


def frontier(chances: np.ndarray, betas: np.ndarray, positions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """J and KL (betas,) of the best policy under a penalty, for a reference whose one right answer has the ``chances``
    (prompts,): the odds of that answer grow by exp(1 / beta), and among wrong ones nothing changes. With ``positions``
    each is right by such a chance of its own, and pays its share of the reward.

    >>> J, KL = frontier(np.array([0.5]), np.array([1.0]))
    >>> print(J.round(3), KL.round(3))  # odds of e; log 2 less the entropy of 0.731
    [0.731] [0.111]
    """
    odds = np.log(chances) - np.log1p(-chances) + 1 / (positions * np.asarray(betas)[:, None])
    right = -np.logaddexp(0.0, -odds)  # log of its new chance
    wrong = -np.logaddexp(0.0, odds)
    kl = np.exp(right) * (right - np.log(chances)) + np.exp(wrong) * (wrong - np.log1p(-chances))
    return np.exp(right).mean(1), positions * kl.mean(1)


def live(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The live run on several seeds: how large the loss got, by GRPO's mean and by that over tokens, how large the
    gradient was, and what came of it.
    """
    found = []
    for row in rows:
        J = np.array(row["J"])
        there = np.flatnonzero(J >= 0.9)
        one = {"seed": row["seed"], "largest |loss|": f"{max(map(abs, row['loss'])):.0e}"}
        one |= {"mean over tokens": f"{max(map(abs, row['token mean'])):.3f}"}
        norms = np.array(row["gradient norm"])
        one |= {"gradient norm: first": norms[0], "last": norms[-1], "smallest": norms.min(), "largest": norms.max()}
        one |= {"J before": row["start"], "J after": J[-1]}
        found.append(one | {"steps to J of 0.9": str(there[0] + 1) if len(there) else "never"})
    return found


def by_rate(table: Table, task: str) -> list[dict[str, Any]]:
    """Mean score of the tuning runs at each learning rate that was tried, a column for each arm."""
    found: dict[str, dict[str, Any]] = {}
    apart = replace(table, rows=table.tuning)
    for grid in grids(table.labels):
        for name in (name for name in grid if name in table.tuning and table.labels[name]["task"] == task):
            rate, arm = table.labels[name]["rate"], table.labels[name]["recipe"]
            found.setdefault(rate, {})[arm] = f"{apart.mean(name, table.score).mean():.3f}"
    arms = [arm for arm in ORDER if any(arm in row for row in found.values())]
    return [{"rate": rate} | {arm: found[rate].get(arm, "–") for arm in arms} for rate in sorted(found, key=float)]


def by_seed(table: Table, task: str) -> list[dict[str, Any]]:
    """Mean score of each reported run, a column for each arm at its own rate."""
    own = chosen(table, task)
    scores = {arm: table.mean(name, table.score) for arm, name in own.items()}
    starts = table.starts_of(next(iter(own.values())))
    return [
        {"start": start, "seed": seed} | {arm: float(scores[arm][seed]) for arm in scores}
        for seed, start in enumerate(starts)
    ]
