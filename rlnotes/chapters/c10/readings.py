"""What chapter 10 reads from its stored runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from rlnotes.chapters.c10.holds import HOLDS
from rlnotes.chapters.c10.live import APART, GATES, TASKS
from rlnotes.studies import contest
from rlnotes.studies.contest import UNTRAINED, results
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import Verdict, judge

CLIP, UNCLIPPED = "clip", "unclipped"
# methods of the contests, and what the chapter calls them
ARMS = {"grpo": CLIP, "unclipped": UNCLIPPED, "sapo": "sapo", "sapo 10": "two-sided 10", "sapo 30": "two-sided 30"}
ARMS |= {"sapo_one_sided": "one-sided 1", "sapo_one_sided 10": "one-sided 10", "sapo_one_sided 30": "one-sided 30"}
RECIPES = {arm: recipe for recipe, arm in ARMS.items()}
# metrics of the end, what the chapter calls them, and where `results` has them of the start
ENDS = (("accuracy", "end", "sampled"), ("greedy", "greedy end", "greedy"))
NEW = ("reverse", "ramble")  # tasks that had no part in the rule that is tried as a predictor

Rows = list[dict[str, Any]]


@cache
def _contest(task: str) -> Table:
    return load_table("10_gates_sort" if task == "sort" else "10_gates")


@cache
def _results(task: str) -> dict[str, dict[str, Any]]:
    known = ARMS | {UNTRAINED: UNTRAINED}
    return {known[row["method"]]: row for row in results(_contest(task)) if row["task"] == task}


@cache
def _named(arm: str, task: str) -> str:
    """What a gate at its own rate is called in the table of its contest."""
    return contest.chosen(_contest(task))[task, RECIPES[arm]]


def lead(arm: str, task: str) -> Verdict:
    """Mean accuracy of a gate's runs on a task less that of the clip's, each at its own rate, with its word."""
    return contest.less(_contest(task), _named(arm, task), _named(CLIP, task), "accuracy")


def end(arm: str, task: str, metric: str) -> np.ndarray:
    """What each run of a gate had in the mean over its last three measurements, (runs,)."""
    return _contest(task).last(_named(arm, task), metric)


def lead_at_the_end(arm: str, task: str, metric: str) -> Verdict:
    """:func:`end` of a gate's runs less that of the clip's. No margin was fixed for it."""
    ours, theirs = (end(one, task, metric) for one in (arm, CLIP))
    return judge(ours, theirs, clusters=_contest(task).starts_of(_named(arm, task)))


def contest_in_short(*tasks: str, ends: bool = False) -> Rows:
    """A row for the start and for each gate: on each of ``tasks`` its rate, its mean accuracy and what that is less the
    clip's, and how many of its runs died where any did; with ``ends`` the same of the end, sampled and greedy.
    """
    deadly = {task for task in tasks for row in _results(task).values() if row["died"][:1] not in ("", "0")}
    found: Rows = []
    for arm in (UNTRAINED, *ARMS.values()):
        row: dict[str, Any] = {"gate": arm}
        for task in tasks:
            own = _results(task)[arm]
            shown = {"rate": own["rate"] or None}
            shown |= {"died": own["died"] or None} if task in deadly else {}
            shown |= {"mean": own["mean"], "less clip": None if arm == CLIP else own["less grpo"]}
            for metric, title, of in ENDS if ends else ():
                shown[title] = own[of] if arm == UNTRAINED else float(end(arm, task, metric).mean())
                told = None if arm in (UNTRAINED, CLIP) else str(lead_at_the_end(arm, task, metric))
                shown[f"{title}, less clip"] = told
            row |= {f"{task}: {name}" if len(tasks) > 1 else name: value for name, value in shown.items()}
        found.append(row)
    return found


def in_words(*tasks: str) -> Rows:
    """A row for each gate: on each of ``tasks`` its mean accuracy less the clip's, the word, and its own rate."""
    found: Rows = []
    for arm in ARMS.values():
        row: dict[str, Any] = {"gate": arm}
        for task in tasks:
            own, told = _results(task)[arm], lead(arm, task)
            word = told.word.removesuffix(" of each other")
            said = f"{own['mean']:.2f}" if arm == CLIP else f"{told.difference.value:+.2f} {word}"
            row[task] = f"{said}, at {own['rate']}"
        found.append(row)
    return found


def begin(task: str) -> dict[str, float]:
    """Share of right answers of a contest's start, greedy and sampled, in the mean over its starts."""
    own = _results(task)[UNTRAINED]
    return {"greedy": own["start, greedy"], "sampled": own["mean"]}


def by_rate(task: str, table: Table | None = None) -> dict[str, dict[float, float]]:
    """Mean accuracy of the tuning runs of each gate by learning rate, as far as rates were tried."""
    table = table or _contest(task)
    apart, found = replace(table, rows=table.tuning), {}
    for arm, recipe in RECIPES.items():
        names = [name for name in table.where(task=task, recipe=recipe) if name in table.tuning]
        found[arm] = {float(table.labels[name]["rate"]): float(apart.mean(name, "accuracy").mean()) for name in names}
    return found


