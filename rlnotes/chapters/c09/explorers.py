"""The explorer of chapter 09: what length does to a product of ratios and to their geometric mean."""

import numpy as np

from rlnotes.exact.gaussian_ratios import closed_share, root_mean_square
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

TOKEN_EPSILON = 0.2  # of the clip of single tokens, for comparison


class LengthExplorer(ExplorerModel):
    """Length, drift and spread of token log-ratios: sizes of the three ratios, and what each clip closes."""

    script = "length.js"
    helpers = ("normal.js",)
    title = "Ratios of a response of T tokens"
    controls = (
        Control("tokens", "log10 of the length T", 0.0, 4.0, 0.05, 3.0),
        Control("mean", "mean log-ratio of a token", -0.005, 0.005, 0.0001, 0.001),
        Control("spread", "spread of a token's log-ratio", 0.002, 0.3, 0.002, 0.05),
        Control("epsilon", "log10 of the range ε of responses", -4.0, -0.5, 0.05, -3.4),
        Control("sign", "sign of the advantage", -1, 1, 2, 1),
    )
    panels = (
        Axes("size of the logarithm", "log10 of the length T", "log10 of |log ratio|", (0, 4), (-5, 3)),
        Axes("tokens without a gradient", "log10 of the length T", "share", (0, 4), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`root_mean_square` and :func:`closed_share`."""
        x = np.arange(41) / 10
        T, mean, spread = 10**x, values["mean"], values["spread"]
        epsilon, positive = 10 ** values["epsilon"], values["sign"] >= 0
        sizes = (np.log10(root_mean_square(mean, spread, T, level)) for level in ("token", "sequence", "sequence_mean"))
        names = ("token", "product", "geometric mean")
        tokens = closed_share(mean, spread, T, "token", TOKEN_EPSILON, positive)
        responses = closed_share(mean, spread, T, "sequence_mean", epsilon, positive)
        return [
            [(name, x, size) for name, size in zip(names, sizes, strict=True)]
            + [("range ε", x, np.full_like(x, values["epsilon"]))],
            [("clip of tokens, 0.2", x, tokens), ("clip of responses, ε", x, responses)],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the length."""
        return [values["tokens"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"length": LengthExplorer()}
