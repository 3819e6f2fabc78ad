"""The studies whose tables chapter 16 shows, by name."""

from dataclasses import replace

from rlnotes.studies.contest import contest, on
from rlnotes.studies.stability import PROTOCOL, laboratory
from rlnotes.studies.study import Study

STUDIES: dict[str, Study] = {}

# Chapter 16: the stability laboratory. Old weights, a sampler of four bits, and no mismatch; then a mixture of experts
# with and without replay of its routes, and adapters; then rare tokens, with counts of what is clipped.
_UNSTABLE = ("pg_is", "cispo", "clip_higher", "minirl", "minirl_tis", "dppo_kl", "dppo_tv", "dppo_kl at pi_k")
_MINIMAL = ("negative_mask", "negative_mask 0.8", "negative_mask at pi_k", "positive_mask")
_SCALED = ("clip_higher C5", "cispo C5", "dppo_kl C5", "dppo_tv C5")
_RELAXED = ("clip_higher", "relax_high", "relax_low", "relax_both", "pg_is")
_DIVERGENCES = ("dppo_tv", "dppo_topk_tv", "dppo_kl", "dppo_topk_kl")
STUDIES["16_stale"] = laboratory(
    (*_UNSTABLE, *_MINIMAL), ("stale",), question="Behind weights that are 64 updates old: which objectives hold?"
)
STUDIES["16_int4"] = laboratory(
    (*_UNSTABLE, *_MINIMAL), ("int4",), question="Behind a copy of four bits: which objectives hold?"
)
STUDIES["16_none"] = laboratory(
    (*_UNSTABLE[:4], *_UNSTABLE[5:7], *_MINIMAL[:2]), ("none",), question="And if mu is pi, up to the updates?"
)
STUDIES["16_experts"] = laboratory(
    _SCALED,
    ("experts", "experts, routes replayed"),
    (1e-4, 3e-4),
    question="Does DPPO do without replayed routes what the others do with them?",
)
STUDIES["16_adapters"] = laboratory(
    _SCALED, ("adapters",), (3e-4, 1e-3, 3e-3), question="The same with low-rank adapters and larger learning rates?"
)
STUDIES["16_needle"] = laboratory(
    (*_RELAXED, *_DIVERGENCES),
    ("none",),
    (3e-4, 1e-3, 3e-3),
    question="Rare right tokens: which end of the clip is to be let go, and what is clipped?",
    base=replace(PROTOCOL, task="needle", size=4, prompts=16, count_clipped=True),
    tokens=15_360,
    evaluate_every=2,
    record_every=2,
)
STUDIES["16_renamed"] = laboratory(
    (*_RELAXED, *_DIVERGENCES),
    ("none",),
    (1e-4, 3e-4, 1e-3),
    question="Rare and likely tokens in one answer: the same, until the end of a longer run?",
    base=replace(PROTOCOL, task="renamed", size=6, count_clipped=True),
    tokens=108_000,
    evaluate_every=5,
    record_every=5,
)
# The same on a model forty times as large, each seed with a warm start of its own, on one GPU.
STUDIES["16_gpu"] = laboratory(
    ("pg_is", "clip_higher", "minirl", "dppo_tv"),
    ("stale",),
    (3e-5, 1e-4, 3e-4),
    question="Behind old weights, and on a larger model: which objectives hold?",
    base=replace(PROTOCOL, preset="medium", device="cuda"),
)

# A contest of the same objectives at learning rates that are not at an end of a grid, on a task whose greedy answer is
# wrong at the start.
STUDIES["16_contest"] = contest(
    "Behind a copy of four bits, behind old weights, and with neither: which objectives hold at their own rates?",
    (*(name for name in _UNSTABLE if name != "clip_higher"), *_MINIMAL),
    {
        "misled": on("misled"),
        "misled int4": on("misled", rollout_weights="int4"),
        "misled lag 64": on("misled", lags=(64,)),
    },
    clipped="clip_higher",
)
