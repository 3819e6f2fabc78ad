"""Scores of recipes over several tasks, and what a few runs of each can say.

After Agarwal, Schwarzer, Castro, Courville and Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (arXiv 2108.13264): the interquartile mean, the probability of improvement and performance profiles, each
with an interval from a bootstrap that draws runs anew within each task. Numbers come from SciPy.

What such an interval knows: how much another set of seeds would change the number, on these tasks, at these learning
rates. Five runs of each task make it too narrow rather than too wide: a bootstrap of five values understates their
variance by a fifth, and the choice of the learning rates, made on few other seeds, is held fixed. Of two recipes that
are the same, one is called better or worse in 6 cases of 100 with five runs of six tasks, in 5 with ten, and in 33
with two runs of one task. An interval knows nothing of other tasks, other models, or longer runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from rlnotes.studies.tables import Runs, Table
from rlnotes.studies.verdicts import Chance, Level, Verdict

RESAMPLES = 2000


class Profile(NamedTuple):
    """The share of runs that score more than each threshold, with pointwise 95 % bands. All have one shape (n,)."""

    thresholds: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Scores:
    """``values[recipe]`` holds the scores of its reported runs, (tasks, seeds), at the learning rate that it was tuned
    to on each task; ``methods[recipe][task]`` is what the table calls it there.
    """

    tasks: tuple[str, ...]
    values: dict[str, np.ndarray]
    methods: dict[str, dict[str, str]]


def score(run: Mapping[str, np.ndarray], budget: int) -> float:
    """How much of what was left to learn a run knew, on average over its first ``budget`` tokens.

    That is (a - start) / (1 - start), where ``a`` is the mean over tokens of held-out accuracy, in a line between
    measurements: 0 if the run stays where it starts, below 0 if it forgets. What is learned early counts longer. Tasks
    start at different accuracies, and so become comparable. A run that is right at every measurement but the start has
    less than 1, the less the fewer measurements there are, since a line leads to the first of them.
    ``run`` maps "tokens" and "accuracy" to arrays (steps,), NaN where nothing was measured. Raises ``ValueError`` if it
    was measured until ``budget`` only in part, or if its start leaves nothing to learn.
    """
    measured = ~np.isnan(run["accuracy"])
    tokens, accuracy = run["tokens"][measured], run["accuracy"][measured]
    if tokens[-1] < budget:
        raise ValueError(f"accuracy was measured up to {tokens[-1]:g} tokens of {budget}; finish the run")
    start = accuracy[0]
    if start >= 1:
        raise ValueError(f"accuracy starts at {start:g}, which leaves nothing to learn; choose a harder task")
    within = tokens < budget
    at = np.append(tokens[within], budget)
    curve = np.append(accuracy[within], np.interp(budget, tokens, accuracy))
    return float((np.trapezoid(curve, at) / budget - start) / (1 - start))


def scores(evidence: Table, tasks: Sequence[str] | None = None) -> Scores:
    """Scores of every recipe in a table of the arena, on ``tasks``, or on all of them.

    Of a recipe's learning rates on a task the one with the largest mean :func:`score` of its tuning runs is taken; only
    other runs are scored then. Recipes that were not run on any of ``tasks`` are left out. Raises ``ValueError`` where
    a recipe was run on some of them only, or not with the same seeds on each, or with other tokens than others.
    """
    chosen = _chosen(evidence, tasks)
    values, methods = {}, {}
    for recipe in dict.fromkeys(own["recipe"] for own in evidence.labels.values()):
        found = {task: at for task in chosen if (at := evidence.where(recipe=recipe, task=task))}
        if not found:
            continue
        if lacking := [task for task in chosen if task not in found]:
            raise ValueError(f"no runs of {recipe!r} on {lacking[0]!r}; finish the table, or name tasks: {[*found]}")
        methods[recipe] = {task: tuned(evidence, at) for task, at in found.items()}
        runs = {task: evidence.rows.get(method, {}) for task, method in methods[recipe].items()}
        if len({tuple(seeds) for seeds in runs.values()}) > 1 or not runs[chosen[0]]:
            counts = ", ".join(f"{len(seeds)} on {task}" for task, seeds in runs.items())
            raise ValueError(f"runs of {recipe!r} do not have the same seeds on each task ({counts}); finish the table")
        values[recipe] = np.array([_scored(evidence, name, evidence.rows) for name in methods[recipe].values()])
    return Scores(chosen, values, methods)


def _chosen(evidence: Table, tasks: Sequence[str] | None) -> tuple[str, ...]:
    """``tasks``, or all; on each of them runs must be equally long."""
    every = tuple(dict.fromkeys(own["task"] for own in evidence.labels.values()))
    chosen = every if tasks is None else tuple(tasks)
    for task in chosen:
        budgets = {evidence.budget(method) for method in evidence.where(task=task)}
        if not budgets:
            raise ValueError(f"no runs of task {task!r} in the table; there are: {', '.join(every) or 'none'}")
        if len(budgets) > 1:
            raise ValueError(f"runs on {task!r} sample {sorted(budgets)} tokens; compare equally long ones only")
    return chosen


def tuned(evidence: Table, methods: Sequence[str]) -> str:
    """The one of ``methods`` whose tuning runs have the largest mean :func:`score`. Raises ``ValueError`` if one of
    them has none.
    """
    if untuned := [method for method in methods if method not in evidence.tuning]:
        raise ValueError(f"no tuning runs of {untuned[0]!r}; finish the table")
    return max(methods, key=lambda method: np.mean(_scored(evidence, method, evidence.tuning)))


def _scored(evidence: Table, method: str, runs: Runs) -> list[float]:
    return [score(run, evidence.budget(method)) for run in runs[method].values()]


def middle(*samples: np.ndarray, axis: int) -> np.ndarray:
    """Mean of the middle half of all ``samples`` along ``axis``, one sample for each task."""
    return stats.trim_mean(np.concatenate(samples, axis), 0.25, axis=axis)


def interquartile_mean(values: np.ndarray) -> Level:
    """Mean of the middle half of all runs (tasks, seeds), whatever their task.

    Neither a lucky run nor a lost one counts. So a recipe that fails in a quarter of its runs is not punished for it:
    its profile tells.
    """
    return Level(float(middle(*values, axis=-1)), *map(float, _interval(values, middle)))


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> Chance:
    """Chance that a run of ours scores more than a run of theirs on the same task, the mean over the tasks; ties count
    half. Shapes (tasks, seeds) and (tasks, other seeds).

    It is the Mann-Whitney U statistic over the number of pairs; it says nothing of how much better. Runs of the same
    seed are not treated as pairs. An interval that holds 0.5 shows no difference; one without width says that no pair
    in the table disagrees, and not that the chance is 1.
    """

    def better(*samples: np.ndarray, axis: int) -> np.ndarray:
        x, y = np.stack(samples[: len(ours)]), np.stack(samples[len(ours) :])
        above = stats.mannwhitneyu(x, y, axis=axis, method="asymptotic").statistic
        return (above / (x.shape[axis] * y.shape[axis])).mean(0)

    strata = (*ours, *theirs)
    return Chance(float(better(*strata, axis=-1)), *map(float, _interval(strata, better)))


def performance_profile(values: np.ndarray, thresholds: np.ndarray) -> Profile:
    """The share of all runs (tasks, seeds) that score more than each of the ``thresholds`` (n,)."""

    def share(*samples: np.ndarray, axis: int) -> np.ndarray:
        above = np.concatenate(samples, axis) > thresholds.reshape(-1, *[1] * samples[0].ndim)
        return above.mean(axis)

    return Profile(thresholds, share(*values, axis=-1), *_interval(values, share))


def _interval(strata: Sequence[np.ndarray] | np.ndarray, statistic: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % percentile-bootstrap interval, each of the ``strata`` (seeds,) drawn anew on its own."""
    if any(len(runs) < 2 for runs in strata):
        raise ValueError("one run of a task has no interval; make at least two of each")
    found = stats.bootstrap(
        tuple(strata), statistic, n_resamples=RESAMPLES, method="percentile", vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return found.low, found.high


@dataclass(frozen=True)
class Standing:
    """A recipe's place: its interquartile mean, and its probability of improvement over the ``reference``."""

    recipe: str
    reference: str
    mean: Level
    improvement: Chance

    @property
    def verdict(self) -> str:
        """What the interval of the improvement allows to say."""
        if self.recipe == self.reference:
            return "the reference"
        return Verdict(self.improvement).word


def standings(found: Scores, reference: str) -> list[Standing]:
    """All recipes beside ``reference``, the largest interquartile mean first.

    Raises ``ValueError`` where the scores have none of the ``reference``.
    """
    if reference not in found.values:
        raise ValueError(f"no scores of {reference!r}; there are: {', '.join(found.values)}")
    theirs = found.values[reference]
    places = []
    for recipe, ours in found.values.items():
        improvement = probability_of_improvement(ours, theirs) if recipe != reference else Chance(0.5, 0.5, 0.5)
        places.append(Standing(recipe, reference, interquartile_mean(ours), improvement))
    return sorted(places, key=lambda place: -place.mean.value)
