"""The studies whose tables chapter 09 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
    GSPO,
)
from rlnotes.objectives.gates import Clip, Correction, no_gate
from rlnotes.studies.contest import TASKS, contest, on
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 09: the clip of single tokens against that of whole responses, each with several ranges; then with a sampler
# that differs from pi, where the ratio is to mu, or to pi_k with and without a weight that corrects for mu.
_SIXTEEN_UPDATES = TrainConfig(task="sort", size=8, epochs=4, minibatches=4, learning_rate=3e-4)
_RANGES = {"grpo": ("0.05", "0.1", "0.2"), "gspo": ("4e-4", "0.01", "0.03", "0.1", "0.2")}
STUDIES["09_gspo"] = Study(
    question="Which clip serves 16 updates per rollout better: of tokens or of responses, and with which range?",
    base=_SIXTEEN_UPDATES,
    methods={
        f"{name} {epsilon}": Method(replace(choices, gate=Clip(float(epsilon), float(epsilon))))
        for name, choices in {"grpo": GRPO, "gspo": GSPO}.items()
        for epsilon in _RANGES[name]
    },
    tokens=184_000,
)
_ANCHORS = {
    "to mu": dict(anchor="behavior"),
    "to pi_k": dict(anchor="proximal"),
    "corrected": dict(anchor="proximal", correction=Correction(high=2.0)),
}
_GATED = {"grpo": GRPO, "gspo": replace(GSPO, gate=Clip(0.03, 0.03))}
STUDIES["09_noise"] = Study(
    question="Does a ratio of responses bear a noisy sampler better than ratios of tokens?",
    base=_SIXTEEN_UPDATES,
    methods={
        f"{name} {anchor}": Method(replace(choices, **changes), dict(logit_noise=0.3))
        for anchor, changes in _ANCHORS.items()
        for name, choices in _GATED.items()
    }
    | {f"{name} bfloat16": Method(choices, dict(rollout_weights="bfloat16")) for name, choices in _GATED.items()},
    tokens=184_000,
)

# Contests. Responses of 5, 6, and 17 to 65 tokens: a range that does at one length what 0.2 does for tokens is wider or
# narrower at another.
_WIDTHS = {f"grpo {epsilon}": replace(GRPO, gate=Clip(epsilon, epsilon)) for epsilon in (0.05, 0.5)}
_WIDTHS |= {f"gspo {epsilon}": replace(GSPO, gate=Clip(epsilon, epsilon)) for epsilon in (0.003, 0.01, 0.03, 0.1)}
_WIDTHS["gspo open"] = replace(GSPO, gate=no_gate)
STUDIES["09_ranges"] = contest(
    "Ratios of responses or of tokens, each with its own best range: which learns more, at which length?",
    ("gspo", *_WIDTHS),
    TASKS,
    own=_WIDTHS,
)
_DRIFTING = {
    f"gspo 0.03{what}": replace(GSPO, gate=Clip(0.03, 0.03), **changes)
    for what, changes in {
        "": {},
        " at pi_k": dict(anchor="proximal"),
        " corrected": dict(anchor="proximal", correction=Correction(high=2.0)),
    }.items()
}
STUDIES["09_drift"] = contest(
    "Behind a copy of four bits the ratio of a response drifts with its length: does its clip still serve?",
    ("gspo", *_DRIFTING),
    {f"{task} int4": on(task, rollout_weights="int4") for task in ("misled", "ledger")},
    own=_DRIFTING,
)
# A mixture of experts: an update that sends a token to another expert makes its ratio jump. Replayed, it cannot.
STUDIES["09_experts"] = contest(
    "On a mixture of experts ratios jump: are those of responses the better ones, with replayed routes and without?",
    ("gspo", "gspo 0.03"),
    {
        "misled experts": on("misled", preset="moe-top1"),
        "misled experts, replayed": on("misled", preset="moe-top1", routing_replay=True),
    },
    own=_WIDTHS,
)
