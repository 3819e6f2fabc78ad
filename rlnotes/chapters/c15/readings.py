"""What chapter 15 reads off its stored runs: which region learns most, and how far one rollout goes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rlnotes.chapters.c15.explorers import first
from rlnotes.chapters.c15.live import GOOD, TINY
from rlnotes.studies import contest
from rlnotes.studies.contest import UNCLIPPED, UNTRAINED
from rlnotes.studies.tables import Table, died, load_rows, load_table
from rlnotes.studies.verdicts import judge, paired_interval

Rows = list[dict[str, Any]]

RULES = ("clip", "dppo")  # of the loop
TASKS = ("needle", "misled")
CLIP = "clip_higher"
BESIDE = ("wide_clip", "relax_both", UNCLIPPED)  # what DPPO is compared with
MUCH = 0.3  # share of tokens that the clip stops


@cache
def _contest() -> Table:
    return load_table("15_regions")


@cache
def _chosen() -> dict[tuple[str, str], str]:
    """The method at its own rate, by task and objective."""
    return contest.chosen(_contest())


# --- The loop


def live(arm: str, column: str) -> np.ndarray:
    """A column of the stored runs of an arm of :mod:`rlnotes.chapters.c15.live` (runs, ...)."""
    return np.array([run[column] for run in load_rows("15_live") if run["arm"] == arm])


def _span(values: Sequence[float] | np.ndarray, digits: int = 2) -> str:
    ends = [f"{x:.{digits}f}" for x in (np.median(values), np.min(values), np.max(values))]
    return f"{ends[0]} ({ends[1]} to {ends[2]})"


def first_rollout() -> Rows:
    """Where the right letter is after the first rollout with each rule, and how far the policy has moved."""
    found: Rows = [{"after the first rollout": "edge of the rule", "clip": f"{1.28 * 0.02:.3f}", "dppo": "0.170"}]
    ways = {"": "", GOOD: "nothing pushed down", TINY: "tiny steps", GOOD + TINY: "tiny steps, nothing pushed down"}
    for way, title in ways.items():
        row = {"after the first rollout": f"right letter{', ' * bool(title)}{title}"}
        found.append(row | {rule: _span(live(rule + way, "by rollout")[:, 1]) for rule in RULES})
    moved = {rule: _span(live(rule, "TV of the first")) for rule in RULES}
    return [*found, {"after the first rollout": "mean TV of the row"} | moved]


def _until(curves: Sequence[np.ndarray]) -> str:
    found = [first(curve) for curve in curves]
    return f"{np.median(found):g} ({min(found):g} to {max(found):g})"


def rollouts_measured() -> Rows:
    """Rollouts until 0.9 with the clip and with DPPO: in the loop, and in the table 15_needle at its two rates."""
    table, found = load_table("15_needle"), []
    found.append({"runs": "this loop, 3 starts", "seeds": 6, "rate": "3e-4"})
    found[-1] |= {arm: _until(list(live(arm, "by rollout"))) for arm in ("clip", "dppo")}
    for rate in ("3e-4", "1e-3"):
        row: dict[str, Any] = {"runs": "table 15_needle, 1 start", "seeds": 5, "rate": rate}
        for arm, name in (("clip", CLIP), ("dppo", "dppo_tv")):
            row[arm] = _until([accuracy for _, accuracy in table.curves(f"{name} {rate}", "accuracy")])
        found.append(row)
    return found


def once_letter() -> str:
    """The answer to exercise 15.1: who is sooner with one update to a rollout."""
    table = load_table("15_needle")
    clip, dppo = (table.curves(f"{name} once", "accuracy") for name in (CLIP, "dppo_tv"))
    return sooner([y for _, y in clip], [y for _, y in dppo])


def sooner(clip: Sequence[Any], dppo: Sequence[Any]) -> str:
    """(a) DPPO by two or more, (b) DPPO by less, (c) neither, (d) the clip: by the median of rollouts until 0.9."""
    ours, theirs = (np.median([first(one) for one in runs]) for runs in (dppo, clip))
    return "c" if ours == theirs else "d" if ours > theirs else "a" if ours <= theirs - 2 else "b"


# --- The contest


def regions() -> Rows:
    """A row for the start and for each method: its own rate, the mean over a run, and that less the clip's."""
    table, found = _contest(), []
    start: dict[str, Any] = {"method": UNTRAINED}
    for task in TASKS:
        start[f"{task}: rate"] = None
        start[f"{task}: mean"] = float(table.start(_chosen()[task, CLIP], "accuracy").mean())
        start[f"{task}: less {CLIP}"] = None
    found.append(start)
    for recipe in dict.fromkeys(recipe for _, recipe in _chosen()):
        row: dict[str, Any] = {"method": recipe}
        for task in TASKS:
            name = _chosen()[task, recipe]
            row[f"{task}: rate"] = table.labels[name]["rate"]
            row[f"{task}: mean"] = float(table.mean(name, "accuracy").mean())
            told = contest.less(table, name, _chosen()[task, CLIP])
            row[f"{task}: less {CLIP}"] = None if recipe == CLIP else str(told)
        found.append(row)
    return found


