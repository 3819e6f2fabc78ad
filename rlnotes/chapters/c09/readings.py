"""What chapter 09 reads off its stored runs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np

from rlnotes.studies import contest as contests
from rlnotes.studies.contest import results
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import Verdict, paired_difference

LENGTHS = {"misled": "6", "needle": "5", "ledger": "17 to 65"}  # tokens of a response
# ranges of each kind, as the methods of 09_ranges are called, the narrowest first
TOKENS = {"0.05": "grpo 0.05", "0.2": "grpo", "0.5": "grpo 0.5", "none": "unclipped"}
RESPONSES = {"4e-4": "gspo"} | {e: f"gspo {e}" for e in ("0.003", "0.01", "0.03", "0.1")} | {"none": "gspo open"}
KINDS = {"tokens": TOKENS, "responses": RESPONSES}
FIRST = "grpo"  # with which a contest compares
DRIFT_TASKS = ("misled int4", "ledger int4")
DRIFT = {
    "gspo": "4e-4, to mu",
    "gspo 0.03": "0.03, to mu",
    "gspo 0.03 at pi_k": "0.03, to pi_k",
    "gspo 0.03 corrected": "0.03, to pi_k, weights pi_k / mu",
}
PAIRS = (
    ("gspo 0.03 at pi_k", "gspo 0.03"),
    ("gspo 0.03 corrected", "gspo 0.03"),
    ("gspo 0.03", "gspo"),
)

LOGS = {"A": ("0.2, one update", 0), "B": ("4e-4", 0), "C": ("0.2", 0)}  # of exercise 09.2: range and seed

ONE_UPDATE = "0.2, one update"
LIVE = ("0.2", "0.03", "4e-4", "measured", ONE_UPDATE)  # ranges of the chapter's loop
ALARM = 0.02  # of the clip fraction, as the rule gspo-clip-too-wide has it
# numbers of a round, and what the chapter calls them
SHOWN = {"KL": "KL", "closed": "closed at the end", "clip fraction": "clip fraction", "sigma / sqrt(T)": "σ/√T"}

Rows = list[dict[str, Any]]


@cache
def stored(contest: str) -> Table:
    """The table of a contest, read once."""
    return load_table(contest)


@cache
def chosen(contest: str, task: str) -> dict[str, str]:
    """The method of each recipe on a task, at the rate that was tuned for it."""
    return {recipe: name for (on, recipe), name in contests.chosen(stored(contest)).items() if on == task}


def less(contest: str, task: str, ours: str, theirs: str) -> Verdict:
    """The verdict on the mean accuracy of two recipes."""
    own = chosen(contest, task)
    return contests.less(stored(contest), own[ours], own[theirs], "accuracy")


def best_range(task: str, kind: str) -> str:
    """The recipe of a kind whose tuning runs have the highest mean accuracy, each range at its own rate."""
    table, own = stored("09_ranges"), chosen("09_ranges", task)
    apart = replace(table, rows=table.tuning)
    return max(KINDS[kind].values(), key=lambda recipe: apart.mean(own[recipe], "accuracy").mean())


def no_gradient(table: Table, method: str) -> float:
    """Share of tokens with an advantage that got no gradient: the mean over the updates of all runs."""
    return float(np.mean([np.nanmean(run["no_gradient"][1:]) for run in table.rows[method].values()]))


def contest_in_short() -> Rows:
    """Each task with its start, and of each kind the range that the tuning runs chose for it, its rate and its mean."""
    rows, found = {(row["task"], row["method"]): row for row in results(stored("09_ranges"))}, []
    for task in LENGTHS:
        best = {kind: best_range(task, kind) for kind in KINDS}
        row = {"task": task, "start, greedy": f"{rows[task, 'untrained']['start, greedy']:.3f}"}
        for kind, recipe in best.items():
            own = rows[task, recipe]
            row[f"clip of {kind}"] = f"{name_of(kind, recipe)} at {own['rate']}: {own['mean']:.3f}"
        verdict = less("09_ranges", task, best["responses"], best["tokens"])
        found.append(row | {"responses less tokens": str(verdict)})
    return found


def by_rate(task: str) -> Rows:
    """Mean accuracy of the tuning runs of each range, a column for each learning rate that was tried."""
    table = stored("09_ranges")
    apart, found = replace(table, rows=table.tuning), []
    rates = sorted({table.labels[name]["rate"] for name in apart.rows if table.labels[name]["task"] == task}, key=float)
    for kind, widths in KINDS.items():
        for width, recipe in widths.items():
            names = {rate: f"{recipe}, {task} {rate}" for rate in rates}
            means = {
                rate: float(apart.mean(name, "accuracy").mean()) if name in apart.rows else None
                for rate, name in names.items()
            }
            found.append({"clip of": kind, "range": width} | means)
    return found


def name_of(kind: str, recipe: str) -> str:
    """The range of a recipe, as a reader knows it."""
    (width,) = (width for width, one in KINDS[kind].items() if one == recipe)
    return width


def less_none() -> Rows:
    """Each range of responses less the same without a clip, a column for each task."""
    return [
        {"range": width} | {task: str(less("09_ranges", task, recipe, RESPONSES["none"])) for task in LENGTHS}
        for width, recipe in RESPONSES.items()
        if width != "none"
    ]


def drift_pairs() -> Rows:
    """What the anchor, a weight, and the range change behind a copy of four bits, each arm at its own rate."""
    table, found = stored("09_drift"), []
    for task in DRIFT_TASKS:
        own = chosen("09_drift", task)
        greedy = f"{table.start(own[FIRST], 'greedy').mean():.3f}"
        for ours, theirs in PAIRS:
            row = {"task": task, "start, greedy": greedy, "ours": DRIFT[ours], "theirs": DRIFT[theirs]}
            row |= {"rates": " and ".join(table.labels[own[name]]["rate"] for name in (ours, theirs))}
            row |= {"means": " and ".join(f"{table.mean(own[name], 'accuracy').mean():.3f}" for name in (ours, theirs))}
            found.append(row | {"ours less theirs": str(less("09_drift", task, ours, theirs))})
    return found


def all_rows(contest: str) -> Rows:
    """Every row of a contest, and the share of tokens without a gradient."""
    table, found = stored(contest), []
    for row in results(table):
        own = chosen(contest, row["task"]).get(row["method"])
        shown = {name: row[name] or None for name in ("task", "method", "rate", "died")}
        shown |= {"start, greedy": f"{row['start, greedy']:.3f}", "mean": float(row["mean"])}
        shown |= {"closed": no_gradient(table, own) if own else None}
        found.append(shown | {f"less {FIRST}": row[f"less {FIRST}"] or None})
    return sorted(found, key=lambda row: (row["task"], row["method"] != "untrained", row["method"]))


def live(arm: str) -> Rows:
    """The stored runs of the chapter's loop with one range."""
    return [row for row in load_rows("09_live") if row["arm"] == arm]


