"""Figures of chapter 02."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c02.halves import TASKS
from rlnotes.chapters.c02.readings import column, looks
from rlnotes.notebook.figures import STYLES, new_figure

CURVES = {"own": "promised by the half that chose", "judge": "promised by the other half", "change": "true change"}
LOWEST = -1.0  # a run whose promise falls below has its lowest number written at the edge


def halves() -> tuple[Figure, str]:
    """What either half promises over the updates on a rollout, and the truth: medians over seeds, each seed thin."""
    figure, axes = new_figure(len(TASKS), columns=3, width=3.6, height=3.4)
    words = []
    for axis, (task, (_, rate, _)) in zip(axes, TASKS.items(), strict=True):
        at = (0, *looks(task))
        for style, (name, label) in zip((STYLES[1], STYLES[2], STYLES[0]), CURVES.items(), strict=True):
            y = np.array([column(task, n, name) for n in at])
            axis.plot(at, y, color=style["color"], linewidth=0.6, alpha=0.35)
            axis.plot(at, np.median(y, 1), label=label, markersize=4, **style)
            words.append(
                f"{task}, {label}: 0 to {np.median(y[-1]):.3f}, highest {y.max():.3f}, seeds at the end "
                f"{y[-1].min():.3f} to {y[-1].max():.3f}"
            )
            if y.min() < LOWEST:
                axis.set_ylim(LOWEST, 1.1)
                axis.text(at[-1], 0.97 * LOWEST, f"one seed to {y.min():.0f}", ha="right", va="bottom", fontsize=8)
        axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
        axis.set(title=f"{task}, rate {rate:g}", xlabel="updates on one rollout")
    axes[0].set_ylabel("change of J; thick: median of ten seeds")
    axes[0].legend(frameon=False, fontsize=8)
    return figure, f"Medians of ten seeds at the last update. {'; '.join(words)}."
