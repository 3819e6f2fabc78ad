"""Chapter 02: the explorer of what a surrogate leaves out and of the visits that make it so; a picture for sliders."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.bounds.mdp import gains
from rlnotes.exact.mdp import occupancy, performance_difference, surrogate, visits
from rlnotes.exact.pathologies import door_and_buttons, surrogate_trap, two_rooms
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.notebook.figures import STYLES, new_figure


class ShiftExplorer(ExplorerModel):
    """002 Example 4.1.1 in the source's symbols: surrogate, true return, penalty, and occupancies."""

    script = "shift.js"
    title = "What the surrogate leaves out"
    controls = (
        Control("step", "size of the step", 0.0, 1.0, 0.01, 0.5),
        Control("eta", "door taken before, η", 0.001, 0.5, 0.001, 0.01),
        Control("eta2", "bad button pressed before, η₂", 0.001, 0.5, 0.001, 0.001),
        Control("damage", "cost of the bad button, M", 1, 100, 1, 5),
        Control("gamma", "discount γ", 0.5, 0.99, 0.01, 0.9),
    )
    panels = (
        Axes("change of the return", "size of the step", "change", (0, 1)),
        Axes("discounted occupancy d", "size of the step", "share of visits, power of ten", (0, 1), (-5.1, 0)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`surrogate_trap`, and by exact occupancies of the process.

        The room is entered at time 1 or never, so its occupancy is linear in the step, and two of them are enough.
        """
        x = np.arange(51) / 50
        setting = values["damage"], values["eta"], values["eta2"], values["gamma"]
        predicted, true = surrogate_trap(x, *setting)
        mdp, new, old = door_and_buttons(*setting)
        before, after = occupancy(mdp, old), occupancy(mdp, new)
        return [
            [
                ("surrogate", x, predicted),
                ("true change", x, true),
                ("DSP", x, true - predicted),
            ],
            [
                ("room, old", x, np.log10(np.full_like(x, before[1]))),
                ("room, new", x, np.log10(before[1] + x * (after[1] - before[1]))),
                ("start", x, np.log10(np.full_like(x, before[0]))),
            ],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the step."""
        return [values["step"]] * 2


def two_rooms_figure(alpha: float, gamma: float) -> tuple[Figure, str]:
    """Mixing the policies of :func:`two_rooms`: change and surrogate over the step, and their terms room by room.

    Returns the figure and its alternative text, as :class:`rlnotes.notebook.sliders.Sliders` wants them.
    """
    mdp, new, old = two_rooms(gamma)
    x = np.linspace(0, 1, 41)
    here = (1 - alpha) * old + alpha * new
    figure, (left, right) = new_figure(2)
    for style, name, change in zip(STYLES, ("true", "surrogate"), (performance_difference, surrogate), strict=False):
        curve = [change(mdp, (1 - step) * old + step * new, old) for step in x]
        left.plot(x, curve, color=style["color"], linestyle=style["linestyle"], label=name)
        now = change(mdp, here, old)
        left.plot(alpha, now, style["marker"], color=style["color"], label=f"now {now:+.2f}")
    left.legend(frameon=False, fontsize=8)
    left.set(xlabel="step α", ylabel="change of the return", title="the whole path")
    looks = dict(color=STYLES[0]["color"]), dict(fill=False, hatch="//", edgecolor=STYLES[1]["color"])
    for offset, name, pi, look in zip((-0.2, 0.2), ("new", "old"), (here, old), looks, strict=True):
        terms = visits(mdp, pi) * gains(mdp, here, old)
        right.bar(np.arange(2) + offset, terms, 0.36, label=f"by the {name} visits", **look)
    right.axhline(0, color="0.3", linewidth=1)
    right.legend(frameon=False, fontsize=8)
    right.set(xticks=[0, 1], xticklabels=["room 0", "room 1"], ylabel="term of the sum", title="room by room")
    predicted, true = surrogate(mdp, here, old), performance_difference(mdp, here, old)
    return figure, f"step {alpha:.2f}, discount {gamma:.2f}: surrogate {predicted:.2f}, true change {true:.2f}"


EXPLORERS: dict[str, ExplorerModel] = {"shift": ShiftExplorer()}
