"""Explorer of chapter 11: what a cap on the sequence ratio costs in bias, saves in noise, and brings in progress."""

import numpy as np

from rlnotes.exact.slips import REWARDS, Slips
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

OLD = 0.1  # mu's probability of a slip
LEAST = 1e-8  # below it a square is drawn as this: a logarithm of rounding errors would say nothing


class OffPolicyExplorer(ExplorerModel):
    """Exact moments and progress of one response's estimate; T independent tokens, one logit in common."""

    script = "offpolicy.js"
    title = "Bias, variance and progress over the cap"
    controls = (
        Control("reward", "reward: 1 no slip, 2 share without slip, 3 odd number of slips", 1.0, 3.0, 1.0, 3.0),
        Control("horizon", "tokens T", 1.0, 20.0, 1.0, 6.0),
        Control("shift", "π's slips less μ's, Δ", -0.05, 0.3, 0.01, 0.1),
        Control("cap", "log₁₀ of the cap C", -1.0, 3.0, 0.125, 0.25),
        Control("step", "step η", 0.1, 5.0, 0.1, 1.0),
    )
    panels = (
        Axes("bias and noise of one response", "log₁₀ C", "log₁₀ of bias², of variance", (-1, 3)),
        Axes("expected progress of one step", "log₁₀ C", "mean change of J", (-1, 3)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.exact.slips`."""
        reward, new = REWARDS[round(values["reward"]) - 1], OLD + values["shift"]
        case = Slips(reward, int(values["horizon"]), OLD, new)
        fresh = Slips(reward, int(values["horizon"]), new, new)
        x = np.arange(-8, 25) / 8
        capped = [case.sequence_estimates(10**log_cap) for log_cap in x]
        token = case.token_estimates()

        def log(square: float) -> float:
            return float(np.log10(max(square, LEAST)))

        def flat(y: float) -> np.ndarray:
            return np.full_like(x, y)

        found, of_token = [case.moments(estimates) for estimates in capped], case.moments(token)
        spread = [
            ("bias²", x, np.array([log(m.bias**2) for m in found])),
            ("variance", x, np.array([log(m.variance) for m in found])),
            ("tok. bias²", x, flat(log(of_token.bias**2))),
            ("tok. var.", x, flat(log(of_token.variance))),
        ]
        step = values["step"]
        gains = [
            ("Seq-TIS", x, np.array([case.expected_progress(estimates, step) for estimates in capped])),
            ("token", x, flat(case.expected_progress(token, step))),
            ("fresh", x, flat(fresh.expected_progress(fresh.sequence_estimates(), step))),
        ]
        return [spread, gains]

    def marks(self, **values: float) -> list[float]:
        """At the cap."""
        return [values["cap"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"offpolicy": OffPolicyExplorer()}
