"""What chapter 09 reads off its stored runs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from rlnotes.studies import contest as contests
from rlnotes.studies.contest import results
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import Verdict

LENGTHS = {"misled": "6", "needle": "5", "ledger": "17 to 65"}  # tokens of a response
# ranges of each kind, as the methods of 09_ranges are called, the narrowest first
TOKENS = {"0.05": "grpo 0.05", "0.2": "grpo", "0.5": "grpo 0.5", "none": "unclipped"}
RESPONSES = {"4e-4": "gspo"} | {e: f"gspo {e}" for e in ("0.003", "0.01", "0.03", "0.1")} | {"none": "gspo open"}
KINDS = {"tokens": TOKENS, "responses": RESPONSES}
FIRST = "grpo"  # with which a contest compares
DRIFT_TASKS = ("misled int4", "ledger int4")
DRIFT = {
    "grpo": "tokens 0.2",
    "gspo": "4e-4, to mu",
    "gspo 0.03": "0.03, to mu",
    "gspo 0.03 at pi_k": "0.03, to pi_k",
    "gspo 0.03 corrected": "0.03, to pi_k, weights pi_k / mu",
}
PAIRS = (
    ("gspo 0.03 at pi_k", "gspo 0.03"),
    ("gspo 0.03 corrected", "gspo 0.03"),
    ("gspo 0.03", "gspo"),
    ("gspo 0.03 at pi_k", "grpo"),
)

LOGS = {"A": ("0.2, one update", 0), "B": ("4e-4", 0), "C": ("0.2", 0)}  # of exercise 09.2: range and seed

# numbers of a round, and what the chapter calls them
SHOWN = {"range": "range", "closed": "closed", "sigma": "σ", "sigma / sqrt(T)": "σ/√T", "KL": "KL"}

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
    """Each task with its start, and each kind at the range that the tuning runs chose for it."""
    table, found = stored("09_ranges"), []
    rows = {(row["task"], row["method"]): row for row in results(table)}
    for task in LENGTHS:
        own, best = chosen("09_ranges", task), {kind: best_range(task, kind) for kind in KINDS}
        start = rows[task, "untrained"]
        begin = {"task": task, "start, greedy": f"{start['start, greedy']:.3f}", "sampled": f"{start['mean']:.3f}"}
        for kind, recipe in best.items():
            row = rows[task, recipe]
            told = str(less("09_ranges", task, recipe, best["tokens"])) if kind == "responses" else None
            shown = {"clip of": kind, "range": name_of(kind, recipe), "rate": row["rate"], "died": row["died"]}
            shown |= {"closed": no_gradient(table, own[recipe]), "mean": row["mean"], "less tokens": told}
            found.append(begin | shown)
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


def mean_of(run: dict[str, Any], name: str) -> float:
    """The mean of a number over the rounds of a run."""
    return float(np.mean([one[name] for one in run["rounds"]]))


def live_in_short() -> Rows:
    """A row for each range of eight updates: lowest to highest of six runs, each the mean of all rounds but the first,
    in which a range that is measured is not yet.
    """
    found = []
    for arm in ("0.2", "0.03", "4e-4", "measured"):
        runs = live(arm)
        later = {name: [fmean(one[name] for one in run["rounds"][1:]) for run in runs] for name in SHOWN}
        row = {"range": between(later["range"]) if arm == "measured" else arm}
        row |= {SHOWN[name]: between(values) for name, values in later.items() if name != "range"}
        ends = {"start": [run["start"] for run in runs], "end": [run["end"] for run in runs]}
        found.append({"clip": arm} | row | {f"accuracy, {name}": between(values) for name, values in ends.items()})
    return found


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
    columns = {"reward": "reward", "clip fraction": "clip fraction", "KL": "KL at the last update", "length": "T"}
    return [
        {"run": name, "round": i} | {shown: one[stored] for shown, stored in columns.items()}
        for i, one in enumerate(run["rounds"], 1)
    ]


def idle_gates() -> Rows:
    """Of each range in how many runs the clip fraction is below 0.02 in the mean, though policy and sampler differ at
    the last update.
    """
    found = []
    for arm in dict.fromkeys(row["arm"] for row in load_rows("09_live")):
        runs = live(arm)
        idle = [mean_of(run, "clip fraction") < 0.02 and mean_of(run, "KL at the last update") > 1e-5 for run in runs]
        found.append({"range": arm, "clip fraction below 0.02": f"{sum(idle)} of {len(idle)}"})
    return found
