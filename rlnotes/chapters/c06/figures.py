"""Figures of chapter 06."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c06.experiment import ARMS, RATES, best_rates, score
from rlnotes.chapters.c06.readings import Rows, by_rate, chosen, rates_of
from rlnotes.notebook.figures import STYLES, new_figure

EPSILON = 0.2
RING: dict[str, Any] = dict(color="0.3", marker="o", markersize=10, markerfacecolor="none", linestyle="none")
OPEN, BEYOND, CLOSED = STYLES[0]["color"], STYLES[1]["color"], "0.6"


def push_map(ratio: np.ndarray, advantages: np.ndarray, height: float = 3.7) -> tuple[Figure, str]:
    """Every token by its ratio and its push: above 0 it makes itself likelier. (n,) and (n,)."""
    closed = ((advantages > 0) & (ratio > 1 + EPSILON)) | ((advantages < 0) & (ratio < 1 - EPSILON))
    outside = np.abs(ratio - 1) > EPSILON
    push, x = np.where(closed, 0.0, ratio * advantages), np.log(ratio.clip(0.05))
    figure, (axis,) = new_figure(1, width=7.4, height=height)
    axis.axvspan(np.log(1 - EPSILON), np.log(1 + EPSILON), color="0.93", zorder=0)
    axis.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    kinds = (
        (~closed & ~outside, OPEN, "o", "in the band: pushed"),
        (~closed & outside, BEYOND, "s", "outside, wrong side: pushed, no limit"),
        (closed, CLOSED, "x", "outside, where it should go: no push"),
    )
    for where, color, marker, label in kinds:
        axis.plot(x[where], push[where], marker, color=color, markersize=4, label=f"{label} ({where.sum()})")
    top = int(ratio.argmax())
    said, place = f"largest ratio: {ratio[top]:.2f}", (x[top], push[top])
    axis.annotate(said, place, (6, 8), textcoords="offset points", fontsize=9, ha="right")
    ticks = [t for t in (0.05, 0.1, 0.25, 0.5, 0.8, 1, 1.2, 2, 4, 8) if t <= 1.3 * ratio.max()]
    axis.set_xticks(np.log(ticks), [f"{tick:g}" for tick in ticks])
    axis.set(xlabel="ratio (logarithmic axis; 0.05 and less at the left edge)", ylabel="push")
    axis.set_title(f"{len(ratio)} tokens: how far each has gone, and how hard it is pushed", fontsize=10)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    words = (
        f"{len(ratio)} tokens by ratio, 0.05 to {ratio.max():.2f}, and push, {push.min():.1f} to {push.max():.1f}. "
        f"{kinds[0][0].sum()} are in the band from 0.8 to 1.2 and pushed. {kinds[2][0].sum()} are outside where their "
        f"advantage wanted them, without a push. {kinds[1][0].sum()} are outside on the wrong side and still pushed."
    )
    return figure, words


def rates(rows: Rows, tasks: Sequence[str]) -> tuple[Figure, str]:
    """The experiment: mean accuracy of each arm over the learning rate, tuning runs as lines and the reported ones at
    the best rate as rings, and the untrained start as a line.
    """
    figure, axes = new_figure(len(tasks), width=4.8, height=3.4)
    best, words = best_rates([row for row in rows if row["role"] == "tuning"]), []
    for axis, task in zip(axes, tasks, strict=True):
        for arm, style in zip(ARMS, STYLES, strict=False):
            scores = by_rate(rows, task, arm)
            mean, error = scores.mean(1), scores.std(1, ddof=1) / scores.shape[1] ** 0.5
            axis.errorbar(rates_of(task, arm), mean, error, label=arm, markersize=4, linewidth=1.3, capsize=2, **style)
            reported = np.mean([score(row) for row in chosen(rows, "reported", task, arm)])
            axis.plot(best[task, arm], reported, **RING | dict(color=style["color"]))
            words.append(
                f"{task}, {arm}: highest {mean.max():.2f} at {best[task, arm]:g}, lowest {mean.min():.2f}; "
                f"reported {reported:.2f}"
            )
        start = np.mean([row["sampled"][0] for row in chosen(rows, "tuning", task, "clip")])
        axis.axhline(start, color="0.4", linewidth=1, linestyle=(0, (1, 1)))
        axis.annotate("untrained", (RATES[0], start), (0, 3), textcoords="offset points", fontsize=8, color="0.3")
        axis.set(xscale="log", xlabel="learning rate", ylabel="mean held-out accuracy", ylim=(-0.02, 1.02), title=task)
        axis.set_xlim(8e-5, 3.2e-2)
    axes[0].plot([], [], label="reported: 15 other runs", **RING)
    axes[0].legend(loc="upper right", frameon=False, fontsize=8, title="tuning: 4 runs a rate", title_fontsize=8)
    return figure, "; ".join(words) + "."
