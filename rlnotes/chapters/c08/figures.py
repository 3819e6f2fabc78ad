"""Figures of chapter 08."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c08.readings import DENOMINATORS, live
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
