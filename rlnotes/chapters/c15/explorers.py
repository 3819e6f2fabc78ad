"""Explorer of chapter 15: one sampled token, two policies, every divergence and what the masks decide."""

import numpy as np

from rlnotes.estimators.bucketed import binary_tv, topk_tv
from rlnotes.estimators.divergences import log_probs, tv, tv_estimate
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

LOW, HIGH, LIMIT = 0.2, 0.28, 0.15  # the source's clip and its limit on the total variation: 004 appendix D
ODDS = (np.arange(61) - 40) / 10  # log10 of pi / (1 - pi)


def rows(odds: np.ndarray, size: int, shuffle: float) -> np.ndarray:
    """Policies (n, ``size``): the sampled token first, then all others, by Zipf's law and by its mirror image."""
    own = 1 / (1 + 10.0**-odds)
    zipf = 1 / np.arange(1, size)
    rest = ((1 - shuffle) * zipf + shuffle * zipf[::-1]) / zipf.sum()
    return np.concatenate([own[:, None], (1 - own)[:, None] * rest], -1)


class TrustRegionExplorer(ExplorerModel):
    """Divergences of mu and pi over pi of the sampled token, and which mask keeps its gradient."""

    script = "region.js"
    title = "One token, every divergence, every mask"
    controls = (
        Control("sign", "sign of the advantage", -1.0, 1.0, 2.0, 1.0),
        Control("before", "log10 odds of μ, the sampled token's probability", -4.0, 2.0, 0.1, -4.0),
        Control("now", "log10 odds of π", -4.0, 2.0, 0.1, -2.0),
        Control("size", "tokens in the vocabulary", 4.0, 64.0, 4.0, 64.0),
        Control("shuffle", "share of the other tokens' mass that π turns round", 0.0, 1.0, 0.05, 0.0),
        Control("k", "K, tokens told apart by top-K", 1.0, 21.0, 1.0, 21.0),
    )
    panels = (
        Axes(
            "how far apart are μ and π?", "log10 odds of π: -2 is 1 %, 0 is 50 %", "divergence", (-4, 2), (-0.03, 1.03)
        ),
        Axes("is the gradient kept? low: no, high: yes", "log10 odds of π", "lane of each mask", (-4, 2), (-0.2, 5.6)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.estimators.bucketed`; equations (9) and (12) of source 004 for the masks."""
        mu = log_probs(rows(np.full(len(ODDS), values["before"]), int(values["size"]), 0.0))
        pi = log_probs(rows(ODDS, int(values["size"]), values["shuffle"]))
        sampled = np.zeros(len(ODDS), dtype=int)
        own = mu[:, 0], pi[:, 0]
        found = {
            "full TV": tv(mu, pi),
            "top-K TV": topk_tv(mu, pi, sampled, min(int(values["k"]), int(values["size"]))),
            "binary TV": binary_tv(*own),
            "|r - 1| / 2, cut off at 1": np.minimum(tv_estimate(own[1] - own[0]), 1),
        }
        up, ratio = values["before"] < ODDS, np.exp(own[1] - own[0])
        away, clipped = (up, ratio > 1 + HIGH) if values["sign"] > 0 else (values["before"] > ODDS, ratio < 1 - LOW)
        dropped = {f"DPPO, {name}": away & (found[name] > LIMIT) for name in list(found)[:3]}
        lanes = {"clip of r": clipped} | dict(reversed(dropped.items()))
        panels = [[(name, ODDS, y) for name, y in found.items()]]
        return [*panels, [(name, ODDS, i + np.where(cut, 0.1, 0.7)) for i, (name, cut) in enumerate(lanes.items())]]

    def marks(self, **values: float) -> list[float]:
        """At pi."""
        return [values["now"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"region": TrustRegionExplorer()}
