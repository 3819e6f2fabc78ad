"""Figures of chapter 11."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c11.readings import ARMS, BY_TOKEN, ends, measured, scores, starts
from rlnotes.notebook.figures import STYLES, new_figure

WEIGHTS = ("uncorrected", "token", "response", "response, C = 2")
KINDS: dict[str, dict[str, Any]] = dict(zip((*WEIGHTS, "token, C = 2"), STYLES, strict=False))

OF_TASKS = {"misled lag 64": "64 updates old", "misled int4": "behind 4 bits"}


def bias_and_noise(ages: Sequence[int] = (4,)) -> tuple[Figure, str]:
    """The noise number and the cosine of each weight, small for each measurement, large for their medians; a panel for
    each age.
    """
    figure, axes = new_figure(len(ages), width=6.2 if len(ages) == 1 else 4.8, height=3.4)
    words = []
    for axis, age in zip(axes, ages, strict=True):
        words.append(f"{len({row['seed'] for row in measured(age)})} states, data {age} rounds older")
        for name in WEIGHTS:
            own = [row for row in measured(age) if row["weight"] == name]
            noise, cosine = (np.array([row[key] for row in own]) for key in ("noise", "cosine"))
            style = {**KINDS[name], "linestyle": ""}
            axis.plot(noise, cosine, **style, markersize=5, alpha=0.45)
            middle = np.median(noise), np.median(cosine)
            axis.plot(*middle, **style, markersize=12, markeredgecolor="black", zorder=3, label=name)
            words.append(
                f"{name}: noise number {middle[0]:.0f} ({noise.min():.0f} to {noise.max():.0f}), "
                f"cosine {middle[1]:.2f} ({cosine.min():.2f} to {cosine.max():.2f})"
            )
        for level, line in ((0, "-"), (1, ":")):
            axis.axhline(level, color="0.5", linewidth=1, linestyle=line)
        axis.set_xscale("log")
        axis.set_xticks((100, 300, 1000, 3000, 10_000), ("100", "300", "1000", "3000", "10 000"))
        axis.minorticks_off()
        axis.set(xlabel="n*: noise relative to its own mean, in responses →", ylim=(-0.7, 3.7))
        if len(ages) > 1:
            axis.set_title("data of the last round" if age == 0 else f"data {age} rounds older")
    axes[0].set_ylabel("cosine with the true gradient, estimated")
    axes[-1].legend(frameon=False, fontsize=8, loc="upper left", title="large: the median", title_fontsize=8)
    if len(ages) == 1:
        axes[0].annotate("more bias ↓", (0.58, 0.05), xycoords="axes fraction", color="0.3")
    return figure, f"Medians (lowest to highest). {'; '.join(words)}."


def learning(rows: Mapping[str, Sequence[float]], start: float) -> tuple[Figure, str]:
    """J over the rounds, a line for each weight."""
    figure, (axis,) = new_figure(1, width=6.2, height=2.9)
    words = []
    for name, values in rows.items():
        curve = np.array([start, *values])
        axis.plot(curve, label=name, markevery=4, markersize=4, **KINDS[name])
        words.append(
            f"{name}: minimum {curve.min():.2f} at {curve.argmin()}, maximum {curve.max():.2f} at {curve.argmax()}, "
            f"end {curve[-1]:.2f}"
        )
    axis.set(xlabel="round", ylabel="J, held-out prompts", ylim=(0, 1.02))
    axis.legend(frameon=False, fontsize=8, loc=(0.7, 0.62))
    return figure, f"J over the rounds. {'; '.join(words)}."


def contest() -> tuple[Figure, str]:
    """Accuracy of each weight without the clip and with it, each at its own rate, over the run and at its end; runs
    thin, means thick. Weights of responses stand without the clip alone: there it drops no token.
    """
    panels = [(task, name, of) for task in OF_TASKS for name, of in (("over the run", scores), ("at the end", ends))]
    figure, axes = new_figure(len(panels), columns=2, width=4.3, height=2.6)
    words = []
    for axis, (task, name, of) in zip(axes, panels, strict=True):
        for place, (arm, methods) in enumerate(ARMS.items()):
            kinds = methods if arm in BY_TOKEN else methods[:1]
            for style, method, shift in zip(STYLES, kinds, (-0.14, 0.14), strict=False):
                own = of(task, method)
                axis.plot(own, np.full(len(own), place + shift), "|", color=style["color"], alpha=0.5)
                label = ("no clip", "clip")[shift > 0] if place == 0 else None
                axis.plot(own.mean(), place + shift, style["marker"], color=style["color"], label=label)
            means = ", with the clip ".join(f"{of(task, method).mean():.2f}" for method in kinds)
            words.append(f"{OF_TASKS[task]}, {name}, {arm}: {means}")
        axis.set(title=f"{OF_TASKS[task]}: {name}", xlim=(-0.02, 1.02))
        axis.set_xlabel(f"accuracy (start: {starts()[task]:.2f})")
        axis.set_yticks(range(len(ARMS)), list(ARMS) if axis in axes[::2] else [""] * len(ARMS))
        axis.invert_yaxis()
    axes[-1].legend(frameon=False, fontsize=8, loc="lower left")
    return figure, f"Held-out accuracy on misled, twelve runs each; means. {'; '.join(words)}."
