"""How much of a ranking hangs on the aggregate, on the number of seeds, and on how many recipes are compared."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from rlnotes.studies.scores import RESAMPLES, Scores, Standing, middle, probability_of_improvement
from rlnotes.studies.verdicts import BETTER, WORSE, Verdict


def _mean(*samples: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(samples, axis).mean(axis)


def _median(*samples: np.ndarray, axis: int) -> np.ndarray:
    return np.median(np.concatenate(samples, axis), axis=axis)


AGGREGATES: dict[str, Callable[..., np.ndarray]] = {"interquartile mean": middle, "mean": _mean, "median": _median}
"""of all runs of a recipe, whatever their task"""
SIGNS = {BETTER: 1, WORSE: -1}


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
    -1 worse, 0 not told; one verdict for each block of seeds that have none in common.
    """
    runs = found.values[reference].shape[1]
    if not 2 <= seeds <= runs:
        raise ValueError(f"seeds is {seeds}; it goes from 2 to the {runs} of the table")
    blocks = [slice(start, start + seeds) for start in range(0, runs - seeds + 1, seeds)]

    def verdict(recipe: str, block: slice) -> int:
        chance = probability_of_improvement(found.values[recipe][:, block], found.values[reference][:, block])
        return SIGNS.get(Verdict(chance).word, 0)

    others = [recipe for recipe in found.values if recipe != reference]
    return {recipe: [verdict(recipe, block) for block in blocks] for recipe in others}


class Blocks(NamedTuple):
    """Counts of what tables of few seeds say: ``different`` of all ``verdicts``; of these the ones ``against`` the
    whole table, and all that are ``not_in`` it; and of ``pairs`` of blocks those that ``agree``, or ``contradict``.
    """

    verdicts: int
    different: int
    against: int
    not_in: int
    pairs: int
    agree: int
    contradict: int


def blocks(found: Scores, ranking: Sequence[Standing], seeds: int) -> Blocks:
    """:func:`verdicts_by_seeds` beside the verdicts of the whole table, of which each block is a part: ``ranking`` is
    what :func:`rlnotes.studies.scores.standings` makes of ``found``.
    """
    whole = {place.recipe: SIGNS.get(place.verdict, 0) for place in ranking}
    by_recipe = verdicts_by_seeds(found, ranking[0].reference, seeds)
    made = [(verdict, whole[recipe]) for recipe, own in by_recipe.items() for verdict in own if verdict]
    pairs = [pair for own in by_recipe.values() for pair in itertools.combinations(own, 2)]
    return Blocks(
        verdicts=sum(map(len, by_recipe.values())),
        different=len(made),
        against=sum(verdict == -told for verdict, told in made),
        not_in=sum(verdict != told for verdict, told in made),
        pairs=len(pairs),
        agree=sum(a == b for a, b in pairs),
        contradict=sum(a * b < 0 for a, b in pairs),
    )


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


@cache
def _law_of_u(ours: int, theirs: int) -> np.ndarray:
    """Chances (ours * theirs + 1,) of Mann and Whitney's U = 0, 1, ... if all orders of the runs are equally likely."""
    if 0 in (ours, theirs):
        return np.ones(1)
    law = np.zeros(ours * theirs + 1)
    law[theirs:] += _law_of_u(ours - 1, theirs) * ours / (ours + theirs)  # the largest is ours, and above all of theirs
    law[: ours * (theirs - 1) + 1] += _law_of_u(ours, theirs - 1) * theirs / (ours + theirs)
    return law


def p_values(found: Scores, reference: str) -> dict[str, float]:
    """For each recipe the chance of so clear a lead or lag, if its runs were like those of ``reference`` on each task:
    twice the smaller tail of the sum over the tasks of Mann and Whitney's U, whose exact law is counted, and at most 1.

    It is the same if the two change places. Half a pair, from ties, is taken to the side of no difference.
    """
    theirs = found.values[reference]
    found_p = {}
    for recipe, ours in found.values.items():
        if recipe != reference:
            law = np.ones(1)
            for x, y in zip(ours, theirs, strict=True):
                law = np.convolve(law, _law_of_u(len(x), len(y)))
            total = stats.mannwhitneyu(ours, theirs, axis=-1, method="asymptotic").statistic.sum()
            tails = law[math.floor(total) :].sum(), law[: math.ceil(total) + 1].sum()
            found_p[recipe] = min(1.0, 2 * float(min(tails)))
    return found_p
