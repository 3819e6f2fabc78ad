"""Explorer of chapter 16: one sampled token, three policies, and the weight that each objective gives its gradient."""

import numpy as np

from rlnotes.estimators.bucketed import binary_kl, binary_tv
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

LOW, HIGH, CAP, TV, KL, BAD = 0.2, 0.28, 3.0, 0.15, 0.05, 0.5  # 004 appendix D.1 and section 5.3
ODDS = (np.arange(61) - 40) / 10  # log10 of pi / (1 - pi)


def log_prob(odds: np.ndarray) -> np.ndarray:
    """Log-probability of a token with these log10 odds."""
    return -np.log1p(10.0**-odds)


def weights(mu: np.ndarray, at: np.ndarray, pi: np.ndarray, sign: float) -> list[dict[str, np.ndarray]]:
    """M min(r, C) of 004 eq. (23) for log-probabilities (n,) of mu, pi_k and pi: in three groups, by name."""
    ratio = np.exp(pi - mu)

    def clipped(anchor: np.ndarray) -> np.ndarray:
        return np.exp(pi - anchor) > 1 + HIGH if sign > 0 else np.exp(pi - anchor) < 1 - LOW

    def far(anchor: np.ndarray, divergence: np.ndarray, limit: float) -> np.ndarray:
        return (sign * (pi - anchor) > 0) & (divergence > limit)

    def fallen(anchor: np.ndarray) -> np.ndarray:
        return (sign < 0) & (np.exp(anchor) - np.exp(pi) >= BAD)

    nothing = np.zeros(len(pi), dtype=bool)
    dropped = [
        {"PG-IS": nothing, "PG-TIS": nothing, "0.5, μ": fallen(mu), "0.5, π_k": fallen(at)},
        {"clip, μ": clipped(mu), "MiniRL": clipped(at), "MiniRL-TIS": clipped(at)},
        {
            "TV, μ": far(mu, binary_tv(mu, pi), TV),
            "KL, μ": far(mu, binary_kl(mu, pi), KL),
            "TV, π_k": far(at, binary_tv(at, pi), TV),
            "KL, π_k": far(at, binary_kl(at, pi), KL),
        },
    ]
    capped = np.minimum(ratio, CAP)
    return [
        {name: np.where(drop, 0.0, capped if name.endswith("TIS") else ratio) for name, drop in group.items()}
        for group in dropped
    ]


class WeightsExplorer(ExplorerModel):
    """The weight before A grad log pi under eleven objectives, over pi of the sampled token."""

    script = "weights.js"
    title = "One token, three policies, eleven objectives"
    controls = (
        Control("sign", "sign of the advantage", -1.0, 1.0, 2.0, 1.0),
        Control("before", "log10 odds of μ, which sampled the token", -4.0, 2.0, 0.1, -1.0),
        Control("at", "log10 odds of π_k, recomputed before the updates", -4.0, 2.0, 0.1, -0.5),
        Control("now", "log10 odds of π, now", -4.0, 2.0, 0.1, -0.3),
    )
    panels = tuple(
        Axes(title, "log10 odds of π", "lane of each objective", (-4, 2), (-0.2, 5.2))
        for title in (
            "unmasked, a cap of 3, the least mask",
            "the clip of PPO, at μ and at π_k",
            "DPPO, at μ and at π_k",
        )
    )

    def curves(self, **values: float) -> list[Panel]:
        """Weights w as heights w / (1 + w), in lanes one above the other."""
        mu, at = (np.full(len(ODDS), log_prob(np.array(values[name]))) for name in ("before", "at"))
        return [
            [(name, ODDS, i + 0.8 * weight / (1 + weight)) for i, (name, weight) in enumerate(group.items())]
            for group in weights(mu, at, log_prob(ODDS), values["sign"])
        ]

    def marks(self, **values: float) -> list[float]:
        """At pi."""
        return [values["now"]] * len(self.panels)


EXPLORERS: dict[str, ExplorerModel] = {"weights": WeightsExplorer()}
