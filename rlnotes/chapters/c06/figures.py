"""Figures of chapter 06."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c06.experiment import ARMS, RATES, REPORTED, best_rates, score
from rlnotes.chapters.c06.readings import FAR, Rows, by_rate, chosen, from_the_best, rates_of
from rlnotes.notebook.figures import STYLES, new_figure

EPSILON = 0.2
RING: dict[str, Any] = dict(color="0.3", marker="o", markersize=11, markerfacecolor="none", linestyle="none")
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
        (~closed & outside, BEYOND, "s", "outside, wrong side: still pushed"),
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
        f"{len(ratio)} tokens by ratio, {ratio.min():.2f} to {ratio.max():.2f}, and push, "
        f"{push.min():.1f} to {push.max():.1f}. "
        f"{kinds[0][0].sum()} are in the band from 0.8 to 1.2 and pushed. {kinds[2][0].sum()} are outside where their "
        f"advantage wanted them, without a push. {kinds[1][0].sum()} are outside on the wrong side and still pushed."
    )
    return figure, words


def experiment(rows: Rows, tasks: Sequence[str]) -> tuple[Figure, str]:
    """The experiment, a row for each task. Left: mean accuracy of each arm over the learning rate, tuning runs as
    lines, the reported ones as large empty marks, and the untrained start as a line. Right: where each of the reported
    runs ends.
    """
    figure, axes = new_figure(2 * len(tasks), width=4.6, height=2.8)
    best, words = best_rates([row for row in rows if row["role"] == "tuning"]), []
    styles = dict(zip(ARMS, STYLES, strict=False))
    for task, left, right in zip(tasks, axes[::2], axes[1::2], strict=True):
        for place, arm in enumerate(ARMS):
            scores, runs = by_rate(rows, task, arm), chosen(rows, "reported", task, arm)
            mean, error = scores.mean(1), scores.std(1, ddof=1) / scores.shape[1] ** 0.5
            lines = dict(markersize=4, linewidth=1.3, capsize=2) | styles[arm]
            left.errorbar(rates_of(task, arm), mean, error, label=arm, **lines)
            reported = np.mean([score(row) for row in runs])
            left.plot(best[task, arm], reported, **RING | {key: styles[arm][key] for key in ("color", "marker")})
            ends = np.sort([row["sampled"][-1] for row in runs])
            marker = styles[arm] | dict(linestyle="none", markersize=4, alpha=0.8)
            right.plot(place + np.linspace(-0.3, 0.3, len(ends)), ends, **marker)
            words.append(
                f"{task}, {arm}: highest {mean.max():.2f} at {best[task, arm]:g}, lowest {mean.min():.2f}; "
                f"reported {reported:.2f}, ends from {ends[0]:.2f} to {ends[-1]:.2f}"
            )
        start = np.mean([row["sampled"][0] for row in chosen(rows, "tuning", task, "clip")])
        left.axhline(start, color="0.4", linewidth=1, linestyle=(0, (1, 1)))
        left.annotate("untrained", (RATES[0], start), (0, 3), textcoords="offset points", fontsize=8, color="0.3")
        left.set(xscale="log", xlabel="learning rate", ylabel="mean accuracy (speed)", title=f"{task}: by rate")
        left.set_xlim(8e-5, 3.2e-2)
        right.set_xticks(range(len(ARMS)), list(ARMS), fontsize=8)
        right.set(ylabel="accuracy at the end", title=f"{task}: the end of each of {len(REPORTED)} runs")
        for axis in (left, right):
            axis.set_ylim(-0.04, 1.04)
    axes[0].plot([], [], label="reported runs (large, empty)", **RING)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure, "; ".join(words) + "."


def first_rounds(rows: Rows, tasks: Sequence[str]) -> tuple[Figure, str]:
    """Where each run of ``clip`` ends, over what its first round logged: clip fraction left, k3 of KL(old, new) right.
    Filled marks are runs at the best rate, empty ones those at 2 to 16 times it; ``FAR`` is dotted.
    """
    figure, axes = new_figure(2, width=4.6, height=3.6)
    columns, words = {"clipped": "clip fraction of round 1", "kl": "k3 of KL(old, new) after round 1, nats"}, []
    for below, (task, style) in enumerate(zip(tasks, STYLES, strict=False)):
        runs = from_the_best(rows, task)
        best, ends = np.array([row["rate"] == runs[0]["rate"] for row in runs]), [row["sampled"][-1] for row in runs]
        for axis, (key, name) in zip(axes, columns.items(), strict=True):
            seen, at = np.array([row[key][0] for row in runs]), np.array(ends)
            marks = dict(color=style["color"], marker=style["marker"], linestyle="none")
            marks |= dict(markersize=6 - below, zorder=4 - below)  # of two at one place both are seen
            axis.plot(seen[best], at[best], **marks, label=f"{task}, best rate")
            axis.plot(seen[~best], at[~best], **marks, markerfacecolor="none", label=f"{task}, 2 to 16 times it")
            for kind, where in (("at the best rate", best), ("above it", ~best)):
                words.append(
                    f"{task}, {name}, {kind}: {seen[where].min():.3g} to {seen[where].max():.3g}, "
                    f"ends {at[where].min():.2f} to {at[where].max():.2f}"
                )
    for axis, name in zip(axes, columns.values(), strict=True):
        axis.set(xscale="log", xlabel=name, ylabel="accuracy at the end", ylim=(-0.04, 1.04))
    for axis, ticks in zip(axes, ((0.02, 0.05, 0.1, 0.2, 0.4), (0.01, 0.03, 0.1, 0.3, 1, 3)), strict=True):
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axes[1].axvline(FAR, color="0.4", linewidth=1, linestyle=":")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure, "; ".join(words) + f"; dotted: a limit of {FAR:g} nat."
