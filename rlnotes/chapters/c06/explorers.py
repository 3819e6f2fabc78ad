"""Explorer of chapter 06: how hard a token pushes, with the clip, the dual clip, and neither."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


class PushExplorer(ExplorerModel):
    """Objective and push of one token over its ratio."""

    script = "push.js"
    title = "The push of one token"
    controls = (
        Control("advantage", "advantage A", -2.0, 2.0, 0.1, -1.0),
        Control("ratio", "ratio r", 0.0, 5.0, 0.05, 4.0),
        Control("epsilon", "clip range ε", 0.05, 0.5, 0.01, 0.2),
        Control("dual", "dual clip c", 1.6, 6.0, 0.1, 3.0),
    )
    panels = (
        Axes("objective of the token", "ratio r", "ℓ", (0, 5), (-6, 3)),
        Axes("push: derivative with respect to log π", "ratio r", "dℓ / d log π", (0, 5), (-6, 3)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.objectives.gates` and automatic differentiation."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives.gates import Clip, no_gate

        epsilon, x = values["epsilon"], (np.arange(100) + 0.5) / 20
        gates = {
            "no clip": no_gate,
            "clip": Clip(epsilon, epsilon),
            "dual clip": Clip(epsilon, epsilon, values["dual"]),
        }
        objectives, pushes = [], []
        for name, gate in gates.items():
            log_ratio = torch.tensor(np.log(x), requires_grad=True)
            objective = gate(log_ratio.exp(), torch.full_like(log_ratio, values["advantage"]).detach())
            (push,) = torch.autograd.grad(objective.sum(), log_ratio)
            objectives.append((name, x, objective.detach().numpy()))
            pushes.append((name, x, push.numpy()))
        return [objectives, pushes]

    def marks(self, **values: float) -> list[float]:
        """At the ratio."""
        return [values["ratio"], values["ratio"]]

    def figure(self, values: dict[str, float]) -> Figure:
        """With the token's two numbers above it."""
        figure = super().figure(values)
        figure.suptitle(f"A = {values['advantage']:g}, r = {values['ratio']:g}", fontsize=11)
        return figure


EXPLORERS: dict[str, ExplorerModel] = {"push": PushExplorer()}
