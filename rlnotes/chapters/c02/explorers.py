"""Chapter 02: what a surrogate leaves out and the visits that make it so, in closed form and in the two rooms."""

import numpy as np

from rlnotes.exact.mdp import gains, occupancy, visits
from rlnotes.exact.pathologies import door_and_buttons, surrogate_trap, two_rooms
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel


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


class RoomsExplorer(ExactModel):
    """Mixing the policies of :func:`two_rooms`: change and surrogate over the step, and their terms room by room."""

    title = "A step between the policies of the two rooms"
    controls = (Control("alpha", "step α", 0.0, 1.0, 0.01, 0.6), Control("gamma", "discount γ", 0.5, 0.95, 0.01, 0.9))
    panels = (
        Axes("the whole path", "step α", "change of the return", (0, 1)),
        Axes("room by room", "room", "term of the sum", (-0.5, 1.5), ticks=(0, 1), filled=(0,)),
    )

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """By :func:`visits` and :func:`gains`: with the new visits the terms add up to the truth, with the old to L."""
        mdp, new, old = two_rooms(values["gamma"])
        alpha = values["alpha"]
        x = np.append(np.linspace(0, 1, 41), alpha)
        mixed = [(1 - step) * old + step * new for step in x]
        gain = np.array([gains(mdp, pi, old) for pi in mixed])
        terms = {"new": gain * [visits(mdp, pi) for pi in mixed], "old": gain * visits(mdp, old)}
        true, predicted = (part.sum(-1) for part in terms.values())
        low, high = (1.05 * end(list(terms.values())) for end in (np.min, np.max))  # of all steps: it stays in place
        text = f"Surrogate {predicted[-1]:.2f}, true change {true[-1]:.2f}."
        return text, [
            Drawn(
                [("true", x[:-1], true[:-1]), ("surrogate", x[:-1], predicted[:-1])],
                [(alpha, true[-1], 0), (alpha, predicted[-1], 1)],
            ),
            Drawn(
                [
                    (f"by the {name} visits", *_bars(part[-1], place))
                    for (name, part), place in zip(terms.items(), (-0.2, 0.2), strict=True)
                ],
                [],
                y=(float(low), float(high)),
            ),
        ]


def _bars(heights: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """The outline of a bar beside each of 0, 1, ..., joined along the line of 0."""
    x = [at + shift + side for at in range(len(heights)) for side in (-0.18, -0.18, 0.18, 0.18)]
    return np.array(x), np.array([y for height in heights for y in (0, height, height, 0)])


EXPLORERS: dict[str, ExplorerModel] = {"shift": ShiftExplorer(), "rooms": RoomsExplorer()}
