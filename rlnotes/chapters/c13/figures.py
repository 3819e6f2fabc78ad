"""Figures of chapter 13."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from rlnotes.chapters.c13.explorers import NAMES
from rlnotes.exact.constrained_update import StaleData, clip_band, clipped_term, clipped_update, constrained_update
from rlnotes.notebook.figures import STYLES, new_figure

ENDS = (0.1, 30.0)  # of the ratios that are drawn


def bands(before: Sequence[float] | np.ndarray, epsilon: float = 0.2) -> tuple[Figure, str]:
    """Where each clip pushes a good token, over its ratio before the round and now; on the diagonal stand tokens with
    the ratios ``before``, which no step has moved.
    """
    figure, axes = new_figure(3, columns=3, width=3.1, height=3.0)
    x, y = np.meshgrid(*[np.geomspace(*ENDS, 400)] * 2)
    tokens, said = np.asarray(before, dtype=np.float64), []
    drawn = (tokens > ENDS[0]) & (tokens < ENDS[1])
    for axis, (mechanism, name) in zip(axes, NAMES.items(), strict=True):
        pushes = clipped_term(y, np.array(1.0), clip_band(mechanism, x, epsilon))[1]
        axis.contourf(x, y, pushes, levels=[0.5, 1.5], colors=["#9ecae1"])
        is_open = clipped_term(tokens, np.array(1.0), clip_band(mechanism, tokens, epsilon))[1]
        for shown, style, label in ((is_open, STYLES[0], "pushed"), (~is_open, STYLES[1], "shut")):
            own = tokens[drawn & shown]
            axis.plot(own, own, style["marker"], color=style["color"], markersize=4, alpha=0.5, label=label)
        axis.set(title=name, xlabel="ratio before the round", xscale="log", yscale="log", xlim=ENDS, ylim=ENDS)
        said.append(f"{name}: {(~is_open).sum()} of {len(tokens)} shut")
    axes[0].set_ylabel("ratio now")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure, (
        "Good tokens before the first step of a round, on the diagonal of two log axes. Shaded: pushed. at mu: below "
        "the level line 1.2, whatever the ratio before. at pi_k, plus: below a line that is far above the diagonal at "
        "0.1 and meets it at 30. at pi_k, times: below a line parallel to the diagonal, 1.2 times as high. "
        f"{'; '.join(said)}; {(~drawn).sum()} beyond {ENDS[0]:g} to {ENDS[1]:g}, not drawn."
    )


def told_and_rates() -> tuple[Figure, str]:
    """Left the differences to the clip at mu with their intervals, right the tuning runs by rate, eight rounds old."""
    from rlnotes.chapters.c13.readings import ARMS, AT_MU, TASKS, chosen, tuning  # only here: they need torch
    from rlnotes.studies import contest
    from rlnotes.studies.tables import load_table

    figure, (left, right) = new_figure(2, width=4.6, height=3.6)
    table, words = load_table("13_mechanisms"), []
    own, colours = chosen(table), dict(zip(ARMS.values(), STYLES, strict=False))
    for place, (task, title) in enumerate(reversed(TASKS.items())):
        for i, arm in enumerate(arm for arm in ARMS.values() if arm != AT_MU):
            value, low, high = contest.less(table, own[task, arm], own[task, AT_MU]).difference
            style, y = colours[arm], place + 0.27 - 0.18 * i
            left.plot([low, high], [y, y], color=style["color"], linewidth=2)
            left.plot([value], [y], style["marker"], color=style["color"], markersize=5)
            words.append(f"{title}, {arm} {value:+.2f} from {low:+.2f} to {high:+.2f}")
    left.axvline(0, color="0.3", linewidth=1)
    left.set_yticks(range(len(TASKS)), [*reversed(TASKS.values())], fontsize=8)
    left.set(xlabel="mean accuracy, less at mu", title="each at its best rate; 95 % intervals")
    here = len(words)
    for arm, style in colours.items():
        rates = tuning()["misled lag 32", arm]
        right.plot([*rates], [mean for mean, _ in rates.values()], label=arm, markersize=4, **style)
        words.append(f"{arm} " + ", ".join(f"{mean:.2f} at {rate:g}" for rate, (mean, _) in rates.items()))
    right.set_xscale("log")
    right.set(xlabel="learning rate", ylabel="mean accuracy", ylim=(0, 1), title="misled, 8 rounds old: tuning runs")
    right.legend(frameon=False, fontsize=7, loc="upper left")
    return figure, f"Left, less at mu: {'; '.join(words[:here])}. Right, by rate: {'; '.join(words[here:])}."


def against_the_constraint(bandits: dict[str, StaleData], epsilons: Sequence[float]) -> tuple[Figure, str]:
    """Surrogate over update shift, of the constrained update and of the nearest optima of the three clips."""
    figure, axes = new_figure(len(bandits), width=4.4)
    shifts, words = np.linspace(0, 0.6, 40), []
    for axis, (title, data) in zip(axes, bandits.items(), strict=True):
        best = [data.surrogate(constrained_update(data, shift)) for shift in shifts]
        axis.plot(shifts, best, color="0.3", linewidth=1.5, label="constrained update")
        for style, (mechanism, name) in zip(STYLES, NAMES.items(), strict=False):
            policies = [clipped_update(data, mechanism, e) for e in epsilons]
            U, L = ([of(policy) for policy in policies] for of in (data.update_shift, data.surrogate))
            axis.plot(U, L, label=name, markersize=4, **style)
            words.append(f"{title}, {name}: U from {min(U):.2f} to {max(U):.2f}, L from {min(L):.2f} to {max(L):.2f}")
        axis.set(title=f"{title}, S = {data.staleness():.2f}", xlabel="U", ylabel="surrogate L", xlim=(0, 0.6))
    axes[0].legend(frameon=False, fontsize=8)
    return figure, f"No optimum of a clip lies above the constrained update. {'; '.join(words)}."


def on_sort() -> tuple[Figure, str]:
    """Medians of the stored runs on ``sort``: accuracy over tokens, fresh and 64 updates old, at two rates."""
    from rlnotes.chapters.c13.readings import SORT, SORT_ARMS  # only here: they need torch
    from rlnotes.studies.tables import load_table

    figure, axes = new_figure(4, columns=2, width=4.4, height=2.7)
    panels = [(rate, name, lag) for rate, name in SORT.items() for lag in (0, 64)]
    words = []
    for axis, (rate, name, lag) in zip(axes, panels, strict=True):
        for style, (recipe, arm) in zip(STYLES, SORT_ARMS.items(), strict=False):
            x, y = load_table(name).band(f"{recipe}, lag {lag}", "accuracy")[:2]
            axis.plot(x / 1000, y, label=arm, markersize=3, linewidth=1, **style)
            words.append(f"{rate}, {lag} old, {arm} from {y[0]:.2f} to {y[-1]:.2f}, lowest {y.min():.2f}")
        axis.set(title=f"rate {rate}, {lag} updates old", ylim=(0, 0.9))
        axis.set(xlabel="tokens sampled (1000)", ylabel="accuracy, new prompts")
    axes[0].legend(frameon=False, fontsize=8)
    return figure, f"Medians of five runs on sort. {'; '.join(words)}."
