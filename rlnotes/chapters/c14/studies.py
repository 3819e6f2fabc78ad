"""The studies whose tables chapter 14 shows, by name."""

from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    GRPO,
    PG_IS,
    TRM,
    TRM_AVG,
    TRM_MAX,
    TRM_ONE_SIDED,
)
from rlnotes.objectives.masks import ClipMask
from rlnotes.studies.contest import contest, on
from rlnotes.studies.study import Method, Study

STUDIES: dict[str, Study] = {}

# Chapter 14: masks of responses, on a mixture of experts whose sampler has float8 or bfloat16 weights, so that routes
# flip. Sixteen updates on each rollout, two learning rates, none chosen afterwards; and the same without mismatch.
_MASKS = {
    "grpo": GRPO,
    "unmasked": PG_IS,
    "clip": replace(PG_IS, keep=ClipMask(0.2, 0.2)),
    "trm": TRM,
    "trm_one_sided": TRM_ONE_SIDED,
    "trm_max": TRM_MAX,
    "trm_avg": TRM_AVG,
}
_COPIES = {
    "float8": tuple(_MASKS),
    "bfloat16": ("grpo", "trm"),
    "float32": ("grpo", "unmasked", "clip", "trm", "trm_one_sided"),
}
STUDIES["14_trm"] = Study(
    question="Does a mask of whole responses help where routes flip, and at which learning rate?",
    base=TrainConfig(task="sort", size=8, preset="moe-top1", epochs=4, minibatches=4),
    methods={
        f"{name}, {copy} {rate}": Method(_MASKS[name], dict(learning_rate=float(rate), rollout_weights=copy))
        for rate in ("1e-4", "3e-4")
        for copy, named in _COPIES.items()
        for name in named
    },
    tokens=184_000,
    record_every=5,
)

# A contest, where a mask can matter: copies of four bits for short and for long responses, and old weights.
STUDIES["14_masks"] = contest(
    "Does a mask of whole responses, or of their tokens, beat no mask where mu is far from pi?",
    ("trm", "trm_one_sided", "trm_max", "trm_avg", "seq_mis", "dppo_tv"),
    {
        "misled int4": on("misled", rollout_weights="int4"),
        "misled lag 64": on("misled", lags=(64,)),
        "ledger int4": on("ledger", rollout_weights="int4"),
    },
    clipped="pg_is clip",
    own={"pg_is clip": replace(PG_IS, keep=ClipMask(0.2, 0.2))},
)
