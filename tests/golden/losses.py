"""Our choices for the loss of each peer."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from rlnotes.objectives import (
    CISPO,
    DAPO,
    DR_GRPO,
    GRPO,
    GSPO,
    METHOD_2,
    MINIRL_TIS,
    PG_IS,
    PPO_CLIP,
    SAPO,
    SEQ_TIS,
    STALE_PPO,
    TOKEN_TIS,
    Choices,
    KLPenalty,
)
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.batch import Past
from rlnotes.objectives.gates import Cap, Clip, Correction, Soft
from rlnotes.objectives.masks import ClipMask, DivergenceMask, Every, Mask, Measure, MismatchBand, OffPolicyMask
from rlnotes.objectives.one_sided import OneSided
from rlnotes.objectives.ratios import sequence, sequence_mean
from rlnotes.objectives.rows import RowDivergence

Whole = Literal["responses", "tokens"]


@dataclass(frozen=True)
class Loss:
    """Our choices for a peer's loss, and what stands between the two outside of the loss.

    ``divide``: the peer leaves this division to its caller, so its number is divided before it is compared.
    ``behavior``: the array that plays mu where nothing else says so. The libraries compare with ``old_logp``.
    ``max_length``, ``tokens``: T_max and the token count of the whole batch, where the peer is told them.
    ``parts``: the sizes of the micro-batches that the peer accumulates over.
    ``value``: ``"score"`` where the peer writes -sg(weight) A log pi, which has our gradient and the value
    <gradient, log pi>.
    ``loss_atol``: for the loss, in which responses of both signs cancel; ``atol`` is for the gradient, where nothing
    does.
    """

    choices: Choices
    divide: Whole | float = 1.0
    behavior: str = "old_logp"
    max_length: int | None = None
    tokens: int | None = None
    parts: tuple[int, ...] = ()
    value: Literal["objective", "score"] = "objective"
    rtol: float = 1e-6
    atol: float = 1e-12
    loss_atol: float = 1e-12


def to(**change: Any) -> Callable[[Loss], Loss]:
    """A mutation: other choices."""
    return lambda loss: replace(loss, choices=replace(loss.choices, **change))


def clip(low: float = 0.2, high: float = 0.2, dual: float | None = None) -> Choices:
    """PPO's clip, mean over the tokens of the batch."""
    return replace(PPO_CLIP, gate=Clip(low, high, dual))


def corrected(base: Choices, correction: Correction) -> Choices:
    """``base``, anchored on the recomputed log-probabilities, times a weight for the sampler's mismatch."""
    return replace(base, anchor="proximal", correction=correction)


def gspo(low: float, high: float) -> Choices:
    return replace(GRPO, ratio=sequence_mean, gate=Clip(low, high))


def with_k3(base: Choices, weighted: bool = False) -> Choices:
    return replace(base, kl=KLPenalty(0.04, "k3", weighted))


def capped(high: float, low: float = 0.0) -> Choices:
    """CISPO, mean over the tokens of the batch."""
    return replace(CISPO, gate=Cap(low=low, high=high), aggregation=token_mean)


def clip_masked(cap: float) -> Choices:
    """PPO's clip as a mask, before a capped weight."""
    return replace(capped(cap), keep=ClipMask(0.2, 0.28))


def vespo_gate(ratio: Tensor, advantages: Tensor) -> Tensor:
    """TRL's VESPO: a weight e^c w^k e^(-c w) without a gradient of its own, on the ratio of the whole response."""
    k, c = (torch.where(advantages < 0, x, y).to(ratio) for x, y in ((3.0, 2.0), (2.0, 3.0)))
    w = ratio.detach().clamp(1e-8, math.exp(20))
    return w**k * (c - c * w).exp() / ratio.detach() * ratio * advantages


def token_mean_of_responses(mask: Tensor, totals: Totals) -> Tensor:
    """``token_mean`` for a response's own ratio, whose gradient is the sum over its tokens at each of its tokens."""
    return mask / mask.sum(-1, keepdim=True) / totals.tokens


def trm(keep: Mask, divide_by: Literal["all", "kept"] = "all") -> Loss:
    """Trust region masking of verl's parts: its weight is pi / mu, of tokens and without a bound."""
    return Loss(replace(PG_IS, keep=keep, divide_by=divide_by), behavior="rollout_logp", value="score")


