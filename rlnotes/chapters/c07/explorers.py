"""Explorer of chapter 07: the loss and the push of a group of G responses, and its mean over groups."""

import numpy as np
from scipy.stats import binom

from rlnotes.exact.groups import mean_deviation, wasted_share
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

P = np.arange(1, 100) / 100


class GroupExplorer(ExplorerModel):
    """Group size and success rate: what a group with some right answers pushes, and what all groups do in the mean."""

    script = "group.js"
    title = "A group of G responses to one prompt"
    controls = (
        Control("size", "group size G", 2, 64, 1, 16),
        Control("rate", "success rate p", 0.01, 0.99, 0.01, 0.05),
    )
    panels = (
        Axes("one group", "share of right answers in it", "share, or push", (0, 1), (-0.05, 1)),
        Axes("the mean over groups", "success rate p of the prompt", "share, or push", (0, 1), (-0.05, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """The push of a group is the deviation of its rewards; its mean is :func:`mean_deviation`."""
        size = int(values["size"])
        right = np.arange(size + 1)
        share = right / size
        return [
            [
                ("loss", share, np.zeros(size + 1)),
                ("push on the log-odds", share, np.sqrt(share * (1 - share))),
                ("how often such a group comes", share, binom.pmf(right, size, values["rate"])),
            ],
            [
                ("push", P, mean_deviation(size, P)),
                ("push of the true gradient", P, P * (1 - P)),
                ("groups that push nothing", P, np.array([wasted_share(size, p) for p in P])),
            ],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the whole number of right answers next to the mean one; at the success rate."""
        return [np.floor(values["rate"] * values["size"] + 0.5) / values["size"], values["rate"]]


EXPLORERS: dict[str, ExplorerModel] = {"group": GroupExplorer()}
