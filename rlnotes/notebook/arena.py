"""What the table of the arena says: a ranking, profiles and curves, and in words what may be concluded from it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlnotes.notebook.figures import STYLES, new_figure
from rlnotes.notebook.laboratory import check_told_apart, draw_band
from rlnotes.studies import Interval, Table, read_table
from rlnotes.studies.rankings import AGGREGATES, place_table
from rlnotes.studies.scores import (
    Scores,
    Standing,
    performance_profile,
    probability_of_improvement,
    scores,
    standings,
)

MARKERS = {"better": "^", "worse": "v", "not told": "o", "the reference": "D"}
THRESHOLDS = np.linspace(-1, 1, 201)


def draw_ranking(places: Sequence[Standing]) -> tuple[Figure, str]:
    """A row for each recipe, the best on top: its interquartile mean, and its probability of improvement over the
    reference, with their intervals. Returns the figure and its alternative text.
    """
    reference = places[0].reference
    figure, (left, right) = new_figure(2, height=0.8 + 0.19 * len(places))
    _draw_rows(left, [place.mean for place in places], ["."] * len(places))  # the verdict is not the mean's
    left.set(xlabel="interquartile mean of the score", yticks=range(len(places)))
    left.set_yticklabels([place.recipe for place in places], fontsize=8)
    _draw_rows(right, [place.improvement for place in places], [MARKERS[place.verdict] for place in places])
    right.set(xlabel=f"chance to score more than {reference}", xlim=(-0.03, 1.03), yticks=range(len(places)))
    right.set_yticklabels([])
    right.axvline(0.5, color="0.4", linewidth=1)
    used = {place.verdict for place in places}
    for verdict, marker in MARKERS.items():
        if verdict in used:
            right.plot([], [], linestyle="", marker=marker, color="0.2", markersize=4, label=verdict)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    told = "; ".join(f"{place.recipe} {place.mean.value:.2f}, {place.verdict}" for place in places)
    return figure, f"Interquartile means, and what can be said of each recipe beside {reference}: {told}"


def _draw_rows(axis: Axes, estimates: Sequence[Interval], markers: Sequence[str]) -> None:
    for row, (estimate, marker) in enumerate(zip(estimates, markers, strict=True)):
        axis.plot([estimate.low, estimate.high], [row, row], color=STYLES[0]["color"], linewidth=1.6)
        axis.plot(estimate.value, row, marker=marker, color="0.2", markersize=4)
    axis.set_ylim(len(estimates) - 0.4, -0.6)


def draw_places(found: Scores) -> tuple[Figure, str]:
    """A row for each recipe, the largest interquartile mean on top: its places by each aggregate of all runs, and,
    right of a line, by the mean on each task. Dark is first. Returns the figure and its alternative text.
    """
    by = place_table(found)
    rows = np.argsort(by["interquartile mean"], kind="stable")
    names = [list(found.values)[row] for row in rows]
    grid = np.array([column[rows] for column in by.values()]).T
    figure, (axis,) = new_figure(1, width=7.6, height=0.8 + 0.2 * len(names))
    axis.grid(False)
    axis.imshow(grid, cmap="Greys_r", aspect="auto", vmin=-8, vmax=len(names) + 4)
    for (i, j), place in np.ndenumerate(grid):
        color = "white" if place < len(names) / 2 - 1 else "black"
        axis.text(j, i, f"{place:.0f}", ha="center", va="center", fontsize=7, color=color)
    labels = [name.replace("interquartile mean", "IQM") for name in by]
    axis.set_xticks(range(len(by)), labels, rotation=30, ha="right", fontsize=8)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.axvline(len(AGGREGATES) - 0.5, color="C1", linewidth=2)
    told = "; ".join(f"{name} {' '.join(f'{p:.0f}' for p in row)}" for name, row in zip(names, grid, strict=True))
    return figure, f"Places of recipes by {', '.join(labels)}. {told}"


def draw_profiles(found: Scores, recipes: Sequence[str]) -> tuple[Figure, str]:
    """For each of at most seven ``recipes`` the share of runs that score more than a threshold, with 95 % bands.

    A curve above another everywhere is better at every level; curves that cross fail on different runs.
    """
    check_told_apart("recipes", recipes)
    figure, (axis,) = new_figure(1, width=6.4, height=3.4)
    told = []
    for recipe, style in zip(recipes, STYLES, strict=False):
        profile = performance_profile(found.values[recipe], THRESHOLDS)
        axis.step(profile.thresholds, profile.share, label=recipe, markevery=20, markersize=4, **style)
        axis.fill_between(
            profile.thresholds, profile.low, profile.high, color=style["color"], alpha=0.1, linewidth=0, step="pre"
        )
        told.append(f"{recipe} {', '.join(f'{np.mean(found.values[recipe] > level):.0%}' for level in (0, 0.5))}")
    lowest = min(found.values[recipe].min() for recipe in recipes)
    axis.set(xlabel="score τ", ylabel="share of runs that score more than τ", xlim=(min(lowest, 0) - 0.05, 1.02))
    axis.legend(frameon=False, fontsize=8)
    return figure, f"Performance profiles. Share of runs with a score above 0, and above 0.5: {'; '.join(told)}"


def draw_curves(evidence: Table, found: Scores, recipes: Sequence[str]) -> tuple[Figure, str]:
    """Held-out accuracy over tokens sampled, a panel for each task, of at most seven ``recipes`` at their own rates:
    medians of the reported seeds, and bands from the lowest to the highest.
    """
    check_told_apart("recipes", recipes)
    width, height = (5.2, 3.2) if len(found.tasks) == 1 else (3.4, 2.6)  # a panel alone has to hold the legend
    figure, axes = new_figure(len(found.tasks), columns=3, width=width, height=height)
    told = []
    for axis, task in zip(axes, found.tasks, strict=True):
        ends = []
        for recipe, style in zip(recipes, STYLES, strict=False):
            band = evidence.band(found.methods[recipe][task], "accuracy")
            draw_band(axis, band, recipe, style)
            ends.append(f"{recipe} {band.median[-1]:.2f}")
        axis.set(title=task, xlabel="tokens sampled (1000)", ylim=(-0.03, 1.03))
        told.append(f"{task}: {', '.join(ends)}")
    axes[0].set_ylabel("accuracy, new prompts")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure, f"Learning curves; accuracy at the end, median of the seeds. {'; '.join(told)}"


def ranking_lines(places: Sequence[Standing]) -> Iterator[str]:
    """The ranking as a table in text."""
    width = max(len(place.recipe) for place in places)
    yield f"{'recipe':{width}s}  interquartile mean       chance to beat {places[0].reference}"
    for place in places:
        yield f"{place.recipe:{width}s}  {place.mean}  {place.improvement}  {place.verdict}"


def conclusions(evidence: Table, found: Scores, places: Sequence[Standing]) -> Iterator[str]:
    """What can be concluded from the ranking ``places``, and what cannot: sentences with this table's numbers."""
    reference, others = places[0].reference, len(places) - 1
    counts = Counter(place.verdict for place in places)
    yield (
        f"Of {others} recipes {counts['better']} are better than {reference} on these {len(found.tasks)} tasks, "
        f"{counts['worse']} are worse, and {counts['not told']} are not told apart from it by "
        f"{found.values[reference].shape[1]} runs of each task."
    )
    yield (
        "Each verdict stands on an interval of 95 % of its own, and few runs make it too narrow: were all recipes the "
        f"same, at least {0.05 * others:.2f} of {others} would still be called better or worse."
    )
    yield _first_told(found, [place.recipe for place in places])
    yield _tuning_told(evidence, found)
    yield (
        "Nothing is said of other tasks, larger models, longer runs, or other numbers of updates per rollout. Recipes "
        "that are not told apart need not be equal."
    )


