"""Explorers of chapter 18: the curve of the real model; what bounds and masks make of a measured tail of ratios."""

import json

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.exact import lognormal_ratios as ratios
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.studies.real_rows import curves

CLIP = 0.8, 1.28  # chapter 16's, and the limits of RECIPES["dppo_tv"] and RECIPES["trm_max"]
DPPO, TRM = 0.15, 0.5


class RealExplorer(ExplorerModel):
    """Shares of right answers over the seconds, the mean of the seeds."""

    script = "real.js"
    title = "A real model learns to answer sums"
    controls = (Control("seconds", "seconds of training", 0, 28, 1, 24),)
    panels = (
        Axes("sums answered right", "seconds of steps on one H200", "share of 512 held-out sums", (0, 28), (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """From the rows that are stored."""
        runs = [np.array(run) for run in curves().values()]
        seconds, sampled, greedy = np.mean(runs, axis=0).T
        return [[("sampled", seconds, sampled), ("greedy", seconds, greedy)]]

    def marks(self, **values: float) -> list[float]:
        """At the seconds."""
        return [values["seconds"]]

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the rows before it."""
        panels = [[(label, x.tolist(), y.tolist()) for label, x, y in panel] for panel in self.curves()]
        return f"const PANELS = {json.dumps(panels)};\n{super().compute(values)}"

    def alt(self, values: dict[str, float]) -> str:
        """With the start, the turn and the end."""
        (_, x, y), (_, _, greedy) = self.curves()[0]
        half = np.interp(0.5, y, x)
        return (
            f"{super().alt(values)}. Sampled from {y[0]:.2f} to {y[-1]:.2f}, greedy from {greedy[0]:.2f} to "
            f"{greedy[-1]:.2f}, in {x[-1]:.0f} seconds; sampled is 0.50 after {half:.0f} seconds, then flatter."
        )


class MeasuredExplorer(ExplorerModel):
    """Left: log10 of penalties over log2 T. Right: shares that masks drop, over log10 of the tail."""

    script = "measured.js"
    helpers = ("normal.js",)
    title = "What do my measurements allow?"
    controls = (
        Control("tail", "log10 of |log ratio| that one token in 1000 exceeds", -3.0, 0.5, 0.1, -1.3),
        Control("length", "log2 of the length T", 1.0, 14.0, 1.0, 12.0),
        Control("likely", "μ of the token that DPPO looks at", 0.05, 0.6, 0.05, 0.5),
    )
    panels = (
        Axes("penalties; 0 is the largest change", "log2 of T", "log10 of the penalty", (1, 14)),
        Axes("who is dropped? tokens; by TRM responses", "log10 of the tail", "share", (-3, 0.5), (-0.03, 1.03)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.bounds.token_closed_forms` and :mod:`rlnotes.exact.lognormal_ratios`."""
        x, y = 1 + np.arange(53) / 4, np.arange(36) / 10 - 3
        length, spread = 2.0**x, ratios.spread_of(10 ** values["tail"])
        tv, kl = ratios.tv(spread), ratios.kl(spread)
        penalties = {
            "004": forms.quadratic(length, tv, 0.5),
            "001": forms.halved(forms.pinsker_marginal(length, kl)),
            "sum of TV": length * tv,
            "D_seq": forms.uniform_kl(length, kl),
        }
        left: Panel = [(name, x, np.log10(penalty)) for name, penalty in penalties.items()]
        dropped = self._dropped(10**y, 2.0 ** values["length"], values["likely"])
        return [left, [(name, y, share) for name, share in dropped.items()]]

    def _dropped(self, tail: np.ndarray, tokens: float, likely: float) -> dict[str, np.ndarray]:
        """Tokens whose advantage is of either sign equally often, and whole responses."""
        spread = ratios.spread_of(tail)
        edge = DPPO / likely
        out = ratios.above(spread, np.exp(TRM)) + ratios.below(spread, np.exp(-TRM))
        return {
            "clip": (ratios.above(spread, CLIP[1]) + ratios.below(spread, CLIP[0])) / 2,
            "DPPO": (ratios.above(spread, 1 + edge) + ratios.below(spread, 1 - edge)) / 2,
            "TRM max": ratios.some_of(out, tokens),
        }

    def marks(self, **values: float) -> list[float]:
        """At T, and at the tail."""
        return [values["length"], values["tail"]]


EXPLORERS: dict[str, ExplorerModel] = {"real": RealExplorer(), "measured": MeasuredExplorer()}
