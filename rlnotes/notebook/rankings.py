"""How much of a ranking hangs on the aggregate, on the number of seeds, and on how many recipes are compared."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from rlnotes.notebook.scores import RESAMPLES, Scores, middle, probability_of_improvement


def _mean(*samples: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(samples, axis).mean(axis)


def _median(*samples: np.ndarray, axis: int) -> np.ndarray:
    return np.median(np.concatenate(samples, axis), axis=axis)


AGGREGATES: dict[str, Callable[..., np.ndarray]] = {"interquartile mean": middle, "mean": _mean, "median": _median}
"""of all runs of a recipe, whatever their task"""


def aggregate(values: np.ndarray, name: str) -> float:
    """One number of the scores (tasks, seeds) of a recipe, by one of ``AGGREGATES``."""
    return float(AGGREGATES[name](*values, axis=-1))


def places(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Places 1, 2, ... of ``values`` (n,), the largest first; equal ones share the mean of their places."""
    return stats.rankdata(-np.asarray(values))


def place_table(found: Scores) -> dict[str, np.ndarray]:
    """Places (recipes,) of all recipes by each of ``AGGREGATES``, and by the mean on each task."""
    every = list(found.values.values())
    table = {name: places([aggregate(values, name) for values in every]) for name in AGGREGATES}
    return table | {task: places([values[i].mean() for values in every]) for i, task in enumerate(found.tasks)}


def told_apart(found: Scores, name: str) -> np.ndarray:
    """For each pair of recipes 1 if the aggregate ``name`` of the first is larger, -1 if smaller, 0 if the 95 %
    interval of the difference holds 0: (recipes, recipes).

    The interval is that of a percentile bootstrap, each recipe's runs drawn anew within each task.
    """
    drawn = np.array([
        stats.bootstrap(
            tuple(values), AGGREGATES[name], n_resamples=RESAMPLES, method="percentile", vectorized=True,
            rng=np.random.default_rng(i),
        ).bootstrap_distribution
        for i, values in enumerate(found.values.values())
    ])  # fmt: skip
    ends = [np.quantile(ours - drawn, (0.025, 0.975), axis=-1) for ours in drawn]
    low, high = np.stack(ends, axis=1)
    return (low > 0).astype(int) - (high < 0)


def verdicts_by_seeds(found: Scores, reference: str, seeds: int) -> dict[str, list[int]]:
    """What tables of ``seeds`` runs of each task would have said of each recipe beside ``reference``: 1 better,
    -1 worse, 0 not told apart; one verdict for each block of seeds that have none in common.
    """
    runs = found.values[reference].shape[1]
    if not 2 <= seeds <= runs:
        raise ValueError(f"seeds is {seeds}; it goes from 2 to the {runs} of the table")
    blocks = [slice(start, start + seeds) for start in range(0, runs - seeds + 1, seeds)]

    def verdict(recipe: str, block: slice) -> int:
        chance = probability_of_improvement(found.values[recipe][:, block], found.values[reference][:, block])
        return int(chance.low > 0.5) - int(chance.high < 0.5)

    others = [recipe for recipe in found.values if recipe != reference]
    return {recipe: [verdict(recipe, block) for block in blocks] for recipe in others}


def wrong_orders(found: Scores, seeds: int) -> float:
    """How often the means of ``seeds`` runs on one task put two recipes in another order than the table's other seeds
    do: a share of all pairs, tasks, and blocks of seeds that have none in common.
    """
    return float(np.mean(list(_disagreements(np.array(list(found.values.values())), seeds))))


def _disagreements(values: np.ndarray, seeds: int) -> Iterator[float]:
    pairs = np.triu_indices(len(values), 1)
    for start in range(0, values.shape[-1] - seeds + 1, seeds):
        few = values[..., start : start + seeds].mean(-1)
        rest = np.delete(values, np.s_[start : start + seeds], axis=-1).mean(-1)
        yield np.mean(((few[:, None] - few) * (rest[:, None] - rest) < 0)[pairs])


def p_values(found: Scores, reference: str) -> dict[str, float]:
    """For each recipe the chance of so clear a lead or lag, if its runs were like those of ``reference`` on each task:
    one-sided Mann-Whitney tests by task, put together by Stouffer's method, twice the smaller tail.
    """
    theirs = found.values[reference]
    found_p = {}
    for recipe, ours in found.values.items():
        if recipe != reference:
            by_task = [
                stats.mannwhitneyu(x, y, alternative="greater", method="asymptotic").pvalue
                for x, y in zip(ours, theirs, strict=True)
            ]
            tail = float(np.asarray(stats.combine_pvalues(by_task, method="stouffer"))[1])
            found_p[recipe] = 2 * min(tail, 1 - tail)
    return found_p
