"""The studies whose tables chapter 15 shows, by name."""

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    DPPO_KL,
    DPPO_SYMMETRIC,
    DPPO_TV,
    PG_IS,
    RELAX_BOTH,
)
from rlnotes.studies.contest import TASKS, contest
from rlnotes.studies.methods import METHODS
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 15: a clip and a divergence, each as a mask of PG_IS, so that methods differ in nothing else. On rare tokens
# with 16 updates per rollout, and with one; then on a task without rare tokens that large steps spoil. Two learning
# rates, none chosen afterwards.
_REGIONS = {
    "clip_higher": METHODS["clip_higher"],
    "wide_clip": METHODS["wide_clip"],
    "dppo_tv": DPPO_TV,
    "unmasked": PG_IS,
}
_ONCE = dict(epochs=1, minibatches=1, learning_rate=3e-3)
STUDIES["15_needle"] = Study(
    question="Right tokens are rare at first: a clip of the ratio, a limit on the divergence, or neither?",
    base=TrainConfig(task="needle", size=4, prompts=16, epochs=4, minibatches=4),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("3e-4", "1e-3")
        for name, choices in (_REGIONS | {"relax_both": RELAX_BOTH, "dppo_kl": DPPO_KL}).items()
    }
    | {f"{name} once": Method(_REGIONS[name], _ONCE) for name in ("clip_higher", "dppo_tv")},
    tokens=25_000,
    evaluate_every=1,
)
STUDIES["15_sort"] = Study(
    question="The same masks where no right token is rare and large steps do harm: which of them holds?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4, rollout_weights="bfloat16"),
    methods={
        f"{name} {rate}": Method(choices, dict(learning_rate=float(rate)))
        for rate in ("1e-4", "3e-4")
        for name, choices in (_REGIONS | {"dppo_symmetric": DPPO_SYMMETRIC, "relax_both": RELAX_BOTH}).items()
    },
    tokens=184_000,
    record_every=5,
)

# A contest: the same masks, each at its own best rate, where right tokens are rare and where they are likely but never
# the likeliest.
STUDIES["15_regions"] = contest(
    "Ratio or divergence: which region learns most, and does letting the clip go for rare tokens buy the same?",
    ("wide_clip", "relax_high", "relax_low", "relax_both", "dppo_tv", "dppo_kl"),
    {"needle": TASKS["needle"], "misled": TASKS["misled"]},
    clipped="clip_higher",
)
