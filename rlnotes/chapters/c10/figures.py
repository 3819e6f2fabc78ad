"""Figures of chapter 10."""

from matplotlib.figure import Figure

from rlnotes.chapters.c10.holds import WIDE
from rlnotes.chapters.c10.live import RATE
from rlnotes.chapters.c10.readings import ARMS, CLIP, by_rate, by_round, ended, lead
from rlnotes.notebook.figures import STYLES, new_figure

SHOWN = ("clip", "unclipped", "sapo", "two-sided 10", "one-sided 10")  # in the figure by rate
# where the name of a gate stands beside its point, in points
BESIDE = {"unclipped": (-20, -54), "sapo": (-38, -4), "two-sided 10": (8, 6), "two-sided 30": (8, -13)}
BESIDE |= {"one-sided 1": (6, 8), "one-sided 10": (10, 6), "one-sided 30": (-68, -16)}

# of six rounds: a title and what is counted for each task, the rate, and the gates
TITLES = {"needle": ("right tokens are rare", "right symbols"), "sort": ("much is known", "right answers")}
AT = f"rate {RATE:.0e}".replace("e-0", "e-")
COMPARED = {"clip": "clip", "sapo": "SAPO, the soft gate", WIDE: WIDE}


def six_rounds() -> tuple[Figure, str]:
    """How the loop's runs ended with three gates: a point for each seed."""
    figure, axes = new_figure(2, width=4.2, height=2.3)
    words = []
    for axis, (task, (title, counted)) in zip(axes, TITLES.items(), strict=True):
        for place, (style, (gate, name)) in enumerate(zip(STYLES, COMPARED.items(), strict=False)):
            found = [*ended(task, gate).values()]
            look = dict(color=style["color"], marker=style["marker"], linestyle="none", alpha=0.7)
            axis.plot(found, [-place] * len(found), **look)
            words.append(f"{task}, {name}: {min(found):.2f} to {max(found):.2f}")
        xlabel = f"{counted} after six rounds, {AT}"
        axis.set(title=f"{task}: {title}", xlabel=xlabel, xlim=(0.1, 1.03), ylim=(-2.5, 0.5))
        axis.set_yticks([0, -1, -2], [*COMPARED.values()] if axis is axes[0] else [""] * 3)
    about = f"Share of right sampled symbols (needle) and answers (sort) after six rounds, {AT}, by seed"
    return figure, f"{about}. {'; '.join(words)}."


def trade() -> tuple[Figure, str]:
    """Each gate less the clip: on sort across, on needle up, with 95 % intervals."""
    figure, (axis,) = new_figure(1, width=6.6, height=3.9)
    axis.fill_between([0, 0.06], 0, 0.29, color="0.5", alpha=0.12, linewidth=0)
    axis.text(0.03, 0.26, "better on both", ha="center", fontsize=9, color="0.3")
    words = []
    for style, arm in zip(STYLES, (arm for arm in ARMS.values() if arm != CLIP), strict=True):
        across, up = (lead(arm, task).difference for task in ("sort", "needle"))
        errors = [[[one.value - one.low], [one.high - one.value]] for one in (across, up)]
        look = dict(color=style["color"], marker=style["marker"], linestyle="none", capsize=2, elinewidth=1)
        axis.errorbar([across.value], [up.value], xerr=errors[0], yerr=errors[1], **look)
        place = (across.value, up.value), BESIDE[arm]
        axis.annotate(arm, *place, textcoords="offset points", fontsize=9, color="0.2")
        words.append(f"{arm} {across.value:+.2f} and {up.value:+.2f}")
    axis.plot(0, 0, "*", color="0.2", markersize=13)
    axis.annotate(CLIP, (0, 0), (-26, -15), textcoords="offset points", fontsize=9, color="0.2")
    for line in (axis.axhline, axis.axvline):
        line(0, color="0.4", linewidth=1, linestyle=":")
    axis.set(xlim=(-0.14, 0.06), ylim=(-0.21, 0.29), xticks=[-0.1, -0.05, 0, 0.05])
    axis.set_xlabel("sort (12 runs of one start): mean accuracy, less the clip's")
    axis.set_ylabel("needle (12 runs of three starts)")
    return figure, f"Seven gates less the clip, on sort and on needle: {'; '.join(words)}; the clip at 0 and 0."


def of_the_log() -> tuple[Figure, str]:
    """What runs of the loop with SAPO log of the gate, where it helps and where it harms."""
    figure, axes = new_figure(2, width=4.2, height=2.5)
    words = []
    tasks = {"needle": "needle: SAPO helps", "sort": "sort: SAPO harms"}
    for style, (task, label) in zip(STYLES, tasks.items(), strict=False):
        for axis, runs, name in zip(axes, by_round(task), ("mean gate", "held"), strict=True):
            rounds = range(1, runs.shape[1] + 1)
            axis.fill_between(rounds, runs.min(0), runs.max(0), color=style["color"], alpha=0.25, linewidth=0)
            axis.plot(rounds, runs.mean(0), label=label, markersize=4, **style)
            spans = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in zip(runs.min(0), runs.max(0), strict=True))
            words.append(f"{task}, {name}: {spans}")
    for axis, title in zip(axes, ("mean gate", "share of tokens that a clip would hold"), strict=True):
        axis.set(title=title, xlabel="after round")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    return figure, f"SAPO's log after each of six rounds, lowest to highest run. {'; '.join(words)}."


def rates() -> tuple[Figure, str]:
    """Mean accuracy of the tuning runs over the learning rate, on sort and on needle."""
    figure, axes = new_figure(2, width=4.2, height=3.0)
    words = []
    for axis, task in zip(axes, ("sort", "needle"), strict=True):
        found = by_rate(task)
        axis.set_xscale("log", base=2)
        for style, arm in zip(STYLES, SHOWN, strict=False):
            own = dict(sorted(found[arm].items()))
            axis.plot(list(own), list(own.values()), label=arm, markersize=4, linewidth=1.2, **style)
            best, last = max(own, key=lambda rate: own[rate]), list(own)[-1]
            words.append(f"{task}, {arm}: highest {own[best]:.2f} at {best:g}, {own[last]:.2f} at {last:g}")
        tried = sorted({rate for arm in SHOWN for rate in found[arm]})
        axis.set_xticks(tried, [f"{rate:.1e}".replace(".0", "").replace("e-0", "e-") for rate in tried], fontsize=8)
        axis.set(xlabel="learning rate", title=task, ylim=(-0.02, 1.02))
    axes[0].set_ylabel("accuracy, mean of a run")
    axes[1].legend(frameon=False, fontsize=8, loc="lower left")
    return figure, f"Mean held-out accuracy of three tuning runs by rate. {'; '.join(words)}."
