"""The studies whose tables chapter 10 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
    SAPO,
)
from rlnotes.objectives.gates import Soft, SoftOneSided, no_gate
from rlnotes.studies.contest import TASKS, contest
from rlnotes.studies.study import Method, Setting, Study

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

# Contests. Two-sided and one-sided gates of three strengths; then on the task that large steps spoil.
_GATES = {
    f"{name} {tau:g}": replace(SAPO, gate=gate(tau, 1.05 * tau))
    for name, gate in {"sapo": Soft, "sapo_one_sided": SoftOneSided}.items()
    for tau in (10.0, 30.0)
}
_SOFTENED = ("sapo", "sapo_one_sided", *_GATES)
STUDIES["10_gates"] = contest(
    "Hard gate or soft: how strong must a soft one be, and on how many sides, to learn as much as the clip?",
    _SOFTENED,
    TASKS,
    own=_GATES,
)
STUDIES["10_gates_sort"] = contest(
    "The same where the likeliest answer is right at the start and large steps do harm: which gates hold?",
    _SOFTENED,
    {"sort": Setting(dict(task="sort", size=8), 138_000)},
    own=_GATES,
    starts=1,
)
