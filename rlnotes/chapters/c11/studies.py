"""The studies whose tables chapter 11 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    PG_IS,
    SEQ_TIS,
    SEQUENCE_IS,
)
from rlnotes.objectives.masks import ClipMask
from rlnotes.studies.contest import COLUMNS, contest, on
from rlnotes.studies.methods import METHODS
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 11: importance sampling by token, by response, and by response with a cap, behind samplers of few bits. Two
# learning rates, none chosen afterwards; at the larger one also a sampler without mismatch. Then the same with one
# update per rollout.
_CORRECTED = {"pg_is": PG_IS, "sequence_is": SEQUENCE_IS, "seq_tis": SEQ_TIS}
_SAMPLERS = {"1e-4": ("int8", "int4"), "3e-4": ("float32", "int8", "int4")}
STUDIES["11_int8"] = Study(
    question="Behind a quantised sampler and with 16 updates per rollout: ratios of tokens, of responses, or a cap?",
    base=TrainConfig(task="sort", size=8, epochs=4, minibatches=4, measure_shift=True),
    methods={
        f"{name} {sampler} {rate}": Method(choices, dict(learning_rate=float(rate), rollout_weights=sampler))
        for rate, samplers in _SAMPLERS.items()
        for sampler in samplers
        for name, choices in _CORRECTED.items()
    },
    tokens=82_500,
    evaluate_every=3,
)
STUDIES["11_once"] = Study(
    question="With one update per rollout, so that the quantised sampler is the only mismatch: does a correction pay?",
    base=TrainConfig(task="sort", size=8, learning_rate=5e-4, measure_shift=True),
    methods={
        f"{name} {sampler}": Method(choices, dict(rollout_weights=sampler))
        for sampler, named in {
            "float32": ("none",),
            "int8": ("none", "pg_is"),
            "int4": ("none", "pg_is", "sequence_is", "seq_tis"),
        }.items()
        for name, choices in ({"none": replace(PG_IS, anchor="current")} | _CORRECTED).items()
        if name in named
    },
    tokens=184_000,
)

# A contest. Weights by token, by response, truncated, and none, each with the clip of single tokens and without: behind
# copies of few bits, and behind weights that are four rollouts old.
_UNCORRECTED = replace(PG_IS, anchor="current")
_WEIGHTS = ("sequence_is", "token_tis", "seq_tis")
_CLIP = ClipMask(0.2, 0.2)
_CLIPPED = {f"{name} clip": replace(METHODS[name], keep=_CLIP) for name in ("pg_is", *_WEIGHTS)}
_CLIPPED |= {"uncorrected": _UNCORRECTED, "uncorrected clip": replace(_UNCORRECTED, keep=_CLIP)}
STUDIES["11_corrections"] = contest(
    "Bias or variance: which weight learns most where mu is not pi, and does it still matter behind a clip?",
    (*_WEIGHTS, *(name for name in _CLIPPED if name != "pg_is clip")),
    {
        "misled int4": on("misled", rollout_weights="int4"),
        "misled lag 64": on("misled", lags=(64,)),
        "ledger int8": on("ledger", rollout_weights="int8"),
    },
    clipped="pg_is clip",
    own=_CLIPPED,
    columns=(*COLUMNS, "ess_sequence"),
)
