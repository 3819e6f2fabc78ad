"""Figures of chapter 02."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c02.halves import TASKS
from rlnotes.chapters.c02.readings import column, looks
from rlnotes.notebook.figures import STYLES, new_figure

CURVES = {"own": "promised by the half that chose", "judge": "promised by the other half", "change": "true change"}


def halves() -> tuple[Figure, str]:
    """What either half promises over the updates on a rollout, and the truth: means over seeds, each seed thin."""
    figure, axes = new_figure(len(TASKS), columns=3, width=3.6, height=3.2)
    words = []
    for axis, (task, (_, rate, _)) in zip(axes, TASKS.items(), strict=True):
        at = (0, *looks(task))
        for style, (name, label) in zip((STYLES[1], STYLES[2], STYLES[0]), CURVES.items(), strict=True):
            y = np.array([column(task, n, name) for n in at])
            axis.plot(at, y, color=style["color"], linewidth=0.5, alpha=0.3)
            axis.plot(at, y.mean(1), label=label, markersize=4, **style)
            words.append(f"{task}, {label}: 0 to {y.mean(1)[-1]:.3f}, seeds {y[-1].min():.3f} to {y[-1].max():.3f}")
        axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
        axis.set(title=f"{task}, rate {rate:g}", xlabel="updates on one rollout")
    axes[0].set_ylabel("change of J")
    axes[0].legend(frameon=False, fontsize=8)
    return figure, f"Means of ten seeds at the last update. {'; '.join(words)}."
