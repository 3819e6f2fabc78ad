"""The explorer of chapter 01: how far the target may move before the old responses are worth nothing."""

import numpy as np

from rlnotes.estimators.divergences import chi2, tv
from rlnotes.estimators.importance import expected_effective_sample_size
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel


def _rows(rare: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (..., 2) of behaviour and target: one token has probability ``rare``, then ``shift`` more."""
    old, new = (np.log(np.stack([1 - p, p], axis=-1)) for p in (rare, rare + shift))
    return old, new


class HorizonExplorer(ExplorerModel):
    """Sequences of T alike and independent tokens: effective sample size, and why TV does not tell it."""

    script = "horizon.js"
    title = "How long may a response be?"
    controls = (
        Control("shift", "probability moved, per token", 0.005, 0.4, 0.005, 0.1),
        Control("rare", "probability of that token before", 0.005, 0.5, 0.005, 0.5),
        Control("horizon", "tokens of a response, T", 0, 100, 1, 50),
        Control("samples", "responses, n", 16, 4096, 16, 512),
    )
    panels = (
        Axes("what n responses are worth", "tokens T", "log10 of effective sample size", (0, 100), (-4, 4)),
        Axes("one token, two distances", "probability before", "log10 of the distance", (0, 0.52), (-4, 2)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`chi2`, :func:`tv` and :func:`expected_effective_sample_size`."""
        tokens, p = np.arange(101.0), np.arange(1, 101) / 200
        old, new = _rows(np.array(values["rare"]), values["shift"])
        of_response = (1 + chi2(new, old)) ** tokens - 1
        size = expected_effective_sample_size(int(values["samples"]), of_response)
        old, new = _rows(p, values["shift"])
        return [
            [("whole response", tokens, np.log10(size)), ("one response", tokens, np.zeros_like(tokens))],
            [("χ² of a token", p, np.log10(chi2(new, old))), ("TV of a token", p, np.log10(tv(new, old)))],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the horizon, and at the token's probability."""
        return [values["horizon"], values["rare"]]


EXPLORERS: dict[str, ExplorerModel] = {"horizon": HorizonExplorer()}
