"""The one registry of methods, by the names that every command and table uses, and of what makes mu differ from pi."""

from dataclasses import replace
from typing import Any

from rlnotes.objectives import DPPO_KL, PG_IS, RECIPES, Choices
from rlnotes.objectives.gates import Cap
from rlnotes.objectives.masks import ClipMask, DivergenceMask
from rlnotes.objectives.one_sided import OneSided, Relaxed


def _mask(delta: float, **changes: Any) -> Choices:
    """004 section 5.3: PG-IS but for the tokens that have moved by more than ``delta`` in probability."""
    anchor = changes.get("anchor", "behavior")
    return replace(PG_IS, keep=OneSided(DivergenceMask(delta, "binary_tv", "token", anchor=anchor), **changes))


CLIP_HIGHER = ClipMask(0.2, 0.28)

# 004's numbers: appendix D.1; sections 5.2, 5.3 and 6; for "C5" appendix F, where the results on large models come
# from. All are PG_IS but for a mask and a cap.
VARIANTS: dict[str, Choices] = {
    "clip_higher": replace(PG_IS, keep=CLIP_HIGHER),
    "wide_clip": replace(PG_IS, keep=ClipMask(0.8, 4.0)),
    "dppo_kl at pi_k": replace(
        PG_IS, keep=OneSided(DivergenceMask(0.05, "binary_kl", "token", anchor="proximal"), "proximal")
    ),
    "dppo_tv at pi_k": _mask(0.15, anchor="proximal"),
    "negative_mask 0.8": _mask(0.8, side="negative"),
    "negative_mask at pi_k": _mask(0.5, side="negative", anchor="proximal"),
    "positive_mask": _mask(0.5, side="positive"),
    "clip_higher C5": replace(PG_IS, gate=Cap(high=5.0), keep=ClipMask(0.2, 0.27)),
    "cispo C5": replace(PG_IS, gate=Cap(high=5.0)),
    "dppo_kl C5": replace(DPPO_KL, gate=Cap(high=5.0)),
    "dppo_tv C5": replace(_mask(0.2), gate=Cap(high=5.0)),
    "relax_high": replace(PG_IS, keep=Relaxed(CLIP_HIGHER, 0.1, "high")),
    "relax_low": replace(PG_IS, keep=Relaxed(CLIP_HIGHER, 0.1, "low")),
}

METHODS: dict[str, Choices] = RECIPES | VARIANTS
"""every recipe, and what the studies vary of it"""

# Changes to the common settings, of the sampler, and of the model where that matters
MISMATCHES: dict[str, dict[str, Any]] = {
    "none": {},
    "bfloat16": dict(rollout_weights="bfloat16"),
    "float8": dict(rollout_weights="float8"),
    "int8": dict(rollout_weights="int8"),
    "int4": dict(rollout_weights="int4"),
    "stale": dict(lags=(64,)),
    "experts": dict(preset="moe-top1", rollout_weights="float8"),
    "experts, routes replayed": dict(preset="moe-top1", rollout_weights="float8", routing_replay=True),
    "adapters": dict(lora_rank=8, rollout_weights="int4"),
}
