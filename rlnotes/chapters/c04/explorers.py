"""The explorer of chapter 04: what a conservative step is promised, and which step is promised most."""

import numpy as np

from rlnotes.bounds import cpi
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


class StepExplorer(ExplorerModel):
    """002 eqs. (60) and (61), beside Kakade and Langford's sharper forms.

    Changes of J are multiplied by 1 - gamma, so that they fit one picture for every gamma. The mean gain is (1 - gamma)
    g, at most epsilon in size; epsilon is raised to it where the sliders say otherwise.
    """

    script = "cpi.js"
    title = "How far to step"
    controls = (
        Control("alpha", "step α", 0.0, 0.5, 0.005, 0.1),
        Control("mean", "mean gain where the old policy goes, (1 − γ) g", -1.0, 1.0, 0.05, 0.5),
        Control("epsilon", "largest size of a gain, ε", 0.0, 1.0, 0.05, 1.0),
        Control("gamma", "discount γ", 0.0, 0.95, 0.01, 0.5),
    )
    panels = (
        Axes("promised change of J, times 1 − γ", "step α", "(1 − γ) × change", (0, 0.5), (-0.1, 0.2)),
        Axes("the step that is promised most", "discount γ", "step α", (0, 0.95), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By the closed forms of :mod:`rlnotes.bounds.cpi`."""
        alpha, gammas = np.arange(101) / 200, np.arange(96) / 100
        mean, gamma = values["mean"], values["gamma"]
        gain = max(values["epsilon"], abs(mean))
        promised = [
            alpha * mean - (1 - gamma) * penalty(gamma, gain, alpha)
            for penalty in (cpi.conservative_penalty, cpi.kakade_langford_penalty)
        ]
        best = [
            np.array([size(float(g), mean / (1 - float(g)), gain) for g in gammas])
            for size in (cpi.step_size, cpi.kakade_langford_step_size)
        ]
        names = ("(60)", "Kakade, Langford"), ("(61)", "Kakade, Langford")
        return [
            [("αg", alpha, alpha * mean), *((name, alpha, y) for name, y in zip(names[0], promised, strict=True))],
            [(name, gammas, y) for name, y in zip(names[1], best, strict=True)],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the step, and at the discount."""
        return [values["alpha"], values["gamma"]]


EXPLORERS: dict[str, ExplorerModel] = {"step": StepExplorer()}
