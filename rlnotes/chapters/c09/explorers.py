"""The explorer of chapter 09: scatter, drift and range of a response's mean log-ratio over its length."""

import numpy as np

from rlnotes.exact.gaussian_ratios import closed_share, law
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

SMALLEST = 1e-6  # drift that is drawn: 0 has no logarithm
LONGEST = 5  # log10 of the length


class LengthExplorer(ExplorerModel):
    """Spread and drift of token log-ratios, and a range: how far log r-bar scatters, and which gates are closed."""

    script = "length.js"
    helpers = ("normal.js",)
    title = "The mean log-ratio of a response of T tokens"
    controls = (
        Control("tokens", "log10 of the length T", 0.0, float(LONGEST), 0.1, 3.0),
        Control("spread", "σ, spread of a token's log-ratio", 0.005, 0.5, 0.005, 0.13),
        Control("mean", "drift, mean log-ratio of a token", -0.02, 0.02, 0.0005, -0.0085),
        Control("epsilon", "log10 of the range ε", -4.0, -0.5, 0.1, -3.4),
    )
    panels = (
        Axes("scatter, drift, range", "log10 of the length T", "log10 of each", (0, LONGEST), (-5, 0)),
        Axes("closed gates", "log10 of the length T", "share of responses", (0, LONGEST), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`law` and :func:`closed_share`."""
        x = np.arange(10 * LONGEST + 1) / 10
        mean, spread, epsilon = values["mean"], values["spread"], 10 ** values["epsilon"]
        scatter = np.log10(law(mean, spread, 10**x, "sequence_mean").spread)
        sizes = {"scatter, σ/√T": scatter, "drift": np.full_like(x, np.log10(max(abs(mean), SMALLEST)))}
        sizes["range ε"] = np.full_like(x, values["epsilon"])
        shares = {
            label: closed_share(mean, spread, 10**x, "sequence_mean", epsilon, positive)
            for label, positive in (("wrong (A < 0)", False), ("right (A > 0)", True))
        }
        return [[(label, x, y) for label, y in panel.items()] for panel in (sizes, shares)]

    def marks(self, **values: float) -> list[float]:
        """At the length."""
        return [values["tokens"]] * 2

    def alt(self, values: dict[str, float]) -> str:
        """With the ends of the curves, and where they cross."""
        (scatter, *_), shares = self.curves(**values)
        cross = 2 * (np.log10(values["spread"]) - values["epsilon"])
        said = [f"{label} from {y[0]:.2f} to {y[-1]:.2f}" for label, _, y in shares]
        return (
            f"{super().alt(values)}. Left, in logarithms to base 10: scatter falls from {scatter[2][0]:.1f} to "
            f"{scatter[2][-1]:.1f} and crosses the range, {values['epsilon']:g}, at a length of {cross:.1f}; drift "
            f"{values['mean']:g} is flat. Right, closed gates: {'; '.join(said)}."
        )


EXPLORERS: dict[str, ExplorerModel] = {"length": LengthExplorer()}
