"""Explorer of chapter 07: what a group of G responses pushes, and what it wastes."""

import numpy as np

from rlnotes.exact.groups import mean_deviation, wasted_share
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

P = np.arange(1, 100) / 100


class GroupExplorer(ExplorerModel):
    """Group size and success rate: how hard a prompt is pushed, and groups with equal rewards."""

    script = "group.js"
    title = "A group of G responses to one prompt"
    controls = (
        Control("size", "group size G", 2, 64, 1, 16),
        Control("rate", "success rate p", 0.01, 0.99, 0.01, 0.05),
    )
    panels = (
        Axes("how hard a prompt is pushed", "success rate p", "push / true gradient", (0, 1), (0, 8)),
        Axes("groups whose rewards are all equal", "success rate p", "share without a push", (0, 1), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`mean_deviation` and :func:`wasted_share`."""
        size = int(values["size"])
        true = P * (1 - P)
        return [
            [
                ("GRPO: mean and std", P, mean_deviation(size, P) / true),
                ("mean only", P, np.full(len(P), (size - 1) / size)),
            ],
            [(f"G = {size}", P, np.array([wasted_share(size, p) for p in P]))],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the success rate."""
        return [values["rate"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"group": GroupExplorer()}
