"""Figures of chapter 14."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c14.readings import ARMS, PROMISES, TASKS, column, live, scores
from rlnotes.notebook.figures import STYLES, new_figure

SMALL, WIDE = 1e-3, 0.6  # axes of changes are straight up to the first, and end at the second
LOWEST = -150.0


def promised_and_true() -> tuple[Figure, str]:
    """Over the true change of each stored round what it was promised, by three promises."""
    figure, (axis,) = new_figure(1, width=5.6, height=3.8)
    rows, words = live(), []
    change = column(rows, "change")
    titles = {"weighted": "mean of R log w", "flat": "L − D_seq", "published": "published"}
    for style, (title, name) in zip((STYLES[0], STYLES[1], STYLES[3]), reversed(PROMISES.items()), strict=True):
        promised = column(rows, name)
        axis.plot(change, promised, label=titles[title], markersize=3, alpha=0.5, **style | {"linestyle": ""})
        words.append(f"{titles[title]} from {promised.min():.3g} to {promised.max():.2g}")
    line = np.concatenate([-np.geomspace(WIDE, 1e-5, 100), np.geomspace(1e-5, WIDE, 100)])
    axis.plot(line, line, color="0.4", linewidth=1)
    axis.text(WIDE * 0.9, WIDE * 1.1, "promised = true", fontsize=8, ha="right", va="bottom")
    axis.axhline(0, color="0.4", linewidth=1, linestyle=":")
    axis.set_xscale("symlog", linthresh=SMALL)
    axis.set_yscale("symlog", linthresh=SMALL)
    axis.set(xlabel="true change of J", ylabel="promised, log scale", xlim=(-WIDE, WIDE), ylim=(LOWEST, 3))
    axis.legend(frameon=False, fontsize=8, loc="lower left")
    return figure, (
        f"{len(rows)} rounds with changes of {change.min():.2f} to {change.max():.2f}, all promises below the "
        f"line where promised is true. {'; '.join(words)}. Dotted: 0."
    )


def runs_of_masks() -> tuple[Figure, str]:
    """The mean accuracy of each run of the contest's arms, a panel for each task."""
    figure, axes = new_figure(len(TASKS), width=3.4, height=3.2)
    words, labels = [], {"pg_is clip": "clip"}
    for axis, task in zip(axes, TASKS, strict=True):
        for place, (style, recipe) in enumerate(zip(STYLES, ARMS, strict=False)):
            accuracy = np.sort(scores(task, recipe))
            across = place + np.linspace(-0.2, 0.2, len(accuracy))
            axis.plot(across, accuracy, markersize=4, alpha=0.8, **style | {"linestyle": ""})
            words.append(
                f"{task}, {labels.get(recipe, recipe)} {accuracy[0]:.2f} to {accuracy[-1]:.2f}, "
                f"median {np.median(accuracy):.2f}"
            )
        axis.set_xticks(range(len(ARMS)), [labels.get(one, one) for one in ARMS], rotation=35, ha="right", fontsize=8)
        axis.set(title=task, ylim=(0, 1))
    axes[0].set_ylabel("mean accuracy of a run")
    return figure, f"Twelve runs each, mean accuracy: {'; '.join(words)}."
