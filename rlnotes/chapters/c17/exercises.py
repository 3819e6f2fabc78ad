"""Exercises of chapter 17, the arena."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from rlnotes.notebook.exercise import Exercise
from rlnotes.studies.power import detection

LEVEL = 0.05


def _middle(values: np.ndarray) -> float:
    """Run by run: a quarter is taken away at each end."""
    left = sorted(values.ravel().tolist())
    for _ in range(values.size // 4):
        left.remove(min(left))
        left.remove(max(left))
    return math.fsum(left) / len(left)


def _between(values: np.ndarray) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(values[(values >= low) & (values <= high)].mean())


def _pulled_in(values: np.ndarray) -> float:
    ordered, cut = np.sort(values.ravel()), values.size // 4
    return float(np.clip(values, ordered[cut], ordered[-cut - 1]).mean())


def _pairs(ours: np.ndarray, theirs: np.ndarray, tie: float = 0.5) -> float:
    """Pair by pair, task by task."""
    by_task = [
        np.mean([1.0 if x > y else tie if x == y else 0.0 for x, y in itertools.product(*task)])
        for task in zip(ours.tolist(), theirs.tolist(), strict=True)
    ]
    return math.fsum(by_task) / len(by_task)


def _by_seed(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))


def _honest(tuning: np.ndarray, reported: np.ndarray) -> float:
    """The rates in the order of their tuning means; the first one's other seeds."""
    order = sorted(range(len(tuning)), key=lambda i: -math.fsum(tuning[i]))
    return math.fsum(reported[order[0]]) / reported.shape[1]


def _holm(p: np.ndarray) -> np.ndarray:
    """From the smallest p on, each against 5 % over the number of those not yet passed, until one fails."""
    keep, left = np.zeros(len(p), dtype=bool), len(p)
    for i in sorted(range(len(p)), key=lambda i: p[i]):
        if p[i] > LEVEL / left:
            break
        keep[i], left = True, left - 1
    return keep


def _hochberg(p: np.ndarray) -> np.ndarray:
    """From the largest p down: the first that is small enough, and all below it."""
    order, keep = np.argsort(p), np.zeros(len(p), dtype=bool)
    small = np.flatnonzero(p[order] <= LEVEL / np.arange(len(p), 0, -1))
    keep[order[: small.max() + 1 if len(small) else 0]] = True
    return keep


def _strictly(p: np.ndarray) -> np.ndarray:
    order, keep = np.argsort(p), np.zeros(len(p), dtype=bool)
    keep[order] = np.logical_and.accumulate(p[order] < LEVEL / np.arange(len(p), 0, -1))
    return keep


def _in_place(p: np.ndarray) -> np.ndarray:
    """Without a sort: the limits go to the places as they come."""
    return np.logical_and.accumulate(p <= LEVEL / np.arange(len(p), 0, -1))


def _without_stop(p: np.ndarray) -> np.ndarray:
    places = stats.rankdata(p, method="ordinal")
    return p <= LEVEL / (len(p) + 1 - places)


def _needed(gap: float, spread: float, recipes: int, chance: float = 0.8) -> int:
    """Number by number."""
    return next(n for n in itertools.count(1) if detection(n, gap, spread, LEVEL / recipes) >= chance)


def _closed(sides: int, variance: float, corrected: bool = True) -> Callable[[float, float, int], int]:
    """A closed form that gets the sides of the interval, the variance of the difference, or the level wrong."""

    def needed(gap: float, spread: float, recipes: int) -> int:
        level = LEVEL / (recipes if corrected else 1)
        z = stats.norm.isf(level / sides) + stats.norm.ppf(0.8)
        return math.ceil(variance * (spread / gap * z) ** 2)

    return needed


def _gentle(rewards: np.ndarray, group_size: int, down: float, others: bool = True) -> np.ndarray:
    """Response by response."""
    found = []
    for i, reward in enumerate(rewards.tolist()):
        start = i - i % group_size
        group = rewards[start : start + group_size].tolist()
        rest = [r for j, r in enumerate(group) if not others or start + j != i]
        advantage = reward - math.fsum(rest) / len(rest)
        found.append(advantage if advantage > 0 else down * advantage)
    return np.array(found)


