"""Explorer of chapter 14: the error bounds of 001 over the horizon, and when a certificate made of them can fire."""

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

LEAST = -1.0  # no policy can do worse, with rewards in [0, 1]


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


EXPLORERS: dict[str, ExplorerModel] = {"certificate": CertificateExplorer()}
