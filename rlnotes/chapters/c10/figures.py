"""Figures of chapter 10."""

from matplotlib.figure import Figure

from rlnotes.chapters.c10.readings import ARMS, CLIP, by_rate, lead
from rlnotes.notebook.figures import STYLES, new_figure

SHOWN = ("clip", "unclipped", "sapo", "two-sided 10", "one-sided 10")  # in the figure by rate


def trade() -> tuple[Figure, str]:
    """Each gate less the clip: on sort across, on needle up, with 95 % intervals."""
    figure, (axis,) = new_figure(1, width=6.6, height=3.8)
    words = []
    for style, arm in zip(STYLES, (arm for arm in ARMS.values() if arm != CLIP), strict=True):
        across, up = (lead(arm, task).difference for task in ("sort", "needle"))
        errors = [[[one.value - one.low], [one.high - one.value]] for one in (across, up)]
        own = dict(color=style["color"], marker=style["marker"], linestyle="none", capsize=2, label=arm, elinewidth=1)
        axis.errorbar([across.value], [up.value], yerr=errors[1], xerr=errors[0], **own)
        words.append(f"{arm} {across.value:+.2f} and {up.value:+.2f}")
    axis.plot(0, 0, "*", color="0.2", markersize=13, label=CLIP)
    for line in (axis.axhline, axis.axvline):
        line(0, color="0.4", linewidth=1, linestyle=":")
    axis.set(xlabel="sort, much is known: mean accuracy less clip's", ylabel="needle, right tokens rare: less clip's")
    axis.set(xlim=(-0.14, 0.06), ylim=(-0.21, 0.29))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure, f"Seven gates less the clip, on sort and on needle: {'; '.join(words)}; the clip at 0 and 0."


def rates() -> tuple[Figure, str]:
    """Mean accuracy of the tuning runs over the learning rate, on sort and on needle."""
    figure, axes = new_figure(2, width=4.2, height=3.0)
    words = []
    for axis, task in zip(axes, ("sort", "needle"), strict=True):
        found = by_rate(task)
        for style, arm in zip(STYLES, SHOWN, strict=False):
            own = dict(sorted(found[arm].items()))
            axis.plot(list(own), list(own.values()), label=arm, markersize=4, linewidth=1.2, **style)
            best = max(own, key=lambda rate: own[rate])
            words.append(f"{task}, {arm}: highest {own[best]:.2f} at {best:g}, at the largest rate {[*own.values()][-1]:.2f}")
        axis.set(xscale="log", xlabel="learning rate", title=task, ylim=(-0.02, 1.02))
    axes[0].set_ylabel("accuracy, mean of a run")
    axes[1].legend(frameon=False, fontsize=8, loc="lower left")
    return figure, f"Mean held-out accuracy of three tuning runs by rate. {'; '.join(words)}."
