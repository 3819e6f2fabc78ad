"""The studies whose tables chapter 10 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
    SAPO,
)
from rlnotes.objectives.gates import Soft, no_gate
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 10: sixteen updates on each rollout. Three learning rates and two temperatures, none chosen afterwards.
_SOFT = {
    "grpo": GRPO,
    "no gate": replace(GRPO, gate=no_gate),
    "sapo": SAPO,
    "sapo-10": replace(SAPO, gate=Soft(10.0, 10.5)),
}
STUDIES["10_sapo"] = Study(
    question="Does a soft gate learn faster than the clip, or survive more, when a rollout serves 16 updates?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("3e-5", "1e-4", "3e-4")
        for name, choices in _SOFT.items()
    },
    tokens=138_000,
)
