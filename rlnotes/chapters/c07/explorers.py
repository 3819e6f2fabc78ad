"""Explorers of chapter 07: the clip, and a group of responses."""

import numpy as np

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.exact.groups import wasted_share
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


class ClipExplorer(ExplorerModel):
    """PPO's clip: value and gradient in all six regions of ratio and advantage."""

    script = "clip.js"
    title = "The clipped surrogate of one token"
    controls = (
        Control("ratio", "ratio r", 0.0, 2.0, 0.01, 1.1),
        Control("advantage", "advantage A", -2.0, 2.0, 0.1, 1.0),
        Control("epsilon", "clip range ε", 0.05, 0.5, 0.01, 0.2),
    )
    panels = (
        Axes("surrogate", "ratio r", "min(r A, clip(r) A)", (0, 2), (-4, 4)),
        Axes("its derivative with respect to r", "ratio r", "gradient", (0, 2), (-2.2, 2.2)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :class:`rlnotes.objectives.gates.Clip` and automatic differentiation."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives.gates import Clip

        x = (np.arange(200) + 0.5) / 100
        ratio = torch.tensor(x, requires_grad=True)
        advantage = torch.full_like(ratio, values["advantage"]).detach()
        surrogate = Clip(values["epsilon"], values["epsilon"])(ratio, advantage)
        (slope,) = torch.autograd.grad(surrogate.sum(), ratio)
        clipped = surrogate.detach().numpy()
        return [
            [("clipped", x, clipped), ("ratio × advantage", x, x * values["advantage"])],
            [("derivative", x, slope.numpy())],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the ratio."""
        return [values["ratio"]] * 2


class GroupExplorer(ExplorerModel):
    """Group size and success rate: advantages, and wasted groups."""

    script = "group.js"
    title = "A group of G responses"
    controls = (
        Control("size", "group size G", 2, 32, 1, 16),
        Control("rate", "success rate p", 0.01, 0.99, 0.01, 0.35),
    )
    panels = (
        Axes(
            "advantage by outcome of the group", "share of right responses in the group", "advantage", (0, 1), (-6, 6)
        ),
        Axes("groups that teach nothing", "success rate p", "share of groups wasted", (0, 1), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`group_mean_std` on every possible group, and :func:`wasted_share`."""
        size = int(values["size"])
        counts = np.arange(1, size)
        groups = [group_mean_std((np.arange(size) < k).astype(np.float64), size) for k in counts]
        p = np.arange(1, 100) / 100
        right, wrong = np.array([g[0] for g in groups]), np.array([g[-1] for g in groups])
        return [
            [("right response", counts / size, right), ("wrong response", counts / size, wrong)],
            [(f"G = {size}", p, np.array([wasted_share(size, q) for q in p]))],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the likeliest mixed group, and at the success rate."""
        size = values["size"]
        return [min(size - 1, max(1, np.floor(size * values["rate"] + 0.5))) / size, values["rate"]]


EXPLORERS: dict[str, ExplorerModel] = {"clip": ClipExplorer(), "group": GroupExplorer()}
