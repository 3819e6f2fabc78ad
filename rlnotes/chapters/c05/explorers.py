"""The explorers of chapter 05: what a limit on the KL is promised, which is promised most, and what is true."""

import gymnasium
import numpy as np
from scipy.optimize import brentq

from rlnotes.bounds import mdp as bounds
from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import MDP, expected_return, occupancy, softmax
from rlnotes.exact.mdp import values as state_values
from rlnotes.exact.pathologies import two_rooms
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel


class TrustExplorer(ExplorerModel):
    """Natural steps of mean KL delta under TRPO's bound and under that by the mean KL.

    To first order such a step raises the surrogate by sigma sqrt(2 delta) / (1 - gamma), sigma the root mean square of
    the advantage. Only where the advantages have the same spread in every state is delta the largest KL too; elsewhere
    the curve of the maximum is too kind. Advantages are in units of the range of rewards, changes of J in those of the
    range / (1 - gamma).
    """

    script = "trust.js"
    title = "How large a trust region"
    controls = (
        Control("delta", "limit on the KL, log10 δ", -6.0, -1.0, 0.05, -2.0),
        Control("horizon", "horizon 1/(1 − γ), log10", 0.3, 3.0, 0.05, 1.0),
        Control("sigma", "typical advantage σ, over the range of rewards", 0.05, 0.5, 0.05, 0.5),
        Control("peak", "largest advantage ξ, over σ", 1.0, 10.0, 0.5, 2.0),
    )
    panels = (
        Axes("change of J, times 1 − γ", "log10 δ", "(1 − γ) × change / range", (-6, -1), (-0.05, 0.1)),
        Axes("the δ that is promised most", "log10 of the horizon", "log10 δ", (0.3, 3), (-8, 0)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By the closed forms of :mod:`rlnotes.bounds.mdp_closed_forms`."""
        deltas, horizons = np.arange(101) / 20 - 6, np.arange(30, 301) / 100
        gamma = 1 - 10 ** -values["horizon"]
        sigma, largest = values["sigma"], values["sigma"] * values["peak"]
        raised = sigma * np.sqrt(2 * 10**deltas)
        promised = [
            raised - (1 - gamma) * penalty
            for penalty in (
                forms.max_kl(gamma, largest, 10**deltas),
                forms.mean_divergence(gamma, 1.0, 10**deltas),
            )
        ]
        gammas = 1 - 10**-horizons
        best = [  # sigma sqrt(2 delta) - c delta is largest at sigma^2 / (2 c^2); both penalties are linear in the KL
            np.log10(sigma**2 / (2 * ((1 - gammas) * cost) ** 2))
            for cost in (forms.max_kl(gammas, largest, 1.0), forms.mean_divergence(gammas, 1.0, 1.0))
        ]
        names = ("max KL", "mean KL")
        return [
            [*((n, deltas, y) for n, y in zip(names, promised, strict=True)), ("surrogate", deltas, raised)],
            [
                *((n, horizons, y) for n, y in zip(names, best, strict=True)),
                ("your δ", horizons, np.full(len(horizons), values["delta"])),
            ],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the limit, and at the horizon."""
        return [values["delta"], values["horizon"]]


def at_kl(mdp: MDP, logits: np.ndarray, delta: float) -> np.ndarray:
    """New logits (S, A): raised by as many times the advantages as make the mean KL ``delta``."""
    pi = softmax(logits)
    advantages = state_values(mdp, pi).a
    return logits + advantages * brentq(
        lambda beta: bounds.mean_kl(mdp, softmax(logits + beta * advantages), pi) - delta, 0, 1e4, xtol=1e-12
    )


class TruthExplorer(ExactModel):
    """What is true of a step in the direction of the advantages, beside what is promised, from any action alike."""

    title = "What is true of a step of some KL"
    controls = (
        Control("case", "case", 0, 1, 1, 0),
        Control("gamma", "discount γ", 0.5, 0.95, 0.01, 0.9),
        Control("largest", "log10 of the largest KL shown", -5.0, -0.5, 0.1, -2.0),
    )
    panels = (Axes("true and promised change of J", "mean KL (nats)", "change of J", (0, 1)),)

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """Of 40 steps, to the one of the largest KL. The bounds are those of :mod:`rlnotes.bounds.mdp`, all at once."""
        gamma, delta = values["gamma"], 10 ** values["largest"]
        name = ("two rooms", "lake")[int(values["case"])]
        mdp = two_rooms(gamma).mdp if name == "two rooms" else from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma)
        logits = np.zeros(mdp.r.shape)
        pi, end, visited = softmax(logits), at_kl(mdp, logits, delta), occupancy(mdp, softmax(logits))
        news = softmax(np.linspace(0, 1, 41)[:, None, None] * end)
        kl = bounds.state_kl(pi, news)
        mean, largest = kl @ visited, kl.max(-1)
        true = np.array([expected_return(mdp, new) for new in news]) - expected_return(mdp, pi)
        surrogate = (news * state_values(mdp, pi).a).sum(-1) @ visited / (1 - gamma)
        by_mean = surrogate - forms.mean_divergence(gamma, bounds.reward_range(mdp), mean)
        by_max = surrogate - forms.max_kl(gamma, bounds.largest_advantage(mdp, pi), largest)
        changes = {"true": true, "surrogate": surrogate, "mean KL": by_mean, "max KL": by_max}
        top = max(true.max(), 1e-12)
        curves = [(key, mean, change) for key, change in changes.items()]
        text = (
            f"{name}, at a mean KL of {delta:.1e}: true change {true[-1]:.3g}, surrogate {surrogate[-1]:.3g}. "
            f"Promised {by_mean[-1]:.3g} by the mean KL, {by_max[-1]:.3g} by the max KL."
        )
        return text, [Drawn(curves, [], x=(0, delta), y=(-top, 1.3 * top))]


EXPLORERS: dict[str, ExplorerModel] = {"trust": TrustExplorer(), "trust, true": TruthExplorer()}
