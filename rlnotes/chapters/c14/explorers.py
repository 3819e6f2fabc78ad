"""The explorers of chapter 14: what is promised of coins, and a ceiling on the certificates of 001."""

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.chapters.c14.coins import promises
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

LEAST = -1.0  # no policy can do worse, with rewards in [0, 1]
CUT = -0.3  # lower ends of the promises in the main picture
STEPS, LENGTHS = np.arange(41) / 200, np.arange(1, 13)  # D_seq; log2 of T


class PromisedExplorer(ExplorerModel):
    """Left over the step, right over the length: the true change of the coins' J, and what is promised of it."""

    script = "promised.js"
    title = "Promised and true change"
    controls = (
        Control("horizon", "log₂ of the length T", 1, 12, 1, 3),
        Control("step", "step: D_seq, nats a response", 0.0, 0.2, 0.005, 0.02),
    )
    panels = (
        Axes("at this length: over the step", "D_seq of the step", "change of J", (0, 0.2), (CUT, 0.3)),
        Axes("at this step: over the length", "log₂ of T", "change of J", (1, 12), (CUT, 0.3)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`rlnotes.chapters.c14.coins.promises`, cut off below."""
        left, right = promises(2 ** values["horizon"], STEPS), promises(2.0**LENGTHS, values["step"])
        return [
            [(name, xs, np.maximum(ys, CUT)) for name, ys in found.items()]
            for xs, found in ((STEPS, left), (LENGTHS, right))
        ]

    def marks(self, **values: float) -> list[float]:
        """At the step, and at the length."""
        return [values["step"], values["horizon"]]

    def alt(self, values: dict[str, float]) -> str:
        """With the ends and the highest place of each curve."""
        left, right = self.curves(**values)
        over = [f"{name}: highest {y.max():.2f} at {x[y.argmax()]:.2f}, {y[-1]:.2f} at the end" for name, x, y in left]
        along = [f"{name} from {y[0]:.2f} to {y[-1]:.2f}" for name, _, y in right]
        return (
            f"{super().alt(values)}. Left, D_seq 0 to 0.2: {'; '.join(over)}. Right, 2 to 4096 tokens: "
            f"{'; '.join(along)}. Cut off at {CUT}."
        )


class CertificateExplorer(ExplorerModel):
    """Left: log10 of each bound over log2 T. Right: a ceiling on L less the bound, over log10 of D_max."""

    script = "certificate.js"
    title = "When can the certificate fire?"
    controls = (
        Control("horizon", "log2 of the horizon T", 1.0, 14.0, 1.0, 12.0),
        Control("kl", "log10 of D_max, the largest KL of a context", -10.0, -1.0, 0.1, -4.0),
        Control("share", "log10 of D_seq / (T D_max); 0: all contexts alike", -4.0, 0.0, 0.1, 0.0),
    )
    panels = (
        Axes("bounds on |Error|; 0 is the largest change", "log2 of T", "log10 of the bound", (1, 14)),
        Axes(
            "ceiling on L − bound: above 0, not excluded",
            "log10 of D_max",
            "ceiling, cut off at −1",
            (-10, -1),
            (-1, 1),
        ),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.bounds.token_closed_forms`."""
        x, y = 1 + np.arange(53) / 4, np.arange(91) / 10 - 10
        horizon, share = 2.0 ** values["horizon"], 10 ** values["share"]
        over_t, over_kl = (2.0**x, np.full(53, 10 ** values["kl"])), (np.full(91, horizon), 10**y)
        bounds = self._bounds(*over_t, share)
        left: Panel = [(name, x, np.log10(bound)) for name, bound in bounds.items()]
        bounds = self._bounds(*over_kl, share)
        highest = forms.surrogate_limit(bounds["D_seq"])
        return [left, [(name, y, np.maximum(highest - bound, LEAST)) for name, bound in bounds.items()]]

    def _bounds(self, horizon: np.ndarray, kl: np.ndarray, share: float) -> dict[str, np.ndarray]:
        kl_seq = share * forms.uniform_kl(horizon, kl)
        return {
            "chain": forms.kl_chain(horizon, kl),
            "Pinsker-m.": forms.pinsker_marginal(horizon, kl),
            "mixed": forms.mixed(horizon, kl, kl_seq),
            "D_seq": kl_seq,
        }

    def marks(self, **values: float) -> list[float]:
        """At T, and at D_max."""
        return [values["horizon"], values["kl"]]


EXPLORERS: dict[str, ExplorerModel] = {"promised": PromisedExplorer(), "certificate": CertificateExplorer()}
