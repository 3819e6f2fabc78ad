"""The explorer of chapter 00: an update that looks good and does harm."""

import numpy as np

from rlnotes.exact.pathologies import surrogate_trap
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


class SurrogateExplorer(ExplorerModel):
    """An update that a surrogate loves and the true return hates."""

    script = "surrogate.js"
    title = "What the surrogate predicts, and what happens"
    controls = (
        Control("step", "size of the step", 0.0, 1.0, 0.01, 0.5),
        Control("damage", "cost of the bad button", 1, 20, 1, 5),
        Control("rare", "door taken before, share", 0.001, 0.2, 0.001, 0.01),
    )
    panels = (Axes("change of the expected return", "size of the step", "change", (0, 1), (-5.5, 1.5)),)

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`surrogate_trap`."""
        x = np.arange(101) / 100
        predicted, true = surrogate_trap(x, values["damage"], values["rare"], gamma=1)
        return [[("predicted", x, predicted), ("true", x, true)]]

    def marks(self, **values: float) -> list[float]:
        """At the step."""
        return [values["step"]]


EXPLORERS: dict[str, ExplorerModel] = {"surrogate": SurrogateExplorer()}