def rounds_of(arm: str) -> list[list[dict[str, float]]]:
    """Of each stored run its rounds but the first, in which a range that is measured is not yet."""
    return [run["rounds"][1:] for run in live(arm)]


def live_rounds() -> Rows:
    """A row for each range: median, lowest and highest of single rounds."""
    found = []
    for arm in LIVE:
        every = [one for run in rounds_of(arm) for one in run]
        row = {shown: in_short([one[name] for one in every]) for name, shown in SHOWN.items()}
        found.append({"range": arm} | row)
    return found


def farthest() -> Rows:
    """The largest KL of a round of each stored run, behind 0.2, behind 0.03 and behind the measured range, and the
    latter two over the first.
    """
    arms = ("0.2", "0.03", "measured")
    runs = [[max(one["KL"] for one in run) for run in rounds_of(arm)] for arm in arms]
    found = []
    for seed, (wide, fixed, measured) in enumerate(zip(*runs, strict=True)):
        row = {"seed": seed} | dict(zip(arms, (wide, fixed, measured), strict=True))
        found.append(row | {"0.03 over 0.2": fixed / wide, "measured over 0.2": measured / wide})
    return found


def by_sign() -> Rows:
    """Closed gates of wrong and of right responses behind the measured range, beside what normal laws expect from the
    scatter and the mean of the same round: median, lowest and highest of single rounds.
    """
    every, columns = [one for run in rounds_of("measured") for one in run], ("wrong", "right")
    edges = [(math.log1p(-one["range"]), math.log1p(one["range"])) for one in every]
    found = {"measured": [[one[f"closed, {sign}"] for sign in columns] for one in every]}
    for name, with_mean in (("normal law around 0", 0), ("normal law around the mean of log r̄", 1)):
        laws = [NormalDist(with_mean * one["mean"], one["spread"]) for one in every]
        found[name] = [[law.cdf(low), 1 - law.cdf(high)] for law, (low, high) in zip(laws, edges, strict=True)]
    return [
        {"closed gates": name}
        | {sign: in_short(own) for sign, own in zip(columns, zip(*shares, strict=True), strict=True)}
        for name, shares in found.items()
    ]


