"""The studies whose tables chapter 07 shows: ways to hold a policy to its reference, and sizes of a group.

``rlnotes compare 07_penalties --seeds 10 --workers 16 --out 07_penalties.csv`` makes the first, and goes on after an
interruption; for the other put ``07_groups``.
"""

from dataclasses import replace

from rlnotes.estimators.baselines import leave_one_out
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import GRPO, PG_IS, KLPenalty
from rlnotes.studies.contest import STARTS, TUNING_SEEDS, widened
from rlnotes.studies.study import Method, Setting, Study, crossed, short

UNPENALISED = "unpenalised"
BETAS = {"misled": 0.2, "needle": 0.06}
"""weight of the penalty: with it the best policy is far from the reference and far from a reward of 1"""
ARMS = {
    UNPENALISED: dict(),
    **{f"{name} in reward": dict(estimator=name, where="reward") for name in ("k1", "k2", "k3")},
    **{f"{name} in loss": dict(estimator=name) for name in ("k1", "k2", "k3")},
    "k3 x ratio in loss": dict(estimator="k3", weighted=True),
}
TWICE = "k3 x ratio in loss"
"""with one update to a rollout it has the gradient of ``k2 in loss``, sample by sample: no arm of its own"""
RATES = (5e-4, 1e-3, 2e-3, 4e-3)  # that are tried first
LENGTHS = {"misled": 6, "needle": 5}  # tokens of a response
STEPS = 64
RESPONSES = 512  # of a step
SIZES = (2, 4, 8, 16, 32, 64)  # of a group


def _penalties(task: str) -> dict[str, Method]:
    """All arms on one task, at all rates. One without a penalty keeps the reference all the same, to be measured. The
    loss is the sum over a response, so the clip of the gradient's norm is as large as that.
    """
    length = LENGTHS[task]
    setting = Setting(dict(task=task, gradient_clip=float(length)), STEPS * RESPONSES * length)
    plain = replace(PG_IS, advantage=leave_one_out)
    named = {
        name: replace(plain, kl=KLPenalty(BETAS[task] if name != UNPENALISED else 0.0, **how))  # type: ignore[arg-type]
        for name, how in ARMS.items()
    }
    found = crossed(named, "task", {task: setting}, widened(RATES))
    return {name: replace(one, price=BETAS[task]) for name, one in found.items()}


def _groups(task: str) -> dict[str, Method]:
    """All sizes of a group on one task, at all rates. A step has equally many responses."""
    found: dict[str, Method] = {}
    for size in SIZES:
        changes = dict(task=task, group_size=size, prompts=RESPONSES // size)
        setting = Setting(changes, STEPS // 2 * RESPONSES * LENGTHS[task])
        found |= crossed({f"grpo, G = {size}": GRPO}, "task", {task: setting}, widened(RATES))
    return found


def _study(question: str, methods: dict[str, Method], steps: int, *metrics: str, score: str = "accuracy") -> Study:
    """On the terms of the course; one update to a rollout of 512 responses."""
    return Study(
        question,
        TrainConfig(),
        methods,
        tokens=steps * RESPONSES * max(LENGTHS.values()),
        evaluate_every=4,
        record_every=4,
        tuning_seeds=TUNING_SEEDS,
        metrics=("accuracy", "greedy", "reward", *metrics),
        starts=STARTS,
        first=tuple(map(short, RATES)),
        margin=0.02,
        score=score,
    )


STUDIES = {
    "07_penalties": _study(
        "Which estimate of the KL to the reference, in the reward or in the loss, holds a policy?",
        _penalties("misled") | _penalties("needle"),
        STEPS,
        *("kl_reference", "penalised"),
        score="penalised",
    ),
    "07_groups": _study(
        "Into groups of which size should 512 responses be divided?",
        _groups("misled") | _groups("needle"),
        STEPS // 2,
        *("wasted_groups", "gradient_norm"),
    ),
}
