"""The explorers of chapter 04: what a conservative step is promised, which step is promised most, and what is true."""

import gymnasium
import numpy as np

from rlnotes.bounds import cpi
from rlnotes.bounds.mdp import largest_gain
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import expected_return, optimal_policy
from rlnotes.exact.mdp_families import Case, conservative_trap
from rlnotes.exact.pathologies import two_rooms
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel


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


def lake(gamma: float) -> Case:
    """FrozenLake, from any action alike towards its best policy."""
    mdp = from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma)
    return Case(mdp, optimal_policy(mdp)[0], np.full(mdp.r.shape, 1 / mdp.actions))


CASES = {"leap": conservative_trap, "two rooms": two_rooms, "FrozenLake": lake}


class TruthExplorer(ExactModel):
    """What is true of a step on a process, beside what is promised."""

    title = "What is true of a step"
    controls = (
        Control("case", "case", 0, 2, 1, 1),
        Control("gamma", "discount γ", 0.5, 0.95, 0.01, 0.9),
        Control("zoom", "zoom", 0.0, 3.0, 0.1, 0.0),
    )
    panels = (Axes("true and promised change of J", "step α", "change of J", (0, 1)),)

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """J at each step; the surrogate of a step is alpha g, from which the penalties are subtracted."""
        name, make = list(CASES.items())[int(values["case"])]
        mdp, other, old = make(values["gamma"])
        x = np.linspace(0, 10 ** -values["zoom"], 81)
        before = expected_return(mdp, old)
        true = np.array([expected_return(mdp, cpi.step(old, other, alpha)) - before for alpha in x])
        g, gain = cpi.policy_advantage(mdp, old, other), largest_gain(mdp, other, old)
        sharp, loose = (
            x * g - penalty(mdp.gamma, gain, x) for penalty in (cpi.kakade_langford_penalty, cpi.conservative_penalty)
        )
        top = 1.2 * max(np.abs(true).max(), 1e-9)
        best = cpi.kakade_langford_step_size(mdp.gamma, g, gain)
        text = (
            f"{name}: g = {g:.3g}, ε = {gain:.3g}, step promised most {best:.2g}. "
            f"At a step of {x[-1]:.3g}: true change {true[-1]:.3g}, promised {sharp[-1]:.3g} by Theorem 4.6."
        )
        curves = [("true", x, true), ("Theorem 4.6", x, sharp), ("(60)", x, loose)]
        return text, [Drawn(curves, [], x=(0, x[-1]), y=(-top, top))]


EXPLORERS: dict[str, ExplorerModel] = {"step": StepExplorer(), "step, true": TruthExplorer()}