def live_ends() -> Rows:
    """Of each range of eight updates the accuracy at the end, less that of the measured one with the starts as what is
    counted, and on how many seeds it ends lowest.
    """
    ends = {arm: np.array([run["end"] for run in live(arm)]) for arm in LIVE if arm != ONE_UPDATE}
    starts = [run["seed"] % contests.STARTS for run in live("measured")]
    lowest, found = np.min(list(ends.values()), 0), []
    for arm, end in ends.items():
        less_measured = None if arm == "measured" else str(paired_difference(end, ends["measured"], starts))
        on = f"{(end == lowest).sum()} of {len(end)} seeds"
        found.append({"range": arm, "end": between(end.tolist()), "end less measured": less_measured, "lowest on": on})
    return found


def steadiness() -> Rows:
    """How well one number of a round stands for another: their quotients over single rounds of eight updates."""
    pairs: dict[str, list[float]] = {
        "σ/√T over the range, σ/√T of the round before": [
            one["sigma / sqrt(T)"] / one["range"] for run in rounds_of("measured") for one in run
        ],
        "σ/√T over that of the round before, four ranges": [],
        "σ/√T over the mean of the three before, four ranges": [],
        "scatter of log r̄ over σ/√T, same round": [],
        "σ over √(2 k3), k3 as it is logged": [],
    }
    _, before, of_three, law, by_k3 = pairs.values()
    for run in (run for arm in LIVE if arm != ONE_UPDATE for run in live(arm)):
        sizes = [one["sigma / sqrt(T)"] for one in run["rounds"]]
        before += [size / last for last, size in pairwise(sizes)]
        of_three += [size / fmean(sizes[i : i + 3]) for i, size in enumerate(sizes[3:])]
        law += [one["spread"] / one["sigma / sqrt(T)"] for one in run["rounds"]]
        by_k3 += [one["sigma"] / (2 * one["KL at the last update"]) ** 0.5 for one in run["rounds"]]
    found = []
    for name, values in pairs.items():
        least, low, middle, high, most = np.quantile(values, [0, 0.1, 0.5, 0.9, 1])
        row = {"quotient": name, "rounds": len(values), "least": least, "10 %": low, "median": middle, "90 %": high}
        close = np.mean([0.5 <= value <= 2 for value in values])
        found.append(row | {"most": most, "within a factor of 2": f"{close:.0%}"})
    return found


def in_short(values: Sequence[float]) -> str:
    """The median, and lowest to highest in brackets.

    >>> in_short([0.1, 0.031, 0.2])
    '0.1 (0.031 to 0.2)'
    """
    around = between(values)
    return f"{median(values):.2g} ({around})" if " to " in around else around


def between(values: Sequence[float]) -> str:
    """Lowest to highest.

    >>> between([0.031, 0.2])
    '0.031 to 0.2'
    """
    low, high = min(values), max(values)
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"


def scatter_points() -> list[dict[str, float]]:
    """Of each length bin of each round of the stored runs what :func:`rlnotes.chapters.c09.rounds.scatter` found."""
    return [point for row in load_rows("09_live") for one in row["lengths"] for point in one]


def the_log(name: str) -> Rows:
    """A log of exercise 09.2, round by round."""
    arm, seed = LOGS[name]
    (run,) = (row for row in live(arm) if row["seed"] == seed)
    columns = {"reward": "reward", "clip fraction": "clip fraction", "KL": "KL at the last update", "σ": "sigma"}
    columns |= {"length": "T"}
    return [
        {"run": name, "round": i} | {shown: one[stored] for shown, stored in columns.items()}
        for i, one in enumerate(run["rounds"], 1)
    ]


def idle_gates() -> Rows:
    """Of each range in how many runs the card's alarm is on: in four of five rounds or more the clip fraction is low,
    though policy and sampler differ at the last update; and in how many single rounds but the first it is low.
    """
    found = []
    for arm in LIVE:
        runs, every = [run["rounds"] for run in live(arm)], [one for run in rounds_of(arm) for one in run]
        single = sum(one["clip fraction"] < ALARM for one in every)
        low = [
            fmean(one["clip fraction"] < ALARM and one["KL at the last update"] > 1e-5 for one in run) for run in runs
        ]
        row = {"range": arm, "alarm": f"{sum(share >= 0.8 for share in low)} of {len(runs)} runs"}
        found.append(row | {f"rounds below {ALARM:g}": f"{single} of {len(every)}"})
    return found
