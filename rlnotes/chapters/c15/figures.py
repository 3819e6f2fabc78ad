"""Figures of chapter 15."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c15.explorers import HIGH, LIMIT, LOW
from rlnotes.chapters.c15.readings import CLIP, TASKS, by_rate, live
from rlnotes.notebook.figures import STYLES, new_figure
from rlnotes.studies.contest import UNCLIPPED
from rlnotes.studies.tables import Table

SHOWN = (CLIP, "wide_clip", "relax_both", "dppo_tv", UNCLIPPED)  # by rate


def one_rollout() -> tuple[Figure, str]:
    """The right letter's probability after each update on the first rollout, and the edge of each mask."""
    figure, axes = new_figure(2, width=4.2, height=3.0)
    words = []
    masks = (("clip", "clip of the ratio, 1.28", 0.02 * (1 + HIGH)), ("dppo", "DPPO, 0.15", 0.02 + LIMIT))
    for axis, style, (arm, title, edge) in zip(axes, (STYLES[0], STYLES[1]), masks, strict=True):
        runs = live(arm, "by update")
        axis.plot(runs.T, color=style["color"], linewidth=0.8, alpha=0.5)
        axis.plot(np.median(runs, 0), color=style["color"], linewidth=2.5, label="median of six runs")
        axis.axhline(edge, color="black", linestyle="--", linewidth=1, label=f"edge of the mask, {edge:.3f}")
        axis.set(title=title, xlabel="updates on the first rollout", ylim=(0, 1))
        axis.legend(frameon=False, fontsize=8, loc="upper left")
        middle, ends = np.median(runs, 0), runs[:, -1]
        words.append(
            f"{title}: median past the edge {edge:.3f} at update {(middle > edge).argmax()}, highest "
            f"{middle.max():.2f}, at the end {middle[-1]:.2f}, runs {ends.min():.2f} to {ends.max():.2f}"
        )
    axes[0].set_ylabel("probability of the right letter")
    return figure, f"Right letter's probability from 0.02. {'; '.join(words)}."


def masks(drawn: Mapping[str, Callable[..., Any]]) -> tuple[Figure, str]:
    """Where a token gets no gradient, over mu and pi, for both signs of the advantage: ``drawn`` gives what is kept of
    tensors mu, pi, A.
    """
    import torch

    edge = torch.linspace(0.002, 0.998, 250, dtype=torch.float64)
    mu, pi = torch.meshgrid(edge, edge, indexing="xy")
    figure, axes = new_figure(2 * len(drawn), columns=len(drawn), width=3.1, height=2.9)
    for i, axis in enumerate(axes):
        name, sign = list(drawn)[i % len(drawn)], 1.0 if i < len(drawn) else -1.0
        kept = drawn[name](mu, pi, torch.full_like(mu, sign)).numpy()
        axis.imshow(~kept, origin="lower", extent=(0, 1, 0, 1), cmap="Greys", vmax=1.6)
        axis.set(title=f"{name}, A {'>' if sign > 0 else '<'} 0", xlabel="before, μ", ylabel="now, π")
    return figure, (
        "Squares, the probability before to the right and now upwards, dark where a token gets no gradient. The clip "
        f"leaves a wedge from the origin: dark above π = {1 + HIGH} μ for A above 0, below π = {1 - LOW} μ for A below "
        f"0. DPPO leaves a band of equal width: dark above π = μ + {LIMIT}, or below π = μ − {LIMIT}."
        + (" TRM is dark on both sides of a wedge for both signs." if len(drawn) > 2 else "")
    )


def rates() -> tuple[Figure, str]:
    """Mean accuracy of the tuning runs over the learning rate, and each of the three runs."""
    figure, axes = new_figure(2, width=4.4, height=3.1)
    words = []
    for axis, task in zip(axes, TASKS, strict=True):
        axis.set_xscale("log", base=2)
        for place, (style, recipe) in enumerate(zip(STYLES, SHOWN, strict=False)):
            own = by_rate(task, recipe)
            x = np.array(list(own)) * (1 + 0.04 * (place - 2))
            axis.plot(x, [runs.mean() for runs in own.values()], label=recipe, markersize=5, linewidth=1.2, **style)
            for at, runs in zip(x, own.values(), strict=True):
                axis.plot([at] * len(runs), runs, "_", color=style["color"], alpha=0.8)
            words.append(f"{task}, {recipe}: " + ", ".join(f"{y.mean():.2f} at {rate:g}" for rate, y in own.items()))
        axis.set_xticks([1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3], ["1e-4", "2e-4", "4e-4", "8e-4", "1.6e-3"], fontsize=8)
        axis.set(xlabel="learning rate", title=task, ylim=(-0.02, 1.02))
    axes[0].set_ylabel("accuracy, mean of a run")
    axes[1].legend(frameon=False, fontsize=8, loc="lower left")
    return figure, f"Mean accuracy of three tuning runs by rate. {'; '.join(words)}."


def five_seeds(table: Table, shown: Mapping[str, str], what: str) -> tuple[Figure, str]:
    """Medians over the seeds of an older table, a panel for each rate (its name: a title), over tokens sampled."""
    figure, axes = new_figure(len(shown), width=4.4, height=3.0)
    words = []
    for axis, (rate, title) in zip(axes, shown.items(), strict=True):
        for style, name in zip(STYLES, (CLIP, "wide_clip", "dppo_tv", "unmasked"), strict=False):
            x, y = table.band(f"{name} {rate}", "accuracy")[:2]
            axis.plot(x / 1000, y, label=name, markersize=3, linewidth=1, **style)
            words.append(f"{title}, {name}: from {y[0]:.2f}, highest {y.max():.2f}, end {y[-1]:.2f}")
        axis.set(title=title, xlabel="tokens sampled (1000)", ylabel=what, ylim=(0, 1.02))
    axes[0].legend(frameon=False, fontsize=8)
    return figure, f"Medians of five seeds. {'; '.join(words)}."
