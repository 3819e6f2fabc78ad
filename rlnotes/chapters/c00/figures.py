"""Figures of chapter 00."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.notebook.figures import STYLES, new_figure

SHORT = (6, 7, 11, 15, 18)
"""chapters for somebody who trains a language model today, in this order"""
PARTS = {
    "Samples of another policy": {
        1: "use one rollout again, and see when it is used up",
        2: "say what old data leave out",
    },
    "Steps that are safe": {
        3: "tame the noise of a gradient",
        4: "prove a step safe",
        5: "take the largest step within a KL",
    },
    "What libraries run": {
        6: "read a clip, and a clip fraction",
        7: "read a loss of 0, and choose a group",
        8: "choose a denominator",
        9: "set a clip for whole responses",
        10: "choose a hard or a soft gate",
    },
    "The sampler is not the trainer": {
        11: "tell bias from variance, and cap weights",
        12: "say what old versions cost",
        13: "centre a clip",
        14: "mask, and ask for a certificate",
        15: "limit a divergence in place of a ratio",
    },
    "What holds": {
        16: "see which masks hold",
        17: "compare methods, and conclude",
        18: "train a real model, and choose for it",
    },
}
"""what each chapter lets you do"""


def promises(rows: Sequence[dict[str, Any]]) -> tuple[Figure, str]:
    """What the surrogate promised in each round, and what happened; and where that left the policy."""
    figure, (left, right) = new_figure(2)
    rounds = np.array([row["round"] for row in rows])
    said = []
    for style, name, shift in zip(STYLES, ("promised", "true"), (-0.2, 0.2), strict=False):
        values = np.array([row[name] for row in rows])
        left.bar(rounds + shift, values, 0.4, color=style["color"], label=name, hatch="//" if shift > 0 else None)
        low, high = int(values.argmin()), int(values.argmax())
        said.append(
            f"{name}: minimum {values[low]:+.2f} in round {rounds[low]}, maximum {values[high]:+.2f} in {rounds[high]}"
        )
    J = np.array([rows[0]["J"] - rows[0]["true"], *(row["J"] for row in rows)])
    right.plot([0, *rounds], J, color="0.2", marker="o", markersize=4)
    left.axhline(0, color="0.2", linewidth=0.8)
    left.legend(frameon=False)
    left.set(xlabel="round", title="change of J", xticks=rounds)
    right.set(xlabel="round", title="J after the round; 0 is the start", ylim=(0, 1.02), xticks=[0, *rounds])
    said.append(f"J: minimum {J.min():.2f} after round {J.argmin()}, maximum {J.max():.2f} after {J.argmax()}")
    return figure, f"{'; '.join(said)}."


def course_map() -> tuple[Figure, str]:
    """The chapters in their order, what each lets you do, and the short way through them."""
    lines = sum(len(chapters) for chapters in PARTS.values()) + len(PARTS)
    figure, (axis,) = new_figure(1, width=5.2, height=0.26 * lines)
    axis.axis("off")
    axis.set(xlim=(0, 1), ylim=(lines, -0.5))
    at, y = {}, 0.0
    for part, chapters in PARTS.items():
        axis.text(0.12, y, part, fontweight="bold", fontsize=9, va="center")
        for number, verb in chapters.items():
            y += 1
            at[number] = y
            axis.text(0.12, y, f"{number:02d}  {verb}", fontsize=9, va="center")
        y += 1
    axis.plot([0.085] * 2, [at[1], at[18]], color="0.6", linewidth=1.5, zorder=1)
    axis.plot([0.085] * len(at), list(at.values()), "o", color="white", markeredgecolor="0.4", markersize=7, zorder=2)
    short = [at[number] for number in SHORT]
    axis.plot([0.04] * len(short), short, "s-", color=STYLES[1]["color"], linewidth=2.5, markersize=7)
    axis.text(0.085, at[1] - 0.9, "all", fontsize=8, ha="center", va="center")
    axis.text(0.04, at[6] - 0.9, "short", fontsize=8, ha="center", va="center", color=STYLES[1]["color"])
    listed = ", ".join(f"{number:02d}" for number in SHORT)
    return figure, f"{len(at)} chapters in {len(PARTS)} parts, one below the other; the short way: {listed}."