TV, KL, TOPK_TV, TOPK_KL = "binary_tv", "binary_kl", RowDivergence("tv", 4), RowDivergence("kl", 4)


def dppo(measure: Measure | RowDivergence, cap: float, anchor: Past = "behavior") -> Choices:
    """DPPO before a capped weight, mean over the tokens of the batch. TV of at most 0.15, KL of at most 0.05."""
    high = 0.15 if measure in (TV, TOPK_TV) else 0.05
    return replace(capped(cap), keep=OneSided(DivergenceMask(high, measure, "token", anchor=anchor), anchor))


def dppo_stable_rl(measure: Measure, cap: float, anchor: Past = "behavior") -> Loss:
    return Loss(dppo(measure, cap, anchor), behavior="rollout_logp", value="score")


def summed(loss: Loss) -> Loss:
    """Over T_max = 64. Stable-RL leaves the division by the responses out, verl does not."""
    return replace(loss, choices=replace(loss.choices, aggregation=constant), max_length=64)


# max of |log ratio| <= 0.5, as x^2 / 2; mean of k3 <= 0.02; both
TRM: dict[str, Mask] = {"max": DivergenceMask(0.125, "k2", "max"), "avg": DivergenceMask(0.02, "k3", "mean")}
TRM["both"] = Every((TRM["max"], TRM["avg"]))

OFF = 1e4  # verl cannot switch its dual clip off; its users set c so high that it does nothing
DUAL3 = Clip(0.2, 0.2, dual=3.0)
# verl and OpenRLHF divide by a response's length + 1e-8, which takes up to 1e-8 of a response's mean away
LENGTH_EPS = 1e-8