_SCORES = tuple(
    (np.array(values),)
    for values in (
        [[0.0, 0.1, 0.2, 0.9], [0.4, 0.5, 0.6, 1.0]],
        [[0.9, -0.8, 0.1, 0.3, 0.35, 0.2, 0.25, 0.7]],
        [[0.8, 0.9, 1.0, 0.85], [0.1, 0.0, 0.2, 0.3], [0.5, 0.45, 0.7, 0.55]],
        [[0.2, 0.2, 0.2, 0.1], [0.9, 0.6, 0.3, 0.8]],  # equal runs at the edge
    )
)
_DUELS = tuple(
    (np.array(ours), np.array(theirs))
    for ours, theirs in (
        ([[0.3, 0.6], [0.9, 0.8]], [[0.5, 0.2], [0.8, 0.7]]),
        ([[0.1, 0.2, 0.3], [0.9, 0.5, 0.5]], [[0.3, 0.0, 0.1], [0.6, 0.5, 0.95]]),
    )
)
_TUNED = tuple(
    (np.array(tuning), np.array(reported))
    for tuning, reported in (
        ([[0.5, 0.6, 0.55], [0.9, 0.4, 0.3]], [[0.45, 0.55], [0.6, 0.7]]),
        ([[0.5, 0.5, 0.5], [0.9, 0.45, 0.4]], [[0.6, 0.5], [0.35, 0.4]]),
        ([[0.1, 0.2], [0.4, 0.3], [0.25, 0.44]], [[0.8, 0.6, 0.7], [0.3, 0.3, 0.4], [0.5, 0.6, 0.4]]),
    )
)
_PS = tuple(
    (np.array(p),)
    for p in (
        [0.001, 0.0126, 0.014, 0.2],
        [0.03, 0.001, 0.02, 0.021],
        [0.016, 0.013, 0.029, 0.045, 0.3],
        [0.0125, 0.04, 0.001, 0.5],
        [0.025, 0.0125, 0.05, 0.001],  # each but the third at its limit
        [0.02, 0.004, 0.045, 0.012],
    )
)
_SIZES = ((0.05, 0.04, 33), (0.03, 0.05, 5), (0.1, 0.04, 10))
_GROUPS = (
    (np.array([1.0, 0, 0, 0, 1, 1, 1, 0]), 4, 0.1),
    (np.array([1.0, 0, 1, 1, 1, 1]), 3, 0.25),
    (np.array([0.2, 0.9, 0.4, 0.4]), 2, 0.0),
)