def _runs(task: str, gate: str) -> Rows:
    """The stored runs of the chapter's loop."""
    rows = [one for one in load_rows("10_live") if one["role"] == "loop"] + load_rows("10_holds") + load_rows("10_more")
    return [one for one in rows if (one["task"], one["gate"]) == (task, gate)]


def ended(task: str, gate: str, kind: str = "sampled") -> dict[int, float]:
    """How each stored run of the loop ended, by its seed."""
    return {one["seed"]: one["after"][kind] for one in _runs(task, gate)}


def less_clip(task: str, gate: str, kind: str = "sampled") -> np.ndarray:
    """Right answers at the end with a gate less those with the clip, for each seed of the gate."""
    ours, theirs = ended(task, gate, kind), ended(task, CLIP, kind)
    return np.array([ours[seed] - theirs[seed] for seed in ours])


def loops() -> Rows:
    """A row for each task and gate: greedy answers of the chapter's loop by seed, lowest to highest."""
    found: Rows = []
    for task, gate in product(TASKS, GATES):
        row: dict[str, Any] = {"task": task, "gate": gate, "seeds": len(_runs(task, gate))}
        for when, title in (("before", "start"), ("after", "end")):
            row[f"{title}, greedy"] = _span([one[when]["greedy"] for one in _runs(task, gate)])
        found.append(row)
    return found


def apart() -> Rows:
    """A row for each gate of the loop, ``APART`` and ``HOLDS`` last: what its runs have at the end less the clip's of
    their seed, in the mean and lowest to highest, and the mean of the clip's own.
    """
    found: Rows = []
    for gate in (*GATES, *APART, *HOLDS):
        row: dict[str, Any] = {"gate": gate, "seeds of sort": len(_runs("sort", gate))}
        for task, kind in (("needle", "sampled"), ("sort", "sampled"), ("sort", "greedy")):
            less, own = less_clip(task, gate, kind), np.mean([*ended(task, gate, kind).values()])
            said = f"{less.mean():+.2f}, from {less.min():+.2f} to {less.max():+.2f}"
            row[f"{task}, {kind}"] = f"{own:.2f}" if gate == CLIP else said
        found.append(row)
    return found


def logged() -> Rows:
    """A row for each task and gate of the loop: what is logged of the gate after each round, lowest to highest of all
    rounds of six seeds; and the mean of the gate itself over each run.
    """
    titles = {"mean_gate": "mean of SAPO's gate", "bad": "A < 0 and r < 0.8", "good": "A > 0 and r > 1.2"}
    found: Rows = []
    for task, gate in product(TASKS, GATES):
        row: dict[str, Any] = {"task": task, "gate": gate}
        for key, title in titles.items():
            row[title] = _span([x for one in _runs(task, gate) for x in one[key] if x is not None])
        found.append(row | {"the gate itself, mean of a run": _span([own_gate(one) for one in _runs(task, gate)])})
    return found


def own_gate(run: Mapping[str, Any]) -> float:
    """Of a stored run of the loop: its gate, the clip's or SAPO's, in the mean over tokens and rounds."""
    if run["gate"] == "sapo":
        return float(np.mean([one for one in run["mean_gate"] if one is not None]))
    held = [bad + good for bad, good in zip(run["bad"], run["good"], strict=True) if bad is not None]
    return 1 - float(np.mean(held))


def by_round(task: str, gate: str = "sapo") -> tuple[np.ndarray, np.ndarray]:
    """Of the stored runs of the loop, after each round: the mean of SAPO's gate, and the share of tokens that a clip
    would hold; two arrays of (runs, rounds).
    """
    gates, good, bad = (np.array([one[key] for one in _runs(task, gate)]) for key in ("mean_gate", "good", "bad"))
    return gates, good + bad


def predictor() -> Rows:
    """A row for each task and rate: of the tokens that the clip holds in five rounds, the share of good ones; what that
    foretells; and the mean accuracy of SAPO's tuning runs less that of the clip's at the same rate.
    """
    rows = [one for one in load_rows("10_live") if one["role"] == "held"]
    found: Rows = []
    for task, rate in dict.fromkeys((one["task"], one["rate"]) for one in rows):
        own = [one for one in rows if (one["task"], one["rate"]) == (task, rate)]
        bad, good = (float(np.mean([x for one in own for x in one[key] if x is not None])) for key in ("bad", "good"))
        means = by_rate(task, load_table("17_arena") if task in NEW else None)
        row = {"task": task, "rate": rate, "bad, held": bad, "good, held": good, "good of these": good / (good + bad)}
        row |= {"foretold": foretold(good / (good + bad))}
        found.append(row | {"sapo less clip": means["sapo"][float(rate)] - means[CLIP][float(rate)]})
    return found


def range_of(gates: Sequence[float]) -> str:
    """The letter of exercise 10.1 for the mean of some gates."""
    mean = sum(gates) / len(gates)
    return "a" if mean < 0.8 else "b" if mean < 0.9 else "c" if mean < 0.97 else "d"


def letter_of(change: float) -> str:
    """The letter of exercise 10.2."""
    return "a" if change < -0.1 else "c" if change > 0.1 else "b"


def foretold(share: float) -> str:
    """The rule that was fixed before the last two tasks were looked at."""
    return "ahead" if share > 0.25 else "behind" if share < 0.1 else "–"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
