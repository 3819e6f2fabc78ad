"""Figures of chapter 01."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c01.readings import RULES, TASKS, every_run, gains, short_of_best
from rlnotes.notebook.figures import STYLES, new_figure


def rules_by_run() -> tuple[Figure, str]:
    """For each rule the true gain of each run, and above it the gain of the best look."""
    figure, (axis,) = new_figure(1, width=7.4, height=3.6)
    tasks, words = np.array([run["task"] for run in every_run()]), []
    shown = {**{name: gains(rule) for name, rule in RULES.items()}, "best look, nobody knows it": short_of_best()}
    for place, (name, gain) in enumerate(shown.items()):
        for style, task, shift in zip(STYLES, TASKS, (-0.14, 0.14), strict=False):
            own = np.sort(gain[tasks == task])
            across = place + shift + np.linspace(-0.1, 0.1, len(own))
            dots = {"linestyle": "", "markersize": 3.5, "alpha": 0.7}
            axis.plot(across, own, label=task if place == 0 else None, **style | dots)
        words.append(f"{name}: {gain.min():+.2f} to {gain.max():+.2f}, mean {gain.mean():+.2f}")
        axis.plot([place - 0.3, place + 0.3], [gain.mean()] * 2, color="0.2", linewidth=2)
    axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
    axis.set_xticks(range(len(shown)), [name.replace(", ", ",\n").replace(" below", "\nbelow") for name in shown])
    axis.tick_params(axis="x", labelsize=7)
    axis.set(ylabel="true gain of J", title="each mark is a run on one rollout; line: mean of all")
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    return figure, f"True gain of 48 runs, by the rule that ends them. {'; '.join(words)}."
