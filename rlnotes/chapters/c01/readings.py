"""What chapter 01 reads from its stored runs: what a rollout says of the policy trained on it, and when to leave it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rlnotes.chapters.c01.one_rollout import ARMS, BOTH, EVERY, RATES
from rlnotes.studies.tables import load_rows
from rlnotes.studies.verdicts import judge

SHOWN = 1  # the rollout of the live loop and of the first picture
PATIENCE, MARGIN = 3, 0.02  # looks without a new best; a difference of J that is no reason to choose
TASKS = ("sort", "misled")
SPEEDS = ("small", "large")  # of the rates of a task
FAST = {rates[1] for rates in RATES.values()}

Rows = list[dict[str, Any]]
Run = dict[str, Any]


@cache
def every_run() -> tuple[Run, ...]:
    """All stored runs, columns as arrays."""
    rows = [row for row in load_rows("01_one_rollout") if row["arm"] in ARMS]
    return tuple({name: np.array(x) if isinstance(x, list) else x for name, x in row.items()} for row in rows)


def runs(task: str, arm: str = "weights", rate: float | None = None) -> list[Run]:
    """The runs of a task and an objective by rollout, at the small rate of the task if none is said."""
    rate = RATES[task][0] if rate is None else rate
    return [run for run in every_run() if (run["task"], run["arm"], run["rate"]) == (task, arm, rate)]


def the_run(task: str) -> Run:
    """The stored run that the chapter's loop makes again."""
    return runs(task)[SHOWN]


def nearer(own: float, new: float, again: float) -> str:
    """What the prompts of the rollout, asked again, come near to: "a" what it says, "b" new prompts, "c" neither.

    >>> nearer(own=0.8, new=0.5, again=0.77), nearer(0.8, 0.5, 0.52), nearer(0.8, 0.5, 0.65)
    ('a', 'b', 'c')
    """
    place = (again - new) / (own - new)
    return "a" if place > 2 / 3 else "b" if place < 1 / 3 else "c"


def told(tasks: tuple[str, ...] = TASKS, speeds: tuple[str, ...] = SPEEDS[:1]) -> Rows:
    """A row for each task, objective and rate after the last update: medians over rollouts, lowest to highest."""
    found: Rows = []
    for task in tasks:
        for arm in ARMS:
            for speed in speeds:
                own = runs(task, arm, RATES[task][SPEEDS.index(speed)])
                row: dict[str, Any] = {"task": task, "objective": arm}
                row |= {"rate": speed} if len(speeds) > 1 else {}
                row["start"] = _median([run["J"][0] for run in own])
                names = {"its rollout says": "own_estimate", "true, its prompts": "J_own", "true, new prompts": "J"}
                names |= {"held-out says": "held_estimate", "ESS, its": "own_ess", "ESS, held-out": "held_ess"}
                found.append(row | {name: _spread([run[column][-1] for run in own]) for name, column in names.items()})
    return found


def parts() -> Rows:
    """Of what is promised too much, the part that its prompts explain, and the part that is left, in the mean."""
    found: Rows = []
    for task in TASKS:
        for arm in ARMS:
            own = runs(task, arm)
            means = [np.mean([run[name][-1] for run in own]) for name in ("own_estimate", "J_own", "J")]
            row = {"task": task, "objective": arm, "promised too much": means[0] - means[2]}
            row |= {"its prompts are answered better": means[1] - means[2], "what is left": means[0] - means[1]}
            found.append(row)
    return found


# --- Rules: at which look to leave the rollout, and of which look to keep the weights


def _first(condition: np.ndarray) -> int:
    """The first look at which ``condition`` holds, or the last look."""
    there = np.flatnonzero(condition)
    return int(there[0]) if len(there) else len(condition) - 1


def patient(values: np.ndarray, patience: int = PATIENCE) -> tuple[int, int]:
    """Where to stop, after ``patience`` looks without a new best, and where the best so far is.

    >>> patient(np.array([0.1, 0.3, 0.2, 0.25, 0.2]), patience=2)
    (3, 1)
    """
    best = 0
    for look, value in enumerate(values):
        if value > values[best]:
            best = look
        if look - best >= patience:
            return look, best
    return len(values) - 1, best


