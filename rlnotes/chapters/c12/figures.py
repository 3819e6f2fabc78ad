"""Figures of chapter 12."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from rlnotes.bounds.result import Bound
from rlnotes.chapters.c12.readings import CLIPPED, EVERY, FEEDS, TITLES, chosen, live, tuning_means
from rlnotes.notebook.figures import STYLES, new_figure
from rlnotes.studies.tables import load_table

SMALL, LOWEST, WIDE = 0.01, -200, 0.36  # the axis of promises is straight up to here, and ends there; that of changes


def rounds_promised() -> tuple[Figure, str]:
    """What rounds of the loop were promised, over what they did."""
    figure, (axis,) = new_figure(1, width=5.4, height=3.4)
    words = []
    for style, arm in zip((STYLES[0], STYLES[1], STYLES[3]), ("fresh", "half old", "all old"), strict=True):
        change, promised = (np.concatenate([run[name] for run in live(arm)]) for name in ("change", "promised"))
        axis.plot(change, promised, label=arm, markersize=3.5, alpha=0.6, **style | {"linestyle": ""})
        ends = [f"{x.min():.2f} to {x.max():.3f}" for x in (change, promised)]
        words.append(f"{arm}: changes of {ends[0]}, promises of {ends[1]}")
    line = np.linspace(-WIDE, WIDE, 200)
    axis.plot(line, line, color="0.4", linewidth=1)
    axis.text(WIDE, 0.4, "promised = true", fontsize=8, ha="right", va="bottom")
    axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
    axis.axhspan(LOWEST, -1, color="0.9")
    axis.text(-0.97 * WIDE, -120, "accuracy cannot fall by so much", fontsize=8)
    axis.set_yscale("symlog", linthresh=SMALL)
    axis.set(xlabel="true change of J", ylabel="promised by 12.3, log scale", title="each point is a round (rate 8e-4)")
    axis.set(xlim=(-WIDE, WIDE), ylim=(LOWEST, 2))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    return figure, (
        f"Rounds of six runs, all below the line where promised is true: {'; '.join(words)}. Below -1 no accuracy can "
        "fall."
    )


def clipped_runs() -> tuple[Figure, str]:
    """The accuracy of the contest's feeds with the clip: each run, and the median as far as all of them go."""
    figure, (axis,) = new_figure(1, width=5.4, height=3.4)
    table, words = load_table("12_versions"), []
    own = chosen(table)
    for style, feed in zip(STYLES, FEEDS.values(), strict=False):
        runs = [accuracy for _, accuracy in table.curves(own[feed, CLIPPED], "accuracy")]
        for accuracy in runs:
            axis.plot(EVERY * np.arange(len(accuracy)), accuracy, color=style["color"], linewidth=0.6, alpha=0.4)
        every = np.array([accuracy[: min(map(len, runs))] for accuracy in runs])
        median, (low, high) = np.median(every, 0), (every[:, -1].min(), every[:, -1].max())
        rounds = EVERY * np.arange(len(median))
        axis.plot(rounds, median, label=feed, markersize=4, markevery=3, linewidth=2, **style)
        words.append(
            f"{feed} from {median[0]:.2f} to {median[-1]:.2f} after {rounds[-1]} rounds, runs {low:.2f} to {high:.2f}"
        )
    axis.set(xlabel="rounds", ylabel="accuracy, new prompts", ylim=(0, 1.02))
    axis.set_title("with the clip, rate 1.6e-3; thick: median of 12 runs")
    axis.legend(frameon=False, fontsize=8)
    return figure, f"Median accuracy of 12 runs each, with the clip: {'; '.join(words)}."


def runs_and_rates() -> tuple[Figure, str]:
    """Left the mean accuracy of each run of the contest, right that of the tuning runs by their rate."""
    figure, (left, right) = new_figure(2, width=4.4, height=3.1)
    table, words, places = load_table("12_versions"), [], {feed: place for place, feed in enumerate(FEEDS.values())}
    colours = {recipe: STYLES[i] for i, recipe in enumerate(TITLES)}
    for (feed, recipe), name in chosen(table).items():
        style, accuracy = colours[recipe], np.sort(table.mean(name, "accuracy"))
        across = places[feed] + 0.2 * list(TITLES).index(recipe) - 0.1 + np.linspace(-0.07, 0.07, len(accuracy))
        dots = {"linestyle": "", "markersize": 4, "alpha": 0.8}
        left.plot(across, accuracy, label=TITLES[recipe] if feed == "fresh" else None, **style | dots)
        words.append(
            f"{feed}, {TITLES[recipe]} {accuracy[0]:.2f} to {accuracy[-1]:.2f}, median {np.median(accuracy):.2f}"
        )
    left.set_xticks([*places.values()], [*places], fontsize=8)
    left.set(ylabel="mean accuracy of a run", ylim=(0, 1), title="twelve runs, each at its best rate")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    tuned = tuning_means()
    for feed, line in (("half old", ":"), ("all old", "-")):
        for recipe, title in TITLES.items():
            rates = tuned[feed, recipe]
            own = colours[recipe] | {"linestyle": line, "markersize": 4, "label": f"{feed}, {title}"}
            right.plot([*rates], [*rates.values()], **own)
            words.append(f"{feed}, {title} " + ", ".join(f"{mean:.2f} at {rate:g}" for rate, mean in rates.items()))
    right.set_xscale("log")
    right.set(xlabel="learning rate", ylim=(0, 1), title="three tuning runs, by rate")
    right.legend(frameon=False, fontsize=8, loc="lower center")
    here = len(places) * len(TITLES)
    return figure, f"Left, mean accuracy of runs: {'; '.join(words[:here])}. Right, by rate: {'; '.join(words[here:])}."


def promised_over_true(pairs: Sequence[tuple[Bound, Bound]], far: float = 0.02) -> tuple[Figure, str]:
    """Promised over true change of the return, for two bounds on the same cases, cut to changes of at most ``far``."""
    figure, axes = new_figure(2)
    inside = []
    for axis, column, name, style in zip(
        axes, zip(*pairs, strict=True), ("Theorem 12.12", "Theorem 12.14"), STYLES, strict=False
    ):
        true, promised = (np.array([getattr(bound, part) for bound in column]) for part in ("true", "lower"))
        axis.plot(true, promised, style["marker"], color=style["color"], markersize=3, alpha=0.6)
        axis.plot([-far, far], [-far, far], color="0.4", linewidth=1)
        axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
        axis.set(title=name, xlabel="true change of the return", xlim=(-far, far), ylim=(-far, far))
        axis.set_xticks(np.linspace(-far, far, 5))
        shown = abs(true) < far
        counts = [int((promised[shown] > floor).sum()) for floor in (-far, 0)]
        inside.append(f"{name}: of {shown.sum()} such cases {counts[0]} are in the picture, {counts[1]} above 0")
    axes[0].set_ylabel("promised change")
    return (
        figure,
        f"Promised over true change, cut to changes of at most {far:g}, all below the diagonal. {'; '.join(inside)}.",
    )
