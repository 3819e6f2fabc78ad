"""Explorer of chapter 10: three gates, and where a token ends that is pushed through each of them again and again."""

import numpy as np

from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

EPSILON = 0.2  # of the clip
STEPS, STEP = 100, 0.5
SAMPLED = {1: 0.05, -1: 0.3}  # probability of the token when it was sampled, by the sign of its advantage


class GatesExplorer(ExplorerModel):
    """The gate over the ratio, and the ratio over steps of plain gradient ascent on the mean of one token's term.

    The token has one logit against all others, whose advantage is 0: nobody else pushes.
    """

    script = "gates.js"
    title = "Three gates, and one token"
    controls = (
        Control("tau", "strength τ of the soft gate", 0.5, 30.0, 0.5, 1.0),
        Control("sides", "sides on which it closes", 1, 2, 1, 2),
        Control("sign", "sign of the advantage", -1, 1, 2, -1),
        Control("begin", "ratio at the start", 0.3, 3.0, 0.1, 1.5),
    )
    panels = (
        Axes("gate: what a token's gradient is multiplied by", "ratio r", "gate", (0, 4), (-0.05, 1.1)),
        Axes("ratio of the token, step by step", "step", "ratio r", (0, STEPS)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.objectives.gates` and automatic differentiation."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives.gates import Clip, Gate, Soft, SoftOneSided, no_gate

        sign, tau, x = (1 if values["sign"] > 0 else -1), values["tau"], np.arange(1, 129) / 32
        soft, sampled = (Soft if values["sides"] > 1 else SoftOneSided)(tau, tau), SAMPLED[sign]
        gates: dict[str, Gate] = {"clip": Clip(EPSILON, EPSILON), "soft": soft, "unclipped": no_gate}
        heights = []
        for name, gate in gates.items():
            log_ratio = torch.tensor(np.log(x), requires_grad=True)
            term = gate(log_ratio.exp(), torch.full_like(log_ratio, sign).detach())
            (push,) = torch.autograd.grad(term.sum(), log_ratio)
            heights.append((name, x, push.numpy() / (x * sign)))
        z = torch.full((len(gates),), sampled * values["begin"], dtype=torch.float64).logit()
        A, ratios = torch.full_like(z, sign), []
        for _ in range(STEPS + 1):
            z.requires_grad_()
            r = z.sigmoid() / sampled
            ratios.append(r.detach().numpy())
            terms = [gate(one[None], a[None]) for gate, one, a in zip(gates.values(), r, A, strict=True)]
            (slope,) = torch.autograd.grad(sampled * torch.cat(terms).sum(), z)
            z = (z + STEP * slope).detach()
        paths = np.array(ratios).T
        return [heights, [(name, np.arange(STEPS + 1), path) for name, path in zip(gates, paths, strict=True)]]

    def marks(self, **values: float) -> list[float]:
        """At the ratio of the start, and at the last step."""
        return [values["begin"], STEPS]

    def alt(self, values: dict[str, float]) -> str:
        """With where each path ends."""
        ends = ", ".join(f"{name} {path[-1]:.2f}" for name, _, path in self.curves(**values)[1])
        return f"{super().alt(values)}. Ratio after {STEPS} steps: {ends}."


EXPLORERS: dict[str, ExplorerModel] = {"gates": GatesExplorer()}
