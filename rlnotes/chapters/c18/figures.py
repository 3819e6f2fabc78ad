"""Figures of chapter 18."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.bridge.real.questions import Question
from rlnotes.chapters.c18 import readings
from rlnotes.notebook.figures import STYLES, new_figure

LIVE = {"reward": "reward", "accuracy": "held out, sampled", "greedy": "held out, greedy"}


def arms() -> tuple[Figure, str]:
    """Held-out accuracy over the rounds, a panel for each sampler, a thin line for each run and a thick one for their
    mean.
    """
    kinds = readings.kinds()
    figure, axes = new_figure(len(kinds), columns=2, width=3.2, height=2.2)
    said = []
    for axis, kind in zip(axes, kinds, strict=True):
        words = []
        for style, arm in zip(STYLES, readings.ARMS, strict=False):
            if (name := readings.run(arm, kind)) not in readings.table().rows:
                continue
            runs = readings.table().rows[name].values()
            curves = np.array([own["accuracy"][~np.isnan(own["accuracy"])] for own in runs])
            steps = next(own["step"][~np.isnan(own["accuracy"])] for own in runs)
            axis.plot(steps, curves.T, color=style["color"], linewidth=0.6, alpha=0.3)
            axis.plot(steps, curves.mean(0), label=arm, linewidth=2, markersize=4, **style)
            words.append(f"{arm} {curves[:, -1].mean():.2f}")
        axis.set(xlabel="rounds of 8 updates", title=f"sampler: {readings.KINDS[kind]}", ylim=(0, 1))
        said.append(f"{readings.KINDS[kind]}: {', '.join(words)}")
    axes[0].set_ylabel("held-out, sampled")
    axes[1].legend(frameon=False, fontsize=8, loc="upper left", ncols=3)  # the panel where the arms lie apart
    return figure, f"Share of held-out sums answered right; ends, mean of the seeds. {'; '.join(said)}."


def live(rows: list[dict[str, float]]) -> tuple[Figure, str]:
    """Rewards of the stand-in over its steps, and its held-out accuracy."""
    figure, (axis,) = new_figure(1, width=5.2, height=2.8)
    words = []
    for style, (name, label) in zip(
        STYLES, (("reward", "reward"), ("accuracy", "held out, sampled"), ("greedy", "held out, greedy")), strict=False
    ):
        steps, values = zip(*[(row["step"], row[name]) for row in rows if name in row], strict=True)
        axis.plot(steps, values, label=label, markersize=4, **style)
        low, high = np.argmin(values), np.argmax(values)
        words.append(
            f"{label}: minimum {values[low]:.2f} at {steps[low]}, maximum {values[high]:.2f} at {steps[high]}, "
            f"end {values[-1]:.2f}"
        )
    axis.set(xlabel="step", ylabel="share right", ylim=(0, 1.02), xticks=range(0, len(rows) + 1, 5))
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    return figure, f"The stand-in learns to answer. {'; '.join(words)}."


def said(before: list[tuple[Question, str, bool]], after: list[tuple[Question, str, bool]]) -> list[dict[str, str]]:
    """A row for each question: what was said to it before and after."""
    return [
        {"question": asked.text.partition("?")[0] + "?", "before": first, "after": last}
        for (asked, first, _), (_, last, _) in zip(before, after, strict=True)
    ]
