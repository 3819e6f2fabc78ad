"""What chapter 01 reads from its stored runs: what a rollout says of the policy trained on it, and when to leave it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rlnotes.chapters.c01.one_rollout import ARMS, BOTH, EVERY, RATES, STARTS
from rlnotes.studies.tables import load_rows
from rlnotes.studies.verdicts import judge

SHOWN = 1  # the rollout of the live loop and of the first picture
PATIENCE, MARGIN = 3, 0.02  # looks without a new best; a difference of J that is no reason to choose
FLATTERS = 0.1  # a rollout that says so much more than is true
TASKS = ("sort", "misled")
SPEEDS = ("small", "large")  # of the rates of a task

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
    def rule(run: Run) -> tuple[int, int]:
        there = np.flatnonzero(run[column] < 0.5)
        look = int(there[0]) if len(there) else len(run[column]) - 1
        return look, look

    return rule


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


def clusters(chosen: tuple[Run, ...]) -> list[tuple[str, int]]:
    """What is independent: the rollouts of `sort`, which has one start, and the starts of `misled`."""
    return [
        (run["task"], run["seed"] % STARTS[run["task"]] if STARTS[run["task"]] > 1 else run["seed"]) for run in chosen
    ]


def by_cluster(values: np.ndarray, chosen: tuple[Run, ...]) -> np.ndarray:
    """Means of ``values`` over the runs of each cluster."""
    places = clusters(chosen)
    return np.array([values[[place == one for place in places]].mean() for one in dict.fromkeys(places)])


def rules() -> Rows:
    """A row for each rule: the updates that it makes, and at either rate the true gain, mean over clusters, and what is
    told of its difference to 60 updates; then the runs that end below their start.
    """
    found: Rows = []
    for name, rule in RULES.items():
        row: dict[str, Any] = {"rule": name, "updates": _median([EVERY * rule(run)[0] for run in every_run()])}
        for place, speed in enumerate(SPEEDS):
            own = tuple(run for run in every_run() if run["rate"] == RATES[run["task"]][place])
            gain, never = (by_cluster(gains(one, own), own) for one in (rule, RULES["60 updates"]))
            row[f"{speed} rate: gain"] = gain.mean()
            row[f"{speed}: less 60 updates"] = None if name == "60 updates" else str(judge(gain, never, MARGIN))
        found.append(row | {"below the start": f"{int((gains(rule) < -MARGIN).sum())} of 48"})
    return found


def less(one: str, other: str) -> str:
    """Of all runs one rule less another: the verdict."""
    ours, theirs = (by_cluster(gains(RULES[name]), every_run()) for name in (one, other))
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


def alarms() -> Rows:
    """After the last update: over how many runs whose own rollout says 0.1 too much does a limit ring, and over how
    many others.
    """
    flattered = np.array([run["own_estimate"][-1] - run["J"][-1] > FLATTERS for run in every_run()])
    task = np.array([run["task"] for run in every_run()])
    numbers: dict[str, Callable[[Run], bool]] = {
        "its own ESS below half": lambda run: run["own_ess"][-1] < 0.5,
        "its own mean weight outside 0.5 to 2": lambda run: not 0.5 <= run["own_weight"][-1] <= 2,
        "it says two standard errors more than a held-out rollout": lambda run: (
            run["own_estimate"][-1] - run["held_estimate"][-1]
            > 2 * np.hypot(run["own_error"][-1], run["held_error"][-1])
        ),
    }
    found: Rows = []
    for name, rings in numbers.items():
        rang, row = np.array([bool(rings(run)) for run in every_run()]), {"limit": name}
        for one in TASKS:
            for title, kind in (("flattered", flattered), ("others", ~flattered)):
                own = kind & (task == one)
                row[f"{one}: {title}"] = f"{(rang & own).sum()} of {own.sum()}"
        found.append(row)
    return found


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
