"""Explorer of chapter 11: what each weight keeps of the guaranteed gain, by the size of the batch, and by the cap."""

import json

import numpy as np

from rlnotes.bounds.gradient_ascent import token_moments
from rlnotes.chapters.c11.model import Kept, draw, of_moments, pair, response, token, uncorrected
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

SIZES = np.arange(17) / 4  # log10 of the responses in a batch
CAPS = np.arange(-10, 21) / 10  # log10 of the cap


class WeightsExplorer(ExplorerModel):
    """The model of 27 responses: four weights over the batch, and the one with a cap over the cap."""

    script = "weights.js"
    title = "What a step keeps of the guaranteed gain"
    controls = (
        Control("size", "log₁₀ of the responses in a batch, n", 0, 4, 0.25, 2),
        Control("cap", "log₁₀ of the cap C", -1, 2, 0.1, 0.8),
        Control("spread", "distance of sampler and learner", 0, 1.5, 0.1, 1),
    )
    panels = (
        Axes("four weights, each at its own best step", "log₁₀ n", "kept of the guaranteed gain", (0, 4), (0, 1)),
        Axes("the weight with a cap, at this n", "log₁₀ C", "kept of the guaranteed gain", (-1, 2), (0, 1.02)),
    )

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the model."""
        rewards, logits, more = draw(0)
        flat = [[row for part in own for row in part[0].tolist()] for own in (logits, more)]
        model = dict(rewards=rewards.tolist(), logits=flat[0], more=flat[1])
        return f"const MODEL = {json.dumps(model)};\n{super().compute(values)}"

    def curves(self, **values: float) -> list[Panel]:
        """By the moments of :mod:`rlnotes.bounds.gradient_ascent`."""
        one, n = pair(0, values["spread"]), 10 ** values["size"]
        named = {"uncorrected": uncorrected(one), "token": token(one), "response": response(one)}
        named["with a cap"] = response(one, 10 ** values["cap"])
        moments = {name: token_moments(one.model, one.pi, one.mu, weights) for name, weights in named.items()}
        sizes = [
            (name, SIZES, np.array([of_moments(m, 10**size).share for size in SIZES])) for name, m in moments.items()
        ]
        capped = [of_moments(token_moments(one.model, one.pi, one.mu, response(one, 10**cap)), n) for cap in CAPS]
        labels = ("kept", "left by direction", "left by noise")
        parts = zip(labels, Kept._fields, strict=True)
        return [sizes, [(label, CAPS, np.array([getattr(own, name) for own in capped])) for label, name in parts]]

    def marks(self, **values: float) -> list[float]:
        """At the batch and at the cap."""
        return [values["size"], values["cap"]]

    def alt(self, values: dict[str, float]) -> str:
        """With where each curve begins and ends, and where the capped one is highest."""
        sizes, caps = self.curves(**values)
        ends = ", ".join(f"{name} from {y[0]:.2f} to {y[-1]:.2f}" for name, _, y in sizes)
        (_, x, y), (_, _, direction), (_, _, noise) = caps
        return (
            f"{super().alt(values)}. Kept over the batch, 1 to 10 000 responses: {ends}. Over the cap: kept is "
            f"highest, {y.max():.2f}, at {10 ** x[y.argmax()]:.2g}; left by direction rises from "
            f"{direction[0]:.2f} to {direction[-1]:.2f}, left by noise falls from {noise[0]:.2f} to {noise[-1]:.2f}."
        )


EXPLORERS: dict[str, ExplorerModel] = {"offpolicy": WeightsExplorer()}