def _at(updates: int) -> Callable[[Run], tuple[int, int]]:
    return lambda run: (updates // EVERY, updates // EVERY)


def _below_half(column: str) -> Callable[[Run], tuple[int, int]]:
    return lambda run: (_first(run[column] < 0.5),) * 2


def _patient(column: str, patience: int = PATIENCE) -> Callable[[Run], tuple[int, int]]:
    return lambda run: patient(run[column], patience)


HELD_OUT = "held-out, best weights"
RULES: dict[str, Callable[[Run], tuple[int, int]]] = {
    "4 updates": _at(4),
    "16 updates": _at(16),
    "60 updates": _at(60),
    "own ESS below half": _below_half("own_ess"),
    "held-out ESS below half": _below_half("held_ess"),
    "own estimate, best weights": _patient("own_estimate"),
    HELD_OUT: _patient("held_estimate"),
}


def gains(rule: Callable[[Run], tuple[int, int]], chosen: tuple[Run, ...] | None = None) -> np.ndarray:
    """Of each run the true gain on new prompts with the weights that a rule keeps."""
    return np.array([run["J"][rule(run)[1]] - run["J"][0] for run in chosen or every_run()])


def short_of_best() -> np.ndarray:
    """Of each run the gain of the best look: no rule can know it."""
    return np.array([run["J"].max() - run["J"][0] for run in every_run()])


def by_rollout(values: np.ndarray) -> np.ndarray:
    """Means over the settings of each task and rollout: the runs on one rollout are not independent."""
    places = [(run["task"], run["seed"]) for run in every_run()]
    return np.array([values[[place == one for place in places]].mean() for one in dict.fromkeys(places)])


def rules() -> Rows:
    """A row for each rule: updates made, true gain by rate, what is missing to the best look, runs below their start,
    and the verdict.
    """
    best, fast, found = short_of_best(), np.array([run["rate"] in FAST for run in every_run()]), list[dict[str, Any]]()
    never = by_rollout(gains(RULES["60 updates"]))
    for name, rule in RULES.items():
        gain = gains(rule)
        row: dict[str, Any] = {"rule": name, "updates": float(np.median([EVERY * rule(run)[0] for run in every_run()]))}
        row |= {"gain, small rate": gain[~fast].mean(), "gain, large rate": gain[fast].mean()}
        row |= {
            "short of the best look": (best - gain).mean(),
            "below the start": f"{int((gain < -MARGIN).sum())} of 48",
        }
        same = name == "60 updates"
        row["less 60 updates"] = None if same else str(judge(by_rollout(gain), never, MARGIN))
        found.append(row)
    return found


def held_out_less_own() -> str:
    """Early stopping by the held-out estimate, less that by its own: the verdict."""
    ours, theirs = (by_rollout(gains(RULES[name])) for name in (HELD_OUT, "own estimate, best weights"))
    return str(judge(ours, theirs, MARGIN))


def cost() -> Rows:
    """What the samples of a held-out rollout would have taught, weights at the small rate: true gains, by task."""
    twice, found = [run for run in load_rows("01_one_rollout") if run["arm"] == BOTH], list[dict[str, Any]]()
    for task in TASKS:
        once, both = runs(task), [run for run in twice if run["task"] == task]
        kept = gains(RULES[HELD_OUT], tuple(once))
        gain = np.array([run["J"][-1] - run["J"][0] for run in both])
        row: dict[str, Any] = {
            "task": task,
            "one trained on, one held out": kept.mean(),
            "both trained on": gain.mean(),
        }
        found.append(row | {"both less held out": str(judge(gain, kept, MARGIN))})
    return found


def by_patience(column: str = "held_estimate", looks: tuple[int, ...] = (1, 2, 3, 5, 8)) -> Rows:
    """The rule with other patience."""
    best, found = short_of_best(), []
    for patience in looks:
        rule = _patient(column, patience)
        gain = gains(rule)
        row = {"looks without a new best": patience, "true gain": gain.mean(), "at worst": (best - gain).max()}
        found.append(row | {"updates": float(np.median([EVERY * rule(run)[0] for run in every_run()]))})
    return found


def alarm() -> Rows:
    """Where its own rollout says that a run gained, at the end: does the held-out one, and did it?"""
    found: Rows = []
    for title, follows in (("held-out follows", True), ("held-out does not follow", False)):
        kept = [run for run in every_run() if _rose(run, "own") and _rose(run, "held") == follows]
        true = np.array([run["J"][-1] - run["J"][0] for run in kept])
        row: dict[str, Any] = {"its own rollout says it gained, and the": title, "runs": len(kept)}
        row |= {"true gain above 0.02": int((true > MARGIN).sum()), "median true gain": float(np.median(true))}
        found.append(row)
    return found


def _rose(run: Run, name: str) -> bool:
    """More than one standard error of the gain."""
    gain = run[f"{name}_estimate"][-1] - run[f"{name}_estimate"][0]
    return bool(gain > run[f"{name}_gain_error"][-1])


def _median(values: list[float]) -> float:
    return float(np.median(values))


def _spread(values: list[float]) -> str:
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


# --- The older study, of rollouts that are drawn anew


def renewals() -> Rows:
    """A row for each arm of it: rollouts drawn, reward of new samples, and what the old samples say, over seeds."""
    stored, found = load_rows("01_old_samples"), list[dict[str, Any]]()
    for task, arm in dict.fromkeys((row["task"], row["arm"]) for row in stored):
        own = [row for row in stored if (row["task"], row["arm"]) == (task, arm)]
        row: dict[str, Any] = {"task": task, "new rollout, weights": arm}
        names = {"rollouts": "rollouts", "new samples": "fresh", "its rollout says": "own", "20 others": "held_out_20"}
        for title, column in (names | {"ESS / n": "size", "mean weight": "weight"}).items():
            values = [run[column] for run in own if column in run]
            digits = 0 if column == "rollouts" else 2
            row[title] = f"{min(values):.{digits}f} to {max(values):.{digits}f}" if values else None
        found.append(row)
    return found
