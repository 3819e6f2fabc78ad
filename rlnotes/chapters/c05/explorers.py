"""The explorer of chapter 05: what a limit on the KL is promised, and which limit is promised most."""

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


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


EXPLORERS: dict[str, ExplorerModel] = {"trust": TrustExplorer()}
