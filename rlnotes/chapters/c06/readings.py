"""What chapter 06 reads from its stored runs: scores, verdicts, and what a clip fraction says of a round."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rlnotes.chapters.c06.experiment import ARMS, RATES, score
from rlnotes.studies.verdicts import Verdict, judge

MARGIN = 0.02  # of mean accuracy; stated before the runs were made
BINS = {"clipped": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 1.0), "kl": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)}
"""of what a round logged: its clip fraction, and KL(old, new) of a token at its end"""
SCORES = {"mean": score, "end": lambda row: row["sampled"][-1]}
"""the mean accuracy after the rounds, and that after the last"""
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


def verdict(rows: Rows, task: str, arm: str, other: str, by: str = "mean", role: str = "reported") -> Verdict:
    """The course's verdict on two arms by one of ``SCORES``; runs of one start are one cluster. The ``role`` is that of
    ``arm``; ``other`` is always at its own best rate.
    """
    ours, theirs = chosen(rows, role, task, arm), chosen(rows, "reported", task, other)
    scores = (np.array([SCORES[by](row) for row in runs]) for runs in (ours, theirs))
    return judge(*scores, margin=MARGIN, clusters=[row["start"] for row in ours])


def results(rows: Rows, task: str) -> list[dict[str, Any]]:
    """A row for the untrained starts and one for each arm, with both scores and the verdict on each."""
    untrained = np.mean([row["sampled"][0] for row in chosen(rows, "reported", task, "clip")])
    found: list[dict[str, Any]] = [
        {"arm": "untrained", "rate": "–", "mean": untrained, "mean − clip": "–", "end": untrained}
    ]
    for arm in ARMS:
        runs = chosen(rows, "reported", task, arm)
        row: dict[str, Any] = {"arm": arm, "rate": f"{runs[0]['rate']:g}"}
        for by, of in SCORES.items():
            row[by] = np.mean([of(one) for one in runs])
            row[f"{by} − clip"] = "" if arm == "clip" else str(verdict(rows, task, arm, "clip", by))
        for key, label in (("updates", "updates a round"), ("kl", "KL a round")):
            row[label] = float(np.median(np.concatenate([one[key] for one in runs])))
        found.append(row | {"died": f"{sum(map(died, runs))} of {len(runs)}"})
    return found


def room(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """For each arm: both scores on each task, mean over all rates of the grid; and how many of its tuning runs died, at
    each rate at which one did.
    """
    dead = {task: {found["arm"]: found for found in deaths(rows, task)} for task in tasks}
    deadly = [
        (task, f"{rate:g}") for task in tasks for rate in RATES if any(one[f"{rate:g}"] for one in dead[task].values())
    ]
    return [
        {"arm": arm}
        | {
            f"{task}, {by}": np.mean([of(row) for row in chosen(rows, "tuning", task, arm)])
            for task in tasks
            for by, of in SCORES.items()
        }
        | {f"{task}: died at {rate}": dead[task][arm][rate] for task, rate in deadly}
        for arm in ARMS
    ]


def rounds_of(rows: Rows, task: str, arm: str) -> dict[str, np.ndarray]:
    """Every round of every run of an arm: what was logged, and ``change`` of held-out sampled accuracy over it."""
    runs = [row for row in rows if (row["task"], row["arm"]) == (task, arm)]
    found = {key: np.concatenate([row[key] for row in runs]) for key in ("clipped", "clipped_last", "kl", "outside")}
    found["change"] = np.concatenate([np.diff(row["sampled"]) for row in runs])
    found["before"] = np.concatenate([row["sampled"][:-1] for row in runs])
    return found


def by_log(rows: Rows, task: str, arm: str, key: str) -> list[dict[str, Any]]:
    """What rounds did whose ``key`` of ``BINS`` lay between two limits, every bin that holds one: their number, how
    many fell, their accuracy before, and its mean change with its standard error.
    """
    seen, found = rounds_of(rows, task, arm), []
    for low, high in pairwise(BINS[key]):
        inside = (seen[key] >= low) & (seen[key] < high)
        if not inside.any():
            continue
        change, n = seen["change"][inside], int(inside.sum())
        found.append(
            {
                "between": f"{low:g} to {high:g}" if np.isfinite(high) else f"above {low:g}",
                "rounds": n,
                "fell": int((change < -FALL).sum()),
                "accuracy before": seen["before"][inside].mean(),
                "mean change": change.mean(),
                "standard error": change.std(ddof=1) / n**0.5 if n > 1 else np.nan,
            }
        )
    return found


def side_by_side(rows: Rows, key: str, which: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """:func:`by_log` of some pairs of task and arm, a row for each bin."""
    bins: dict[str, dict[str, Any]] = {}
    for task, arm in which:
        for one in by_log(rows, task, arm, key):
            row = bins.setdefault(one["between"], {"between": one["between"]})
            row[f"{task}, {arm}: fell"] = f"{one['fell']} of {one['rounds']}"
            row[f"before, change ({task}, {arm})"] = f"{one['accuracy before']:.2f}, {one['mean change']:+.3f}"
    order = list(pairwise(BINS[key]))
    names = [f"{low:g} to {high:g}" if np.isfinite(high) else f"above {low:g}" for low, high in order]
    return [bins[name] for name in names if name in bins]


def warnings(rows: Rows, tasks: Sequence[str], least: float = 0.5) -> list[dict[str, Any]]:
    """How well each number tells rounds that fell from others, where accuracy was at least ``least``: the chance that
    it is higher in a round that fell. One half says nothing.
    """
    found = []
    for task in tasks:
        for arm in ("clip", "unclipped"):
            seen = rounds_of(rows, task, arm)
            high = seen["before"] >= least
            fell = seen["change"][high] < -FALL
            row = {"task": task, "arm": arm, "rounds": int(high.sum()), "fell": int(fell.sum())}
            found.append(row | {label: chance(seen[key][high], fell) for key, label in LABELS.items()})
    return found


LABELS = {"kl": "KL(old, new)", "clipped": "clip fraction"}


def chance(values: np.ndarray, fell: np.ndarray) -> float:
    """The chance that a value of a round that fell is above one of another round; equal values count half."""
    n, m = int(fell.sum()), int((~fell).sum())
    return float((rankdata(values)[fell].sum() - n * (n + 1) / 2) / (n * m))


IDLE, OVERRUN = 0.01, 1.0  # a clip fraction; KL(old, new) in nats


def states(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """The rounds of ``clip`` by the state of the clip. Every round is in one of the three."""
    found = []
    for task in tasks:
        seen = rounds_of(rows, task, "clip")
        overrun = seen["kl"] > OVERRUN
        idle = ~overrun & (seen["clipped"] < IDLE)
        for state, inside in (("idle", idle), ("at work", ~overrun & ~idle), ("overrun", overrun)):
            row = {"task": task, "the clip is": state, "rounds": int(inside.sum())}
            row["fell"] = int((seen["change"][inside] < -FALL).sum())
            found.append(row | {f"mean {k}": seen[k][inside].mean() for k in ("before", "change")})
    return found


def live(rows: Rows) -> list[dict[str, Any]]:
    """The live runs on several seeds: rounds to J of 0.9, the worst round, and where the run ends."""
    found = []
    for row in sorted(rows, key=lambda one: (one["arm"], one["seed"])):
        change, J = np.array(row["change"]), np.array(row["J"])
        worst, there = int(change.argmin()), np.flatnonzero(J >= 0.9)
        found.append(
            {
                "arm": row["arm"],
                "seed": row["seed"],
                "rounds to 0.9": str(there[0] + 1) if len(there) else "never",
                "J at the end": J[-1],
                "worst round": worst + 1,
                "came of it": change[worst],
                "promised": row["promised"][worst],
                "clip fraction": row["clipped"][worst],
                "KL after it": row["kl_round"][worst],
                "as verl logs it": row["kl_steps"][worst],
            }
        )
    return found


def one_round_table(rows: Rows, name: str) -> list[dict[str, Any]]:
    """One of the three tables of updates on one round: ``ratios``, ``drift`` or ``arms``."""
    return [{key: value for key, value in row.items() if key != "table"} for row in rows if row["table"] == name]


def deaths(rows: Rows, task: str) -> list[dict[str, Any]]:
    """For each arm how many of its tuning runs died, at each learning rate."""
    found = []
    for arm in ARMS:
        tuned = chosen(rows, "tuning", task, arm)
        dead = {f"{rate:g}": sum(died(row) for row in tuned if row["rate"] == rate) for rate in RATES}
        found.append({"arm": arm} | dead)
    return found
