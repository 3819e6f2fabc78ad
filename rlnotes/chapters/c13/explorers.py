"""Explorer of chapter 13: three clips of one token from old data, on one axis."""

from typing import get_args

import numpy as np

from rlnotes.exact.constrained_update import Mechanism, clip_band, clipped_term
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

NAMES = dict(zip(get_args(Mechanism), ("PPO", "Method 1", "Method 2"), strict=True))


class StaleClipExplorer(ExplorerModel):
    """Term and push of a token over rho_{k+1}, for the three clips of 000 section 7.2 and for none."""

    script = "stale.js"
    title = "Three clips of an old token"
    controls = (
        Control("sign", "sign of the advantage", -1.0, 1.0, 2.0, 1.0),
        Control("current", "ratio before the update, ρ_k = π_k/μ", 0.05, 4.0, 0.05, 2.0),
        Control("ratio", "ratio now, ρ_k+1 = π/μ", 0.05, 5.0, 0.05, 2.25),
        Control("epsilon", "clip range ε", 0.05, 0.5, 0.01, 0.2),
        Control("rarity", "log10 of μ, the token's probability when it was sampled", -6.0, -1.0, 0.5, -3.0),
    )
    panels = (
        Axes("term, for |A| = 1", "ratio ρ_k+1", "term, to be maximised", (0, 5), None),
        Axes("push, for |A| = 1", "ratio ρ_k+1", "derivative by log π", (0, 5), None),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.exact.constrained_update`."""
        ratio, advantage = np.arange(1, 161) / 32, np.array(1.0 if values["sign"] > 0 else -1.0)
        terms, pushes = [], []
        for mechanism, name in NAMES.items():
            band = clip_band(mechanism, np.array(values["current"]), values["epsilon"])
            term, is_open = clipped_term(ratio, advantage, band)
            terms.append((name, ratio, term))
            pushes.append((name, ratio, np.where(is_open, ratio * advantage, 0.0)))
        free = ("unclipped", ratio, ratio * advantage)
        return [[*terms, free], [*pushes, free]]

    def marks(self, **values: float) -> list[float]:
        """At the ratio now."""
        return [values["ratio"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"stale": StaleClipExplorer()}
