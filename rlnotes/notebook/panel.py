"""The instrument panel: how far each update went, what it promised, and what came of it."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from rlnotes.lm.config import Metrics
from rlnotes.notebook.figures import STYLES, new_figure

PANELS = {
    "kl": ("KL(old, new) of a token", "nats"),
    "J": ("J after the update", "J"),
    "promised": ("promised: surrogate, held out", "change of J"),
    "change": ("what came of it", "change of J"),
}


def instrument_panel(
    runs: Mapping[str, Sequence[Metrics]], xlabel: str = "round", titles: Mapping[str, str] | None = None
) -> tuple[Figure, str]:
    """Four curves of each run over its updates, and the same in words.

    ``runs`` maps a name to rows that hold ``step`` and the keys of ``PANELS``, as
    :func:`rlnotes.lm.instruments.instruments` gives them; ``titles`` are other titles for some of these keys. KL has a
    logarithmic axis; the two changes share one, so that a promise can be held against what came of it. Raises
    ``ValueError`` for a run without rows.
    """
    if empty := [name for name, rows in runs.items() if not rows]:
        raise ValueError(f"runs[{empty[0]!r}] has no rows; give it the metrics of at least one update")
    figure, axes = new_figure(len(PANELS), height=2.4)
    words = []
    for axis, (key, (title, unit)) in zip(axes, PANELS.items(), strict=True):
        title = (titles or {}).get(key, title)
        for (name, rows), style in zip(runs.items(), STYLES, strict=False):
            curve = [(row["step"], row[key]) for row in rows]
            axis.plot(*zip(*curve, strict=True), label=name, markersize=3, linewidth=1.2, **style)
            low, high = (pick(curve, key=lambda point: point[1]) for pick in (min, max))
            words.append(f"{title}, {name}: minimum {low[1]:.3g} at {low[0]}, maximum {high[1]:.3g} at {high[0]}")
        axis.set_title(title, fontsize=10)
        axis.set(xlabel=xlabel, ylabel=unit)
    axes[0].set_yscale("log")
    axes[2].sharey(axes[3])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(runs), frameon=False)
    return figure, "; ".join(words) + "."
