"""Figures of chapter 08."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c08.readings import DENOMINATORS, SIGN, gaps, live
from rlnotes.notebook.figures import STYLES, new_figure


def lengths_by_step() -> tuple[Figure, str]:
    """Mean length of right and of wrong responses over the steps, a panel for each denominator, a line for each run."""
    figure, axes = new_figure(len(DENOMINATORS), columns=3, width=3.1, height=2.7)
    words, seeds = [], len(live("chapter", DENOMINATORS[0]))
    for axis, name in zip(axes, DENOMINATORS, strict=True):
        for style, verdict in zip(STYLES, ("right", "wrong"), strict=False):
            runs = np.array([run[verdict] for run in live("chapter", name)], dtype=float)
            steps = np.arange(1, runs.shape[1] + 1)
            axis.plot(steps, runs.T, color=style["color"], linewidth=0.6, alpha=0.5)
            axis.plot(steps, runs.mean(0), label=verdict, linewidth=2, markevery=7, markersize=4, **style)
            words.append(
                f"{name}, {verdict}: first {runs[:, 0].min():.1f} to {runs[:, 0].max():.1f}, "
                f"last {runs[:, -1].min():.1f} to {runs[:, -1].max():.1f}, mean {runs[:, -1].mean():.1f}"
            )
        axis.set(xlabel="step", title=name, ylim=(0, 16.5))
    axes[0].set_ylabel("mean length [tokens]")
    axes[1].legend(frameon=False, fontsize=8, loc="upper left")
    return figure, f"Mean lengths of {seeds} runs each, thin, and their mean. {'; '.join(words)}."


def gaps_of_runs() -> tuple[Figure, str]:
    """How much longer wrong responses are than right ones in the end, a point for each run, a panel for each rate."""
    figure, axes = new_figure(2, columns=2, width=3.8, height=2.7)
    words = []
    for axis, (role, title) in zip(axes, (("chapter", "at 3e-4"), ("best", "each at its best rate")), strict=True):
        for place, (name, style) in enumerate(zip(DENOMINATORS, STYLES, strict=False)):
            found = gaps(role, name)
            axis.plot(place + np.linspace(-0.2, 0.2, len(found)), found, **style | {"linestyle": ""}, markersize=4)
            words.append(f"{title}, {name}: {found.min():.1f} to {found.max():.1f}")
        axis.axhline(SIGN, color="gray", linewidth=1, linestyle=":")
        axis.set(title=title, xticks=range(len(DENOMINATORS)), ylim=(-5, 14))
        axis.set_xticklabels(DENOMINATORS, fontsize=8)
    axes[0].set_ylabel("wrong − right [tokens]")
    return figure, f"Gap of the lengths, ten runs each, and a line at {SIGN:g}. {'; '.join(words)}."