EXERCISES: dict[str, Exercise] = {
    "17.0": Exercise(
        cases=((),),
        oracle=lambda: 21,
        misconceptions={
            "that is the line for each verdict on its own; take the curve 'seen, all'": lambda: 11,
            "with 20 it is 78 %: just below": lambda: 20,
            "one fewer is enough: with 21 it is 81 %": lambda: 22,
        },
        hints=(
            "Put the lead on 0.05 and the deviation on 0.04, and leave 33 recipes.",
            "Move the first slider until the text says 80 % or more after 'with a line for all'.",
        ),
    ),
    "17.1": Exercise(
        cases=_SCORES,
        oracle=_middle,
        misconceptions={
            "that is the mean of all runs; the outer quarters do not count": lambda v: v.mean(),
            "that is the median": lambda v: np.median(v),
            "all runs are sorted together, whatever their task; this cuts within each task": (
                lambda v: np.mean([_middle(task) for task in v])
            ),
            "the outer quarters are dropped; this pulls them in to the edge and counts them": _pulled_in,
            "a quarter goes at each end, so that half is left; this drops an eighth": (
                lambda v: np.mean(np.sort(v.ravel())[v.size // 8 : v.size - v.size // 8])
            ),
            "sort the runs first: this takes those that stand in the middle": (
                lambda v: v.ravel()[v.size // 4 : v.size - v.size // 4].mean()
            ),
            "np.sort of a table sorts each task for itself; make one row of it first": (
                lambda v: np.sort(v).ravel()[v.size // 4 : v.size - v.size // 4].mean()
            ),
            "that is the interquartile range, a width; asked is the mean of what lies inside": (
                lambda v: np.subtract(*np.quantile(v, (0.75, 0.25)))
            ),
            "only the lowest quarter is dropped here": lambda v: np.sort(v.ravel())[v.size // 4 :].mean(),
            "only the highest quarter is dropped here": lambda v: np.sort(v.ravel())[: v.size - v.size // 4].mean(),
            "trim_mean goes along the first axis, across the tasks; make one row of the table first": (
                lambda v: stats.trim_mean(v, 0.25)
            ),
            "a quarter is a number of runs; by value, equal runs at the edge all stay": _between,
        },
        hints=(
            "Sort all runs, whatever their task. How many are a quarter?",
            "ordered[n // 4 : n - n // 4].mean(), with n = values.size",
        ),
    ),
    "17.2": Exercise(
        cases=_DUELS,
        oracle=_pairs,
        misconceptions={
            "a tie counts one half; this counts it as lost": lambda x, y: _pairs(x, y, 0.0),
            "a tie counts one half; this counts it as won": lambda x, y: _pairs(x, y, 1.0),
            "a run is compared with every run of the other on this task, not with that of its own seed": _by_seed,
            "runs of different tasks are not compared: take each task on its own, then the mean": (
                lambda x, y: _pairs(x.reshape(1, -1), y.reshape(1, -1))
            ),
            "this is the chance that theirs scores more": lambda x, y: _pairs(y, x),
        },
        hints=(
            "For one task: x[:, None] > y[None, :] has all pairs.",
            "ours[:, :, None] against theirs[:, None, :]; the mean of (more) + 0.5 * (equal).",
        ),
    ),
    "17.3": Exercise(
        cases=_TUNED,
        oracle=_honest,
        misconceptions={
            "the reported seeds have chosen here: the largest of their means is too good by its own luck": (
                lambda tuning, reported: reported.mean(1).max()
            ),
            "right rate, but this is what the tuning runs say of it; they have chosen it": (
                lambda tuning, reported: tuning.mean(1).max()
            ),
            "one lucky tuning run has chosen; take the mean over the tuning seeds": (
                lambda tuning, reported: reported[np.unravel_index(tuning.argmax(), tuning.shape)[0]].mean()
            ),
            "the median of the tuning runs has chosen; take their mean": (
                lambda tuning, reported: reported[np.median(tuning, 1).argmax()].mean()
            ),
            "that is the largest single reported run": lambda tuning, reported: reported.max(),
        },
        hints=(
            "Two steps: which rate has the largest mean of its tuning runs? What is the mean of that rate's others?",
            "reported[tuning.mean(1).argmax()].mean()",
        ),
    ),
    "17.4": Exercise(
        cases=_PS,
        oracle=_holm,
        misconceptions={
            "these are all below 5 %, without a correction": lambda p: p <= LEVEL,
            "that is Bonferroni: 5 % over the number of all, for each. Holm divides by those that are left": (
                lambda p: p <= LEVEL / len(p)
            ),
            "that is Benjamini and Hochberg's rule: a share of false ones is let through": (
                lambda p: stats.false_discovery_control(p) <= LEVEL
            ),
            "that is Hochberg's rule, from the largest p down, which needs more than Holm's. Here the first that "
            "fails, counted from the smallest, ends it": _hochberg,
            "after the first that fails, none remains, even if it is below its own limit": _without_stop,
            "a p that is equal to its limit remains: stop at the first that is larger": _strictly,
            "these stand in the order of size; give them back in the order of p": lambda p: _holm(np.sort(p)),
            "sort first: the smallest p meets the smallest limit": _in_place,
        },
        hints=(
            "Go from the smallest to the largest, with the limits 0.05 / m, 0.05 / (m - 1), ..., 0.05.",
            "Which is the first that fails? Those before it remain, each in its own place.",
            "order = np.argsort(p); passed = p[order] <= 0.05 / np.arange(len(p), 0, -1); "
            "keep = np.zeros(len(p), bool); keep[order] = np.logical_and.accumulate(passed)",
        ),
    ),
    "17.5": Exercise(
        cases=_SIZES,
        oracle=_needed,
        misconceptions={
            "the level is 5 % for all verdicts together: 0.05 / recipes for each": _closed(2, 2.0, corrected=False),
            "an interval has two ends: half of the level lies beyond each": _closed(1, 2.0),
            "both recipes have luck: the variance of the difference is 2 spread² / n": _closed(2, 1.0),
            "with so many runs a lead is seen every second time; 80 % takes the other quantile, too": (
                lambda gap, spread, recipes: _needed(gap, spread, recipes, 0.5)
            ),
        },
        hints=(
            "Fact 17.7: seen where gap / (spread * sqrt(2 / n)) - z is at least norm.ppf(0.8). Which z?",
            "z = norm.isf(0.05 / recipes / 2); solve for n.",
            "math.ceil(2 * (spread / gap * (z + norm.ppf(0.8))) ** 2)",
        ),
    ),
    "17.6": Exercise(
        cases=_GROUPS,
        oracle=_gentle,
        misconceptions={
            "the mean is over the *other* responses of the group": lambda r, g, d: _gentle(r, g, d, others=False),
            "the negative ones are not 0, they are `down` times as large": lambda r, g, d: _gentle(r, g, 0.0),
            "the negative ones are made smaller, not the positive ones": lambda r, g, d: -_gentle(-r, g, d),
            "these are RLOO's own; the negative ones are to be made smaller": lambda r, g, d: _gentle(r, g, 1.0),
        },
        hints=(
            "groups = rewards.reshape(-1, group_size); the others' mean is (sum - own) / (group_size - 1).",
            "A = (groups - others).reshape(-1); then A where A > 0, and down * A elsewhere.",
            "A * (down + (1 - down) * (A > 0)) works for arrays and for tensors",
        ),
    ),
    "17.7": Exercise(
        cases=((),),
        oracle=lambda: "bceg",
        misconceptions={
            "(a): it only shows that these runs do not tell them apart": lambda: "abceg",
            "(d): more seeds say more of these tasks, not of others": lambda: "bcdeg",
            "(f): that some one of m events happens is at most the sum of their chances, dependent or not": (
                lambda: "bcefg"
            ),
            "(b) is true: these runs are a sixth of all, and the lowest quarter is dropped": lambda: "ceg",
            "(g) is true: it counts who is ahead, not by how much": lambda: "bce",
        },
        hints=("Four are true.", "For (b): which runs does the interquartile mean drop?"),
    ),
}
