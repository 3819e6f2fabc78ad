"""Explorer of chapter 10: the gates of four methods on one axis, and how hard a token pushes behind each."""

import numpy as np

from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

CAP = 3.0  # of CISPO


class GatesExplorer(ExplorerModel):
    """What stands before r A, and the push: PPO's clip, SAPO's soft gate, CISPO's cap, GSPO's clip.

    GSPO's ratio is that of the response; here all tokens of the response have the ratio r.
    """

    script = "gates.js"
    title = "The gates of four methods"
    controls = (
        Control("sign", "sign of the advantage", -1.0, 1.0, 2.0, -1.0),
        Control("ratio", "ratio r", 0.05, 4.0, 0.05, 3.0),
        Control("epsilon", "PPO's clip range ε", 0.05, 0.4, 0.01, 0.2),
        Control("tau", "SAPO's temperature τ", 0.5, 12.0, 0.1, 1.0),
    )
    panels = (
        Axes("gate: what r A is multiplied by", "ratio r", "gate", (0, 4), (-0.05, 1.1)),
        Axes("push, for |A| = 1", "ratio r", "derivative by log π", (0, 4), (-4, 4)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.objectives.gates` and automatic differentiation."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives import GSPO
        from rlnotes.objectives.gates import Cap, Clip, Soft

        advantage, x = 1.0 if values["sign"] > 0 else -1.0, np.arange(1, 129) / 32
        epsilon, tau = values["epsilon"], values["tau"]
        gates = {"PPO": Clip(epsilon, epsilon), "SAPO": Soft(tau, tau), "CISPO": Cap(high=CAP), "GSPO": GSPO.gate}
        heights, pushes = [], []
        for name, gate in gates.items():
            log_ratio = torch.tensor(np.log(x), requires_grad=True)
            term = gate(log_ratio.exp(), torch.full_like(log_ratio, advantage).detach())
            (push,) = torch.autograd.grad(term.sum(), log_ratio)
            heights.append((name, x, push.numpy() / (x * advantage)))
            pushes.append((name, x, push.numpy()))
        return [heights, pushes]

    def marks(self, **values: float) -> list[float]:
        """At the ratio."""
        return [values["ratio"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"gates": GatesExplorer()}
