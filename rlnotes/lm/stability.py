"""The stability laboratory: objectives x mismatches x learning rates x seeds, after 004 appendix D.1, scaled down.

What is kept of its protocol: a set of tasks that the start policy can solve, several updates on each rollout, a sampler
that differs from the trainer all along, one advantage and one aggregation for all, equal sampled tokens. What is small:
a transformer of 0.1 M parameters, responses of 9 tokens, learning rates a hundred times larger. Every objective gets
the same learning rates, and its own is chosen on seeds of which nothing else is reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlnotes.lm.compare import Comparison, Method
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import (
    CISPO,
    DPPO_KL,
    DPPO_TOPK_KL,
    DPPO_TOPK_TV,
    DPPO_TV,
    MINIRL,
    MINIRL_TIS,
    NEGATIVE_MASK,
    PG_IS,
    RECIPES,
    Choices,
)
from rlnotes.objectives.gates import Cap
from rlnotes.objectives.masks import ClipMask, DivergenceMask
from rlnotes.objectives.one_sided import OneSided, Relaxed

TUNING_SEEDS = (100, 101)
RATES = (5e-5, 1e-4, 3e-4)


def _mask(delta: float, **changes: Any) -> Choices:
    """004 section 5.3: PG-IS but for the tokens that have moved by more than ``delta`` in probability."""
    anchor = changes.get("anchor", "behavior")
    return replace(PG_IS, keep=OneSided(DivergenceMask(delta, "binary_tv", "token", anchor=anchor), **changes))


_CLIP_HIGHER = ClipMask(0.2, 0.28)

# The names of 004, and its numbers: appendix D.1; sections 5.2, 5.3 and 6; for "C5" appendix F, where the results on
# large models come from. All are PG-IS but for a mask and a cap.
OBJECTIVES: dict[str, Choices] = {
    "pg-is": PG_IS,
    "pg-tis": CISPO,
    "clip-higher": replace(PG_IS, keep=_CLIP_HIGHER),
    "minirl": MINIRL,
    "minirl-tis": MINIRL_TIS,
    "dppo-kl": DPPO_KL,
    "dppo-tv": DPPO_TV,
    "dppo-topk-kl": DPPO_TOPK_KL,
    "dppo-topk-tv": DPPO_TOPK_TV,
    "dppo-kl at pi_k": replace(
        PG_IS, keep=OneSided(DivergenceMask(0.05, "binary_kl", "token", anchor="proximal"), "proximal")
    ),
    "dppo-tv at pi_k": _mask(0.15, anchor="proximal"),
    "mask 0.5": NEGATIVE_MASK,
    "mask 0.8": _mask(0.8, side="negative"),
    "mask 0.5 at pi_k": _mask(0.5, side="negative", anchor="proximal"),
    "mask 0.5, A > 0": _mask(0.5, side="positive"),
    "clip-higher C5": replace(PG_IS, gate=Cap(high=5.0), keep=ClipMask(0.2, 0.27)),
    "cispo C5": replace(PG_IS, gate=Cap(high=5.0)),
    "dppo-kl C5": replace(DPPO_KL, gate=Cap(high=5.0)),
    "dppo-tv C5": replace(_mask(0.2), gate=Cap(high=5.0)),
    "relax high": replace(PG_IS, keep=Relaxed(_CLIP_HIGHER, 0.1, "high")),
    "relax low": replace(PG_IS, keep=Relaxed(_CLIP_HIGHER, 0.1, "low")),
    "relax both": replace(PG_IS, keep=Relaxed(_CLIP_HIGHER, 0.1, "both")),
}

# What makes mu differ from pi, and the model where that matters: changes to the common settings
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

PROTOCOL = TrainConfig(task="sort", size=8, epochs=4, minibatches=4)


def laboratory(
    objectives: Sequence[str],
    mismatches: Sequence[str],
    rates: Sequence[float] = RATES,
    *,
    question: str = "Which objectives are stable under which mismatch?",
    base: TrainConfig = PROTOCOL,
    tokens: int = 184_000,
    tuning_seeds: tuple[int, ...] = TUNING_SEEDS,
    evaluate_every: int = 8,
    record_every: int = 8,
) -> Comparison:
    """Every objective under every mismatch at every learning rate, as one :class:`Comparison`.

    ``objectives`` are names of ``OBJECTIVES`` or of ``RECIPES``, ``mismatches`` of ``MISMATCHES``. A method of the
    comparison is called ``"dppo-tv, int4 1e-4"``, and its labels are ``objective``, ``rollout`` and ``rate``. Raises
    ``ValueError`` naming a name that is unknown, and an empty or repeated choice.
    """
    named = OBJECTIVES | {name: choices for name, choices in RECIPES.items() if name not in OBJECTIVES}
    asked = (("objectives", objectives, named), ("mismatches", mismatches, MISMATCHES), ("rates", rates, None))
    for what, chosen, known in asked:
        check_choice(what, chosen, known)
    methods = {}
    for mismatch in mismatches:
        for objective in objectives:
            for rate in map(short, rates):
                changes = MISMATCHES[mismatch] | dict(learning_rate=float(rate))
                labels = dict(objective=objective, rollout=mismatch, rate=rate)
                methods[f"{objective}, {mismatch} {rate}"] = Method(named[objective], changes, labels)
    return Comparison(
        question=question,
        base=base,
        methods=methods,
        tokens=tokens,
        evaluate_every=evaluate_every,
        record_every=record_every,
        tuning_seeds=tuning_seeds,
    )


def short(rate: float) -> str:
    """A learning rate as it is written: 0.0003 is 3e-4."""
    return np.format_float_scientific(rate, trim="-", exp_digits=1)


def check_choice(what: str, chosen: Sequence[Any], known: Mapping[str, object] | None) -> None:
    """Raise ``ValueError`` if ``chosen`` is empty, names something twice, or holds what is not in ``known``."""
    if not chosen:
        raise ValueError(f"{what} is empty; name at least one")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"{what} is {tuple(chosen)} and names one twice")
    if unknown := [] if known is None else [name for name in chosen if name not in known]:
        raise ValueError(f"unknown in {what}: {unknown[0]!r}; choose from {', '.join(known or ())}")
