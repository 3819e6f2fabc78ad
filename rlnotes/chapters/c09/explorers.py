"""The explorer of chapter 09: how far the log-ratio of a response scatters, beside the range of its clip."""

import numpy as np

from rlnotes.exact.gaussian_ratios import closed_share, law
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

FARTHEST = 4  # scatters that the bell shows
LONGEST = 4  # log10 of the length


class LengthExplorer(ExplorerModel):
    """Length of a response, spread of a token's log-ratio, and a range: the bell of log r-bar, and closed gates."""

    script = "length.js"
    helpers = ("normal.js",)
    title = "The log-ratio of a response, and the range of its clip"
    controls = (
        Control("tokens", "T, tokens of a response", 1.0, 4000.0, 1.0, 1000.0),
        Control("sigma", "σ, spread of a token's log-ratio", 0.01, 0.5, 0.01, 0.15),
        Control("epsilon", "ε, the range", 0.0001, 0.25, 0.0001, 0.2),
    )
    panels = (
        Axes("the bell and the range", "log r̄ of a response", "density, top at 1", (-0.3, 0.3), (0, 1.05), filled=(1,)),
        Axes("gates that close, at this σ and ε", "log10 of T", "of right responses, closed", (0, LONGEST), (0, 0.5)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`law` and :func:`closed_share`, without a drift."""
        tokens, sigma, epsilon = values["tokens"], values["sigma"], values["epsilon"]
        u, x = np.arange(-10 * FARTHEST, 10 * FARTHEST + 1) / 10, np.arange(10 * LONGEST + 1) / 10
        low, high = np.log1p([-epsilon, epsilon])
        bell = ("log r̄", float(law(0.0, sigma, tokens, "sequence_mean").spread) * u, np.exp(-(u**2) / 2))
        gate = ("inside the range", np.array([low, low, high, high]), np.array([0.0, 1.0, 1.0, 0.0]))
        share = closed_share(0.0, sigma, 10**x, "sequence_mean", epsilon, positive=True)
        return [[bell, gate], [("closed", x, share)]]

    def marks(self, **values: float) -> list[float]:
        """At a ratio of 1, and at the length."""
        return [0.0, float(np.log10(values["tokens"]))]

    def alt(self, values: dict[str, float]) -> str:
        """With the scatter, and where the gates close."""
        scatter, (_, ((_, x, share),)) = values["sigma"] / values["tokens"] ** 0.5, self.curves(**values)
        return (
            f"{super().alt(values)}. Left, a bell around 0 with a scatter of {scatter:.4f}, and a band of "
            f"{values['epsilon']:g} to both sides. Right, closed gates: {share[0]:.2f} at one token, "
            f"{np.interp(1, x, share):.2f} at ten, {np.interp(np.log10(values['tokens']), x, share):.2f} at T."
        )


EXPLORERS: dict[str, ExplorerModel] = {"length": LengthExplorer()}
