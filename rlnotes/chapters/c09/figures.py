"""Figures of chapter 09."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c09.readings import FIRST, KINDS, LENGTHS, less, scatter_points
from rlnotes.notebook.figures import STYLES, new_figure

OPEN = 1.6  # where the figure has a clip that is none


def ranges() -> tuple[Figure, str]:
    """Mean accuracy of each range less that of GRPO at 0.2, with its interval: a panel for each task."""
    figure, axes = new_figure(len(LENGTHS), columns=3, width=3.1, height=2.9)
    words = []
    for axis, (task, length) in zip(axes, LENGTHS.items(), strict=True):
        for style, (kind, widths) in zip(STYLES, KINDS.items(), strict=False):
            named = {width: recipe for width, recipe in widths.items() if recipe != FIRST}
            x = np.array([OPEN if width == "none" else float(width) for width in named])
            x = x * (0.87 if kind == "tokens" else 1.15)
            found = [less("09_ranges", task, recipe, FIRST) for recipe in named.values()]
            value, low, high = np.array([[*one.difference] for one in found]).T
            axis.errorbar(x, value, [value - low, high - value], color=style["color"], linestyle="", capsize=2)
            told = np.array([one.word in ("better", "worse") for one in found])
            for which, fill in ((told, style["color"]), (~told, "white")):
                axis.plot(x[which], value[which], style["marker"], color=style["color"], markerfacecolor=fill)
            axis.plot([], [], style["marker"], color=style["color"], label=f"clip of {kind}")
            said = ", ".join(f"{width} {one.difference.value:+.3f} {one.word}" for width, one in zip(named, found))  # noqa: B905
            words.append(f"{task}, {kind}: {said}")
        axis.axhline(0, color="gray", linewidth=1, linestyle=":")
        axis.plot(0.2, 0, "x", color="black", label="tokens 0.2")
        axis.set(title=f"{task}, {length} tokens", xscale="log", xlabel="range ε", ylim=(-0.42, 0.34), xlim=(2e-4, 3))
        ticks = sorted({width for widths in KINDS.values() for width in widths} - {"none"}, key=float)
        axis.set_xticks([*map(float, ticks), OPEN], [*ticks, "none"], fontsize=7, rotation=90)
        axis.minorticks_off()
    axes[0].set_ylabel("accuracy less tokens 0.2")
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure, f"Difference to a clip of tokens at 0.2, filled where better or worse. {'; '.join(words)}."


def glued(rows: Sequence[dict[str, Any]], two_scatters: float) -> tuple[Figure, str]:
    """Shares of closed gates over the length of glued responses, as measured and by the Gaussian formula, and a line at
    the length where the drift of the latter is ``two_scatters``.
    """
    figure, (axis,) = new_figure(1, width=5.4, height=2.9)
    words, T = [], [row["tokens"] for row in rows]
    for style, sign in zip(STYLES, ("wrong", "right"), strict=False):
        measured, formula = ([row[f"{sign}{what}"] for row in rows] for what in ("", ", by the formula"))
        axis.plot(T, measured, label=f"{sign}, measured", **style)
        axis.plot(T, formula, color=style["color"], linewidth=1, alpha=0.6, label=f"{sign}, normal law")
        words.append(f"{sign}: " + ", ".join(f"{y:.2f} at {x}" for x, y in zip(T, measured, strict=True)))
    axis.axvline(two_scatters, color="gray", linewidth=1, linestyle=":", label=f"16/σ² = {two_scatters:.0f}")
    axis.set(xscale="log", xlabel="tokens of a response", ylabel="closed gates", ylim=(-0.02, 1.02))
    axis.legend(frameon=False, fontsize=8)
    return figure, f"Share of closed gates before the first update, over the tokens of a response. {'; '.join(words)}."


def scatter_law() -> tuple[Figure, str]:
    """The scatter of the mean log-ratio against sigma / sqrt(T), a point for each length bin of each stored round."""
    figure, (axis,) = new_figure(1, width=4.2, height=3.4)
    points = scatter_points()
    x, y = (np.array([point[name] for point in points]) for name in ("sigma / sqrt(T)", "spread"))
    axis.loglog(x, y, ".", color=STYLES[0]["color"], markersize=4, alpha=0.6)
    ends = np.array([x.min(), x.max()])
    axis.loglog(ends, ends, color="gray", linewidth=1)
    axis.set(xlabel="σ / √T", ylabel="scatter of the mean log-ratio")
    off = y / x
    return figure, (
        f"{len(points)} bins of responses, both axes logarithmic, and the line of equality. The scatter is "
        f"{off.min():.2f} to {off.max():.2f} times sigma over the root of T, in the median {np.median(off):.2f} times."
    )