def _first_told(found: Scores, ranking: Sequence[str]) -> str:
    """Who shares the first place: the others that its runs do not beat, by the interval."""
    first, *others = ranking
    shared = [name for name in others if probability_of_improvement(found.values[first], found.values[name]).low <= 0.5]
    return f"{first} comes first. By the interval of its chance to beat each of them, it is " + (
        f"not told apart from {', '.join(shared)}." if shared else "told apart from every other recipe."
    )


def _tuning_told(evidence: Table, found: Scores) -> str:
    """How often the best learning rate lies at an end of the grid, where a wider one could find a better."""
    seeds = {seed for runs in evidence.tuning.values() for seed in runs}
    rates = sorted({own["rate"] for own in evidence.labels.values()}, key=float)
    chosen = Counter(evidence.labels[at]["rate"] for own in found.methods.values() for at in own.values())
    return (
        f"Every recipe was tuned over the same learning rates, task by task, on {len(seeds)} other seeds: "
        f"{', '.join(f'{rate} was best {chosen[rate]} times' for rate in rates)}. Where that is the smallest or "
        "the largest, a wider grid might have found a better one."
    )


def report(folder: Path) -> Iterator[str]:
    """Draw ``folder/table.csv`` into ``folder``, and say what it says, line by line, beside its first recipe."""
    evidence = read_table(folder.name, folder / "table.csv", folder / "table.json")
    found = scores(evidence)
    places = standings(found, reference=next(iter(found.values)))
    best = list(dict.fromkeys([places[0].reference, *(place.recipe for place in places)]))[: len(STYLES)]
    pictures = dict(
        ranking=draw_ranking(places)[0],
        profiles=draw_profiles(found, best)[0],
        curves=draw_curves(evidence, found, best)[0],
    )
    for name, figure in pictures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    yield from ranking_lines(places)
    yield ""
    yield from conclusions(evidence, found, places)
    yield f"Pictures: {', '.join(f'{folder / name}.png' for name in pictures)}"
