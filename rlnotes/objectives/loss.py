"""The one policy loss. Equation (23) of 004, widened: the gradient of every objective of the course is

    sum over tokens of  weight * gate * ratio * advantage * grad log pi

so that an objective is a choice of ratio, anchor, gate, advantage and aggregation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import KLEstimator, kl_estimate
from rlnotes.objectives.aggregations import Totals, response_mean
from rlnotes.objectives.gates import Correction, Gate, no_gate
from rlnotes.objectives.ratios import token

Anchor = Literal["behavior", "proximal"]


@dataclass(frozen=True)
class KLPenalty:
    """``beta`` times a KL estimate to the reference policy, added to the loss of each token.

    ``weighted`` multiplies the estimate by the ratio, gradient included; then k3's mean gradient is that of
    KL(pi || ref) also when the tokens came from the anchor.
    """

    beta: float
    estimator: KLEstimator = "k3"
    weighted: bool = False

    def __post_init__(self):
        if not self.beta >= 0:
            raise ValueError(f"beta is {self.beta}; it must not be negative")


@dataclass(frozen=True)
class Choices:
    """The five choices that make a policy loss, and two optional terms.

    | choice | what | from |
    |---|---|---|
    | ``ratio`` | token, sequence, sequence_mean | :mod:`rlnotes.objectives.ratios` |
    | ``anchor`` | ``"behavior"`` (recorded by the sampler) or ``"proximal"`` (recomputed before the update) | |
    | ``gate`` | no_gate, Clip | :mod:`rlnotes.objectives.gates` |
    | ``advantage`` | rewards (N,) and G to advantages (N,) | :mod:`rlnotes.estimators.baselines` |
    | ``aggregation`` | response_mean, constant, token_mean, response_sum | :mod:`rlnotes.objectives.aggregations` |

    ``correction`` multiplies each token by a bounded proximal / behaviour weight, ``keep`` drops whole responses
    (:mod:`rlnotes.objectives.masks`), ``kl`` adds a penalty. A new objective is one line:
    ``dataclasses.replace(GRPO, aggregation=token_mean)``.
    """

    ratio: Callable[[Tensor, Tensor], Tensor] = token
    anchor: Anchor = "behavior"
    gate: Gate = no_gate
    advantage: Callable[[Tensor, int], Tensor] = group_mean_std
    aggregation: Callable[[Tensor, Totals], Tensor] = response_mean
    correction: Correction | None = None
    keep: Callable[["Batch"], Tensor] | None = None
    kl: KLPenalty | None = None

    def __post_init__(self):
        if self.anchor not in ("behavior", "proximal"):
            raise ValueError(f"anchor is {self.anchor!r}; choose 'behavior' or 'proximal'")

    @property
    def needs_proximal(self) -> bool:
        """True if the trainer must recompute log-probabilities before the update."""
        return self.anchor == "proximal" or self.correction is not None


@dataclass(frozen=True)
class Batch:
    """What a policy loss is computed from. Only ``logp`` carries a gradient.

    | field | shape | meaning |
    |---|---|---|
    | ``logp`` | (N, T) | log pi of the sampled tokens |
    | ``mask`` | (N, T) bool | True on the response's own tokens |
    | ``advantages`` | (N,) or (N, T) | A-hat |
    | ``logp_behavior`` | (N, T) | log mu, as recorded by the sampler |
    | ``logp_proximal`` | (N, T) | log pi_k, recomputed by the trainer before the update |
    | ``logp_reference`` | (N, T) | log pi_ref, for a KL penalty |
    | ``totals`` | | sizes of the whole batch if this is a part of one |

    Outside the mask any number may stand, NaN and infinity too: it reaches neither value nor gradient.
    Raises ``ValueError`` for shapes that disagree, for a response without tokens, and for a number under the mask
    that is not finite.
    """

    logp: Tensor
    mask: Tensor
    advantages: Tensor
    logp_behavior: Tensor | None = None
    logp_proximal: Tensor | None = None
    logp_reference: Tensor | None = None
    totals: Totals | None = None

    def __post_init__(self):
        shape = tuple(self.logp.shape)
        if len(shape) != 2 or tuple(self.mask.shape) != shape:
            raise ValueError(f"logp has shape {shape} and mask {tuple(self.mask.shape)}; both must be (N, T)")
        if self.mask.dtype != torch.bool:
            raise ValueError(f"mask has dtype {self.mask.dtype}; it must be bool")
        if tuple(self.advantages.shape) not in (shape, shape[:1]):
            raise ValueError(
                f"advantages has shape {tuple(self.advantages.shape)}; it must be {shape[:1]}, one per response, "
                f"or {shape}, one per token"
            )
        empty = ~self.mask.any(-1)
        if bool(empty.any()):
            raise ValueError(
                f"mask is empty in row {int(empty.nonzero()[0])}: a response has at least one token; leave the row out"
            )
        named = dict(logp=self.logp, advantages=self.token_advantages)
        for name in ("logp_behavior", "logp_proximal", "logp_reference"):
            value = getattr(self, name)
            if value is None:
                continue
            if tuple(value.shape) != shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; logp has {shape}")
            if value.requires_grad:
                raise ValueError(f"{name} carries a gradient; only logp may: pass {name}.detach()")
            named[name] = value
        for name, value in named.items():
            bad = self.mask & ~torch.isfinite(value)
            if bool(bad.any()):
                row, column = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"{name} is {float(value[row, column].detach())} at [{row}, {column}], under the mask; -inf means "
                    "that a policy gives the sampled token probability 0, NaN that the weights have diverged"
                )

    @property
    def token_advantages(self) -> Tensor:
        """Advantages (N, T), one per token."""
        return self.advantages if self.advantages.dim() == 2 else self.advantages[:, None].expand_as(self.logp)

    def log_ratio(self, numerator: str, denominator: str) -> Tensor:
        """Difference (N, T) of two named log-probabilities, 0 outside the mask.

        Both are replaced by 0 outside the mask *before* they meet, so that a NaN there reaches no gradient.
        """
        zero = torch.zeros_like(self.logp)
        values = []
        for name in (numerator, denominator):
            value = getattr(self, name)
            if value is None:
                raise ValueError(f"{name} is missing; this objective compares with it")
            values.append(torch.where(self.mask, value, zero))
        return values[0] - values[1]


def policy_loss(choices: Choices, batch: Batch) -> Tensor:
    """The loss () to *minimise*. ``choices.advantage`` is not used here: the batch holds the advantages.

    On the first update, with ratio 1, the loss of a mean-centred advantage is 0. Its gradient is not.
    """
    mask = batch.mask
    ratio = choices.ratio(batch.log_ratio("logp", f"logp_{choices.anchor}"), mask)
    advantages = torch.where(mask, batch.token_advantages, 0.0)
    loss = -choices.gate(ratio, advantages)
    if choices.correction is not None:
        loss = loss * choices.correction(batch.log_ratio("logp_proximal", "logp_behavior"), mask)
    if choices.keep is not None:
        loss = torch.where(choices.keep(batch)[:, None], loss, 0.0)
    if choices.kl is not None:
        estimate = kl_estimate(batch.log_ratio("logp", "logp_reference"), choices.kl.estimator)
        loss = loss + choices.kl.beta * (estimate * ratio if choices.kl.weighted else estimate)
    # in the loss's own precision: a bool mask divided by an integer would give float32 weights to a float64 loss
    ones = mask.to(torch.promote_types(loss.dtype, torch.float32))
    weights = choices.aggregation(ones, batch.totals or Totals.of(mask))
    return (torch.where(mask, loss, 0.0) * weights).sum()
