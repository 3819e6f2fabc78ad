"""The explorers of chapter 02: what old data say of a step and where it leads, in two rooms and behind a door."""

import numpy as np

from rlnotes.exact.mdp import occupancy, performance_difference, surrogate
from rlnotes.exact.pathologies import door_and_buttons, surrogate_trap, two_rooms
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


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


class RoomsExplorer(ExplorerModel):
    """Mixing the policies of :func:`two_rooms`: the change and the surrogate over the step, and where the policy is."""

    script = "rooms.js"
    title = "A step from an old policy to a new one"
    controls = (
        Control("alpha", "step: share of the new policy, α", 0.0, 1.0, 0.01, 0.6),
        Control("gamma", "discount γ", 0.5, 0.95, 0.01, 0.9),
    )
    panels = (
        Axes("change of the return", "step α", "change of the return", (0, 1)),
        Axes("where the policy is", "step α", "share of visits to room 1", (0, 1), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`performance_difference`, :func:`surrogate` and :func:`occupancy`."""
        mdp, new, old = two_rooms(values["gamma"])
        x = np.arange(51) / 50
        mixed = [(1 - step) * old + step * new for step in x]
        true, said = (np.array([f(mdp, pi, old) for pi in mixed]) for f in (performance_difference, surrogate))
        here, before = np.array([occupancy(mdp, pi)[1] for pi in mixed]), occupancy(mdp, old)[1]
        return [
            [("true change", x, true), ("old data say", x, said)],
            [("new policy", x, here), ("old data", x, np.full_like(x, before))],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the step."""
        return [values["alpha"]] * 2

    def alt(self, values: dict[str, float]) -> str:
        """With the ends, the lowest point, and where the sign turns."""
        (true, said), (here, before) = self.curves(**values)
        x, y = true[1:]
        low = int(y.argmin())
        gains = x[(y > 0) & (x > x[low])]
        turn = f", above 0 from {gains[0]:.2f} on" if len(gains) else ""
        return (
            f"{super().alt(values)}. Left: the true change falls from 0 to {y[low]:.1f} at a step of {x[low]:.2f} and ends "
            f"at {y[-1]:.1f}{turn}; old data say a straight line from 0 to {said[2][-1]:.1f}. Right: room 1 has "
            f"{here[2][0]:.2f} of the visits, and {here[2][-1]:.2f} at step 1; in the old data {before[2][0]:.2f}."
        )


EXPLORERS: dict[str, ExplorerModel] = {"shift": ShiftExplorer(), "rooms": RoomsExplorer()}
