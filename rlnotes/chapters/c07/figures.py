"""Figures of chapter 07."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c07.readings import SAME_RATE, TASKS, best_under, chosen, frontier, score
from rlnotes.chapters.c07.readings import held as held_ends
from rlnotes.chapters.c07.studies import BETAS, UNPENALISED
from rlnotes.lm.tasks import Needle
from rlnotes.notebook.figures import STYLES, new_figure
from rlnotes.studies.tables import Table, grids

KINDS: dict[str, dict[str, Any]] = dict(zip(("k1", "k2", "k3"), STYLES, strict=False))
KL_TICKS = dict(zip(TASKS, ((0.3, 1, 3), (5, 10, 20, 30)), strict=True))


def live(rows: Sequence[dict[str, Any]]) -> tuple[Figure, str]:
    """Loss, gradient norm, equal groups and J of one run over its steps."""
    figure, axes = new_figure(4, columns=4, width=2.5, height=2.4)
    steps, words = [row["step"] for row in rows], []
    for axis, style, name in zip(axes, STYLES, ("loss", "gradient norm", "equal groups", "J"), strict=False):
        values = np.array([row[name] for row in rows])
        axis.plot(steps, values, color=style["color"], linestyle=style["linestyle"])
        axis.set(xlabel="step", title=name)
        low, high = int(values.argmin()), int(values.argmax())
        words.append(f"{name}: minimum {values[low]:.3g} at {steps[low]}, maximum {values[high]:.3g} at {steps[high]}")
    axes[0].set_ylim(-1, 1)
    axes[1].set_ylim(0)
    for axis in axes[2:]:
        axis.set_ylim(0, 1.02)
    return figure, "; ".join(words) + "."


def twin(rows: Sequence[dict[str, float]]) -> tuple[Figure, str]:
    """What is estimated, beside the truth: J and its mean of 128 rewards; KL and two estimates of it."""
    figure, (left, right) = new_figure(2)
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    left.plot(column["J"], color="0.2", label="J, exact")
    left.plot(column["reward"], "o", markersize=3, color=STYLES[1]["color"], label="mean reward of 128")
    right.plot(column["KL"], color="0.2", label="KL, exact")
    for style, name in zip(STYLES, ("k1", "k3"), strict=False):
        right.plot(column[name], style["marker"], markersize=3, color=style["color"], label=name)
    left.set(xlabel="step", ylabel="reward", title="what is trained", ylim=(0, 1.05))
    right.set(xlabel="step", ylabel="nats per response", title="distance from the start")
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=8)
    words = "; ".join(
        f"{name}: minimum {own.min():.2f} at step {own.argmin()}, maximum {own.max():.2f} at {own.argmax()}"
        for name, own in column.items()
    )
    return figure, f"{words}."


def held(table: Table, chances: Sequence[np.ndarray]) -> tuple[Figure, str]:
    """How far each penalty lets a policy go at one learning rate: three runs an arm, KL on a logarithmic axis, the
    accuracies and the lowest score in words, and where the best policy under the penalty is; ``chances`` as in
    :func:`best_under`.
    """
    figure, axes = new_figure(len(TASKS), width=4.9, height=2.9)
    words = []
    for axis, task in zip(axes, TASKS, strict=True):
        ends = held_ends(table, task)
        arms = sorted(ends, key=lambda arm: ends[arm][0].mean())
        for place, arm in enumerate(arms):
            kl, accuracy = ends[arm]
            style = STYLES[0] if "reward" in arm else STYLES[1] if "loss" in arm else dict(color="0.3", marker="X")
            axis.plot(kl, [place] * len(kl), linestyle="none", color=style["color"], marker=style["marker"], alpha=0.8)
            said = "–".join(dict.fromkeys(f"{end:.2f}" for end in (accuracy.min(), accuracy.max())))
            value = f"{score(task, accuracy, kl).min():.2f}".replace("-", "−")
            beside = dict(xycoords=("axes fraction", "data"), fontsize=8, va="center")
            axis.annotate(f"{said} ({value})", (1.01, place), **beside)
            words.append(f"{task}, {arm}: {kl.min():.2f} to {kl.max():.2f} nats, accuracy {said}, lowest score {value}")
        J, best = best_under(task, chances)
        axis.axvline(best, color="0.4", linewidth=1, linestyle=(0, (4, 2)))
        told = f"accuracy {J:.2f}, score {score(task, J, best):.2f}"
        axis.annotate(f"best policy: {told}", (best, 1.01), xycoords=("data", "axes fraction"), fontsize=8, ha="center")
        words.append(f"best policy on {task}: {best:.2f} nats, {told}")
        axis.set_yticks(range(len(arms)), arms)
        axis.set(xscale="log", xlabel="KL to the reference at the end (nats)")
        start = table.start(chosen(table, task)[UNPENALISED], "accuracy").mean()
        axis.set_title(f"{task}, β = {BETAS[task]:g}, untrained accuracy {start:.2f}", pad=16)
        axis.annotate("accuracy (lowest score)", (1.01, 1.01), xycoords="axes fraction", fontsize=8)
        axis.set_xticks(KL_TICKS[task], [f"{tick:g}" for tick in KL_TICKS[task]])
        axis.xaxis.set_minor_formatter("")
    return figure, "; ".join(words) + "."


def penalties(table: Table, chances: Sequence[np.ndarray]) -> tuple[Figure, str]:
    """The penalties by their tuning runs, a row for each task. Left: the mean score over the rate. Right: where
    each arm ends at one rate, the same for all, accuracy over KL to the reference; with the best that
    any policy can do, from the ``chances`` of right answers of each start of the first task.
    """
    figure, axes = new_figure(2 * len(TASKS), width=4.8, height=3.2)
    apart, words = replace(table, rows=table.tuning), []
    for task, left, right in zip(TASKS, axes[::2], axes[1::2], strict=True):
        own = chosen(table, task)
        for arm, name in own.items():
            (grid,) = (grid for grid in grids(table.labels) if name in grid)
            tried = [one for one in grid if one in table.tuning]
            rates = [float(table.labels[one]["rate"]) for one in tried]
            scores = [apart.mean(one, "penalised").mean() for one in tried]
            left.plot(rates, scores, linewidth=1, **look(arm) | dict(linestyle="-", markersize=5))
            (same,) = table.where(recipe=arm, task=task, rate=SAME_RATE)
            kl, accuracy = (apart.last(same, metric, 1).mean() for metric in ("kl_reference", "accuracy"))
            right.plot(kl, accuracy, label=arm, **look(arm))
            words.append(
                f"{task}, {arm}: highest score {max(scores):.2f} at {rates[int(np.argmax(scores))]:g}, "
                f"at {SAME_RATE} ends at {accuracy:.2f} and {kl:.2f} nats"
            )
        left.axhline(table.start(own[UNPENALISED], "penalised").mean(), color="0.4", linewidth=1, linestyle=(0, (1, 1)))
        left.set(xscale="log", xlabel="learning rate", ylabel="score, mean of the run", ylim=(-0.35, 0.2))
        left.set_title(f"{task}, β = {BETAS[task]:g}: by rate")
        right.set(xlabel="KL to the reference (nats a response)", ylabel="accuracy")
        right.set_title(f"{task}: where each ends at the rate {SAME_RATE}")
        right.set_xlim(-0.02 * right.get_xlim()[1], 1.05 * right.get_xlim()[1])
        right.set_ylim(-0.02, 1.02)
    betas = np.geomspace(0.01, 10, 200)
    kinds = {"misled": (chances, 1), "needle": ([np.array([Needle().rare])], Needle().size)}
    for task, axis in zip(TASKS, axes[1::2], strict=True):
        starts, positions = kinds[task]
        J, KL = np.mean([frontier(own, betas, positions) for own in starts], 0)
        axis.plot(KL, J, color="0.5", linewidth=1.2, zorder=0)
        best_J, best_KL = best_under(task, chances)
        axis.plot(best_KL, best_J, "*", color="0.2", markersize=13, label="best policy under the penalty", zorder=1)
        words.append(f"best policy on {task}: {best_J:.2f} at {best_KL:.2f} nats")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure, "; ".join(words) + "."


def look(arm: str) -> dict[str, Any]:
    """Colour and marker by estimator, empty in the loss; a plus with the ratio, a black cross without a penalty."""
    if arm == UNPENALISED:
        return dict(color="black", marker="X", linestyle="none", markersize=8)
    found = dict(color=KINDS[arm[:2]]["color"], marker=KINDS[arm[:2]]["marker"], linestyle="none", markersize=8)
    if "ratio" in arm:
        found |= dict(marker="P", markersize=11)  # around the markers that lie on the same spot
    return found | ({} if "reward" in arm else dict(markerfacecolor="none", markeredgewidth=1.8))
