"""The study whose table chapter 07 shows: eight ways to hold a policy to its reference, or not to.

``rlnotes compare 07_penalties --seeds 10 --workers 16 --out 07_penalties.csv`` makes the table, and goes on after an
interruption.
"""

from dataclasses import replace

from rlnotes.estimators.baselines import leave_one_out
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import PG_IS, KLPenalty
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
RATES = (5e-4, 1e-3, 2e-3, 4e-3)  # that are tried first
LENGTHS = {"misled": 6, "needle": 5}  # tokens of a response, of which the loss is the sum: the norm's clip is as large
STEPS = 64


def _methods(task: str) -> dict[str, Method]:
    """All arms on one task, at all rates. One without a penalty keeps the reference all the same, to be measured."""
    length = LENGTHS[task]
    setting = Setting(dict(task=task, gradient_clip=float(length)), STEPS * 512 * length)
    plain = replace(PG_IS, advantage=leave_one_out)
    named = {
        name: replace(plain, kl=KLPenalty(BETAS[task] if name != UNPENALISED else 0.0, **how))  # type: ignore[arg-type]
        for name, how in ARMS.items()
    }
    found = crossed(named, "task", {task: setting}, widened(RATES))
    return {name: replace(one, price=BETAS[task]) for name, one in found.items()}


STUDIES = {
    "07_penalties": Study(
        question="Which estimate of the KL to the reference, in the reward or in the loss, holds a policy?",
        base=TrainConfig(),  # one update to a rollout of 32 groups of 16
        methods=_methods("misled") | _methods("needle"),
        tokens=STEPS * 512 * max(LENGTHS.values()),
        evaluate_every=4,
        record_every=4,
        tuning_seeds=TUNING_SEEDS,
        metrics=("accuracy", "greedy", "kl_reference", "penalised", "reward"),
        starts=STARTS,
        first=tuple(map(short, RATES)),
        margin=0.02,
        score="penalised",
    )
}
