"""The one policy loss. Equation (23) of 004, widened: the gradient of every objective of the course is

    sum over tokens of  weight * gate * ratio * advantage * grad log pi

so that an objective is a choice of ratio, anchor, gate, advantage and aggregation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.objectives.aggregations import Totals, response_mean
from rlnotes.objectives.batch import Anchor, Batch
from rlnotes.objectives.gates import Correction, Gate, no_gate
from rlnotes.objectives.penalties import KLPenalty
from rlnotes.objectives.ratios import token


@dataclass(frozen=True)
class Choices:
    """The five choices that make a policy loss, and optional parts.

    | choice | what | from |
    |---|---|---|
    | ``ratio`` | token, sequence, sequence_mean | :mod:`rlnotes.objectives.ratios` |
    | ``anchor`` | ``"behavior"`` (recorded by the sampler), ``"proximal"`` (recomputed before the update) or | |
    | | ``"current"`` (pi itself without its gradient: the ratio is 1, plain policy gradient) | |
    | ``gate`` | no_gate, Clip, Cap, Soft | :mod:`rlnotes.objectives.gates` |
    | ``advantage`` | rewards (N,) and G to advantages (N,) | :mod:`rlnotes.estimators.baselines` |
    | ``aggregation`` | response_mean, constant, token_mean, response_sum | :mod:`rlnotes.objectives.aggregations` |

    | part | what |
    |---|---|
    | ``correction`` | multiplies each token by a bounded proximal / behaviour weight |
    | ``keep`` | drops responses or tokens (:mod:`rlnotes.objectives.masks`) |
    | ``divide_by`` | ``"all"``, or only what ``keep`` ``"kept"``: then ``Batch.totals`` are those of what is kept |
    | ``kl`` | a penalty (:mod:`rlnotes.objectives.penalties`) |
    | ``entropy`` | times the mean entropy is added to the objective, so that more of it keeps pi wider: 002 eq. (85) |

    Two parts act before the loss, in the trainer: ``dynamic_sampling`` replaces groups that teach nothing, and
    ``overlong`` maps lengths (N,) to what is added to the rewards (:mod:`rlnotes.objectives.shaping`).

    A new objective is one line: ``dataclasses.replace(GRPO, aggregation=token_mean)``.
    """

    ratio: Callable[[Tensor, Tensor], Tensor] = token
    anchor: Anchor = "behavior"
    gate: Gate = no_gate
    advantage: Callable[[Tensor, int], Tensor] = group_mean_std
    aggregation: Callable[[Tensor, Totals], Tensor] = response_mean
    correction: Correction | None = None
    keep: Callable[[Batch], Tensor] | None = None
    divide_by: Literal["all", "kept"] = "all"
    kl: KLPenalty | None = None
    entropy: float = 0.0
    dynamic_sampling: bool = False
    overlong: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self):
        if self.anchor not in get_args(Anchor):
            raise ValueError(f"anchor is {self.anchor!r}; choose 'behavior', 'proximal' or 'current'")
        if self.divide_by not in ("all", "kept"):
            raise ValueError(f"divide_by is {self.divide_by!r}; choose 'all' or 'kept'")
        if not self.entropy >= 0:
            raise ValueError(f"entropy is {self.entropy}; it must not be negative: a positive bonus raises entropy")

    @property
    def needs_proximal(self) -> bool:
        """True if the trainer must recompute log-probabilities before the update."""
        in_mask = getattr(self.keep, "needs_proximal", False)
        return self.anchor == "proximal" or self.correction is not None or in_mask


def policy_loss(choices: Choices, batch: Batch) -> Tensor:
    """The loss () to *minimise*. ``choices.advantage`` is not used here: the batch holds the advantages.

    On the first update, with ratio 1, the loss of a mean-centred advantage is 0. Its gradient is not.
    """
    mask = batch.mask
    ratio = choices.ratio(batch.log_ratio("logp", f"logp_{choices.anchor}"), mask)
    loss = -choices.gate(ratio, batch.masked("token_advantages"))
    if choices.correction is not None:
        loss = loss * choices.correction(batch.log_ratio("logp_proximal", "logp_behavior"), mask)
    kept = mask
    if choices.keep is not None:
        kept = mask & _per_token(choices.keep(batch), batch)
        loss = torch.where(kept, loss, 0.0)
    if choices.kl is not None and choices.kl.where == "loss":
        estimate = kl_estimate(batch.log_ratio("logp", "logp_reference"), choices.kl.estimator)
        loss = loss + choices.kl.beta * (estimate * ratio if choices.kl.weighted else estimate)
    if choices.entropy:
        loss = loss - choices.entropy * batch.masked("entropy")
    counted = kept if choices.divide_by == "kept" else mask
    # in the loss's own precision: a bool mask divided by an integer would give float32 weights to a float64 loss
    ones = counted.to(torch.promote_types(loss.dtype, torch.float32))
    weights = choices.aggregation(ones, batch.totals or Totals.of(counted))
    return (torch.where(mask, loss, 0.0) * weights).sum()


def _per_token(kept: Tensor, batch: Batch) -> Tensor:
    """What a mask returned, (N,) or (N, T) bool, as (N, T)."""
    shape = tuple(batch.mask.shape)
    if kept.dtype != torch.bool or tuple(kept.shape) not in (shape, shape[:1]):
        raise ValueError(
            f"keep returned shape {tuple(kept.shape)} and dtype {kept.dtype}; it must be bool, {shape[:1]} for "
            f"responses or {shape} for tokens"
        )
    return kept if kept.dim() == 2 else kept[:, None].expand(shape)