def beside_dppo() -> Rows:
    """`dppo_tv` less other rules that let go of rare tokens, by task; and what ``dppo_kl`` is to it."""
    pairs = [*(("dppo_tv", other) for other in BESIDE), ("dppo_kl", "dppo_tv")]
    return [
        {"difference": f"{ours} less {theirs}"}
        | {task: str(contest.less(_contest(), _chosen()[task, ours], _chosen()[task, theirs])) for task in TASKS}
        for ours, theirs in pairs
    ]


def dead() -> dict[str, int]:
    """How many of its twelve runs died, of each method on a task with any."""
    found = {}
    for (task, recipe), name in _chosen().items():
        if count := sum(died(accuracy) for _, accuracy in _contest().curves(name, "accuracy")):
            found[f"{recipe}, {task}"] = count
    return found


def by_rate(task: str, recipe: str) -> dict[float, np.ndarray]:
    """The mean accuracy of each tuning run (3,) by rate."""
    apart = replace(_contest(), rows=_contest().tuning)
    names = [name for name in _contest().where(task=task, recipe=recipe) if name in apart.rows]
    rates = {float(_contest().labels[name]["rate"]): apart.mean(name, "accuracy") for name in names}
    return dict(sorted(rates.items()))


def stopped() -> Rows:
    """In how many runs the clip stopped more than ``MUCH`` of the tokens at a measurement, and what a wide clip gained,
    by task: of the contest, and of 15_sort.
    """
    found: Rows = []
    for task in TASKS:
        ours, wide = (_chosen()[task, name] for name in (CLIP, "wide_clip"))
        found.append(
            _stopped(_contest(), ours, task) | {"wide_clip less it": str(contest.less(_contest(), wide, ours))}
        )
    table = load_table("15_sort")
    for rate in ("1e-4", "3e-4"):
        wide, ours = (table.last(f"{name} {rate}", "accuracy") for name in ("wide_clip", CLIP))
        row = _stopped(table, f"{CLIP} {rate}", "sort")
        found.append(row | {"rate": rate, "wide_clip less it": str(judge(wide, ours))})
    return found


def _stopped(table: Table, name: str, task: str) -> dict[str, Any]:
    most = np.array([np.nanmax(run["no_gradient"]) for run in table.rows[name].values()])
    row = {"task": task, "rate": table.labels.get(name, {}).get("rate"), "largest share": _span(most)}
    return row | {f"above {MUCH}": f"{(most > MUCH).sum()} of {len(most)}"}


# --- Where large steps do harm


def on_sort() -> Rows:
    """The mean of the last three measurements on sort, by rate, and less the clip's."""
    table, found = load_table("15_sort"), []
    for recipe in dict.fromkeys(name.rpartition(" ")[0] for name in table.rows):
        row: dict[str, Any] = {"method": recipe}
        for rate in ("1e-4", "3e-4"):
            ours, clip = (table.last(f"{name} {rate}", "accuracy") for name in (recipe, CLIP))
            row[f"rate {rate}"] = float(ours.mean())
            row[f"less {CLIP}, {rate}"] = None if recipe == CLIP else str(judge(ours, clip))
        found.append(row)
    return found


def beside_dppo_on_sort() -> Rows:
    """``dppo_tv`` less the others there, by rate."""
    table, found = load_table("15_sort"), []
    for theirs in ("wide_clip", "relax_both", "unmasked", "dppo_symmetric"):
        row = {"difference": f"dppo_tv less {theirs}"}
        for rate in ("1e-4", "3e-4"):
            dppo, other = (table.last(f"{name} {rate}", "accuracy") for name in ("dppo_tv", theirs))
            row[f"rate {rate}"] = str(judge(dppo, other))
        found.append(row)
    return found


# --- Of the deeper page


def five_seeds() -> Rows:
    """Of 15_needle: the mean over the curve, rollouts to one half and to 0.9, tokens without a gradient; medians."""
    table, found = load_table("15_needle"), []
    for name in table.rows:
        curves = [accuracy for _, accuracy in table.curves(name, "accuracy")]
        row: dict[str, Any] = {"method and rate": name, "mean": float(np.median([c[1:].mean() for c in curves]))}
        row |= {f"rollouts to {goal}": float(np.median([first(c, goal) for c in curves])) for goal in (0.5, 0.9)}
        silent = [np.nanmean(values) for _, values in table.curves(name, "no_gradient")]
        found.append(row | {"without gradient": float(np.median(silent))})
    return found


def five_seeds_compared() -> Rows:
    """Differences seed by seed, of the mean over the curve on needle and of the end on sort."""
    needle, sort, found = load_table("15_needle"), load_table("15_sort"), []
    pairs = [("dppo_tv", other) for other in (CLIP, "wide_clip", "unmasked", "relax_both", "dppo_symmetric")]
    for ours, theirs in [*pairs, ("relax_both", CLIP)]:
        row: dict[str, Any] = {"difference": f"{ours} less {theirs}"}
        for table, rates in ((needle, ("3e-4", "1e-3")), (sort, ("1e-4", "3e-4"))):
            for rate in rates:
                if f"{theirs} {rate}" in table.rows:
                    both = [
                        table.mean(f"{name} {rate}", "accuracy") if table is needle
                        else table.last(f"{name} {rate}", "accuracy")
                        for name in (ours, theirs)
                    ]  # fmt: skip
                    row[f"{table.name[3:]} {rate}"] = str(paired_interval(*both))
        found.append(row)
    return found