LOSSES: dict[str, Loss] = {
    # verl: the dual clip is always on. Its five aggregations are ours, but for a factor.
    "verl/vanilla_default": Loss(clip(dual=3.0)),
    "verl/vanilla_dapo": Loss(replace(DAPO, gate=Clip(0.2, 0.28, dual=10.0))),
    "verl/vanilla_grpo_seqmean": Loss(replace(GRPO, gate=Clip(dual=OFF)), loss_atol=LENGTH_EPS),
    "verl/vanilla_drgrpo": Loss(replace(DR_GRPO, gate=Clip(dual=OFF)), max_length=64),
    "verl/vanilla_seqsum": Loss(replace(PPO_CLIP, gate=DUAL3, aggregation=response_sum)),
    "verl/vanilla_tokensum": Loss(clip(dual=3.0), divide="tokens"),
    # a part of a batch of 1000 tokens; times 2 because a mean over 2 data-parallel ranks follows
    "verl/vanilla_globaltokens": Loss(clip(dual=3.0), divide=2.0, tokens=1000),
    "verl/gspo_paper": Loss(GSPO, loss_atol=LENGTH_EPS),
    "verl/gspo_wide": Loss(gspo(0.2, 0.2), loss_atol=LENGTH_EPS),
    "verl/sapo_default": Loss(SAPO, loss_atol=2 * LENGTH_EPS),  # on policy a token's loss is twice its advantage
    "verl/sapo_sharp": Loss(replace(SAPO, gate=Soft(2.0, 5.0)), loss_atol=LENGTH_EPS),
    # its two numbers are offsets from 1
    "verl/cispo_default": Loss(capped(1.2, 0.8), value="score"),
    "verl/cispo_onesided": Loss(capped(5.0), value="score"),
    # PPO whose anchor is the sampler itself: no recomputed log-probabilities
    "verl/bypass_ppo_clip": Loss(replace(STALE_PPO, gate=DUAL3, aggregation=token_mean), behavior="rollout_logp"),
    "verl/bypass_pg_is_untruncated": Loss(PG_IS, behavior="rollout_logp", value="score"),
    "verl/bypass_pg_token_tis": Loss(TOKEN_TIS, behavior="rollout_logp", value="score"),
    # a response's ratio stands at each of its tokens, so its mean is their sum
    "verl/bypass_pg_seq_tis": Loss(SEQ_TIS, behavior="rollout_logp", value="score"),
    **{f"verl/trm_{name}_divideN": trm(keep) for name, keep in TRM.items()},
    **{f"verl/trm_{name}_divideAccepted": trm(keep, "kept") for name, keep in TRM.items()},
    # DPPO, whose mu is what the trainer recomputed
    "verl/dppo_tv_c20": Loss(dppo(TV, 20.0), value="score"),
    "verl/dppo_kl_c20": Loss(dppo(KL, 20.0), value="score"),
    "verl/dppo_tv_configdefault_c3": Loss(dppo(TV, 3.0), value="score"),
    "verl/dppo_kl_seqsumnorm": summed(Loss(dppo(KL, OFF), value="score")),
    "verl/decoupled_ppo_token_tis": Loss(corrected(clip(dual=3.0), Correction(high=2.0))),
    "verl/decoupled_ppo_seq_tis": Loss(corrected(clip(dual=3.0), Correction(high=2.0, ratio=sequence))),
    "verl/decoupled_ppo_token_icepop": Loss(corrected(clip(dual=3.0), Correction(0.5, 5.0, "drop"))),
    # TRL: the loss type is the aggregation
    "trl/grpo": Loss(GRPO),
    "trl/bnpo": Loss(PPO_CLIP),
    "trl/dr_grpo": Loss(DR_GRPO, max_length=64),
    "trl/dapo": Loss(DAPO),
    "trl/dapo_delta": Loss(clip(high=0.28, dual=2.0)),
    "trl/grpo_kl": Loss(with_k3(GRPO)),
    "trl/grpo_kl_biascorr": Loss(with_k3(GRPO, weighted=True)),
    "trl/gspo": Loss(GSPO),
    "trl/gspo_wide": Loss(gspo(0.2, 0.2)),
    "trl/gspo_dapo_agg": Loss(replace(gspo(0.2, 0.2), aggregation=token_mean)),
    "trl/gspo_kl_biascorr_seq": Loss(with_k3(gspo(0.2, 0.2), weighted=True)),
    "trl/luspo": Loss(replace(gspo(0.2, 0.2), aggregation=response_sum)),
    # the temperatures are float32 inside: 1.05 is off by 2e-8 of itself, and losses of both signs cancel
    "trl/sapo": Loss(SAPO, loss_atol=1e-7),
    # epsilon_high is the cap itself, not an offset from 1
    "trl/cispo_eps5": Loss(capped(5.0), value="score"),
    "trl/cispo_eps0.28": Loss(capped(0.28), value="score"),
    "trl/vespo": Loss(
        replace(CISPO, ratio=sequence, gate=vespo_gate, aggregation=token_mean_of_responses), value="score"
    ),
    "trl/dapo_is_token_truncate": Loss(corrected(clip(high=0.28), Correction(high=2.0))),
    "trl/dapo_is_token_mask": Loss(corrected(clip(high=0.28), Correction(high=2.0, outside="drop"))),
    "trl/dapo_is_sequence_truncate": Loss(corrected(clip(high=0.28), Correction(high=2.0, ratio=sequence))),
    "trl/dapo_is_sequence_mask": Loss(corrected(clip(high=0.28), Correction(0.0, 2.0, "drop", sequence))),
    "trl/grpo_opsm": Loss(replace(GRPO, anchor="proximal", keep=OffPolicyMask(0.05))),
    # two micro-batches, 5 and 7 responses: the first three take each part for the whole and average over the parts
    "trl/ga2_grpo": Loss(GRPO, divide=0.5, parts=(5, 7)),
    "trl/ga2_bnpo": Loss(PPO_CLIP, divide=0.5, parts=(5, 7)),
    "trl/ga2_dr_grpo": Loss(DR_GRPO, divide=0.5, parts=(5, 7), max_length=64),
    "trl/ga2_dapo": Loss(PPO_CLIP, parts=(5, 7), tokens=62),
    # OpenRLHF
    "openrlhf/ppo_token": Loss(PPO_CLIP),
    "openrlhf/ppo_sample": Loss(GRPO, loss_atol=LENGTH_EPS),
    "openrlhf/ppo_dual3": Loss(clip(dual=3.0)),
    "openrlhf/gspo": Loss(GSPO, loss_atol=LENGTH_EPS),
    "openrlhf/tis": Loss(corrected(PPO_CLIP, Correction(low=0.5, high=5.0))),
    "openrlhf/icepop": Loss(corrected(PPO_CLIP, Correction(0.5, 5.0, "drop"))),
    # the response's geometric mean decides, and the token's weight knows no limit
    "openrlhf/seq_mask_tis": Loss(replace(METHOD_2, aggregation=token_mean, keep=MismatchBand(0.5, 5.0))),
    # slime returns sums over responses (or tokens) and divides by their number later, outside the function
    "slime/grpo": Loss(GRPO, divide="responses"),
    "slime/grpo_dual3": Loss(replace(GRPO, gate=DUAL3), divide="responses"),
    "slime/dapo_token": Loss(DAPO, divide="tokens"),
    "slime/gspo": Loss(GSPO, divide="responses"),
    "slime/cispo": Loss(
        replace(CISPO, gate=Cap(high=5.0), aggregation=response_mean), divide="responses", value="score"
    ),
    "slime/grpo_tis": Loss(corrected(GRPO, Correction(high=2.0)), divide="responses"),
    "slime/grpo_icepop": Loss(corrected(GRPO, Correction(0.5, 5.0, "drop")), divide="responses"),
    "slime/grpo_opsm": Loss(replace(GRPO, keep=OffPolicyMask(0.05)), divide="responses"),
    # float32 inside the KL estimate: an error of beta times its rounding, also where the gradient is small
    "slime/grpo_kl_unbiased": Loss(
        with_k3(GRPO, weighted=True), divide="responses", rtol=2e-6, atol=2e-8, loss_atol=2e-8
    ),
    # oat
    "oat/grpo": Loss(GRPO),
    "oat/grpo_tis": Loss(corrected(GRPO, Correction(high=2.0))),
    "oat/grpo_kl": Loss(with_k3(GRPO)),
    "oat/drgrpo": Loss(DR_GRPO, max_length=64),
    "oat/drgrpo_tis": Loss(corrected(DR_GRPO, Correction(high=2.0)), max_length=64),
    "oat/drgrpo_kl": Loss(with_k3(DR_GRPO), max_length=64),
    # Stable-RL, the code of 004: clipping as a mask; sums over the batch that nothing divides by the responses
    "stable_rl/ppo": Loss(clip_masked(3.0), behavior="rollout_logp", value="score"),
    "stable_rl/ppo_c5": Loss(clip_masked(5.0), behavior="rollout_logp", value="score"),
    "stable_rl/ppo_sumnorm": Loss(
        replace(clip_masked(OFF), aggregation=constant),
        divide="responses",
        behavior="rollout_logp",
        max_length=64,
        value="score",
    ),
    "stable_rl/ppo_recompute": Loss(replace(MINIRL_TIS, aggregation=token_mean), value="score"),
    "stable_rl/pg_no_mask": Loss(capped(3.0), behavior="rollout_logp", value="score"),
    "stable_rl/dppo_binary_tv": dppo_stable_rl(TV, 3.0),
    "stable_rl/dppo_binary_tv_c5": dppo_stable_rl(TV, 5.0),
    "stable_rl/dppo_binary_tv_sumnorm": replace(summed(dppo_stable_rl(TV, OFF)), divide="responses"),
    "stable_rl/dppo_binary_tv_recompute": dppo_stable_rl(TV, 3.0, "proximal"),
    "stable_rl/dppo_binary_kl": dppo_stable_rl(KL, 3.0),
    "stable_rl/dppo_binary_kl_sumnorm": replace(summed(dppo_stable_rl(KL, OFF)), divide="responses"),
    "stable_rl/dppo_binary_kl_recompute": dppo_stable_rl(KL, 3.0, "proximal"),
    "stable_rl/dppo_topk_tv": Loss(dppo(TOPK_TV, 20.0), behavior="rollout_logp", value="score"),
    "stable_rl/dppo_topk_kl": Loss(dppo(TOPK_KL, 20.0), behavior="rollout_logp", value="score"),
    # TRL's DPPO, before it was taken out
    "trl_dppo/binary_tv": Loss(dppo(TV, 20.0), behavior="rollout_logp", value="score"),
    "trl_dppo/binary_kl": Loss(dppo(KL, 20.0), behavior="rollout_logp", value="score"),
    "trl_dppo/topk_tv": Loss(dppo(TOPK_TV, 20.0), behavior="rollout_logp", value="score"),
    "trl_dppo/topk_kl": Loss(dppo(TOPK_KL, 20.0), behavior="rollout_logp", value="score"),
}
