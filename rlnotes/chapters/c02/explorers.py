"""The explorer of chapter 02: what old data say of a step in two rooms, and where the step leads."""

import numpy as np

from rlnotes.exact.mdp import occupancy, performance_difference, surrogate
from rlnotes.exact.pathologies import two_rooms
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


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
            f"{super().alt(values)}. Left: the true change falls from 0 to {y[low]:.1f} at a step of {x[low]:.2f} and "
            f"ends at {y[-1]:.1f}{turn}; old data say a straight line from 0 to {said[2][-1]:.1f}. Right: room 1 has "
            f"{here[2][0]:.2f} of the visits, and {here[2][-1]:.2f} at step 1; in the old data {before[2][0]:.2f}."
        )


EXPLORERS: dict[str, ExplorerModel] = {"rooms": RoomsExplorer()}
