"""The one policy loss. Equation (23) of 004, widened: the gradient of every objective of the course is

    sum over tokens of  weight * gate * ratio * advantage * grad log pi

so that an objective is a choice of ratio, anchor, gate, advantage and aggregation.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.estimators.exponents import SPARE
from rlnotes.objectives.aggregations import Totals, response_mean
from rlnotes.objectives.batch import Anchor, Batch
from rlnotes.objectives.gates import ClipAround, Correction, Gate, no_gate
from rlnotes.objectives.masks import Mask, per_token
from rlnotes.objectives.penalties import KLPenalty
from rlnotes.objectives.ratios import token
from rlnotes.objectives.rows import RowDivergence


@dataclass(frozen=True)
class Choices:
    """The five choices that make a policy loss, and optional parts.

    | choice | what | from |
    |---|---|---|
    | ``ratio`` | token, sequence, sequence_mean | :mod:`rlnotes.objectives.ratios` |
    | ``anchor`` | ``"behavior"`` (recorded by the sampler), ``"proximal"`` (recomputed before the update) or | |
    | | ``"current"`` (pi itself without its gradient: the ratio is 1, plain policy gradient) | |
    | ``gate`` | no_gate, Clip, ClipAround, Cap, Soft, SoftOneSided | :mod:`rlnotes.objectives.gates` |
    | ``advantage`` | rewards (N,) and G to advantages (N,) | :mod:`rlnotes.estimators.baselines` |
    | ``aggregation`` | response_mean, constant, token_mean, response_sum | :mod:`rlnotes.objectives.aggregations` |

    | part | what |
    |---|---|
    | ``correction`` | multiplies each token by a weight pi_k / mu, or pi / mu, that has no gradient |
    | ``keep`` | drops responses or tokens (:mod:`rlnotes.objectives.masks`, :mod:`rlnotes.objectives.one_sided`) |
    | ``divide_by`` | ``"all"``, or only what ``keep`` ``"kept"``: then ``Batch.totals`` are those of what is kept |
    | ``kl`` | a penalty (:mod:`rlnotes.objectives.penalties`) |
    | ``entropy`` | times the mean entropy is added to the objective, so that more of it keeps pi wider: 002 eq. (85) |

    Two parts act before the loss, in the trainer: ``dynamic_sampling`` replaces groups that teach nothing, and
    ``overlong`` maps lengths (N,) to what is added to the rewards (:mod:`rlnotes.objectives.shaping`).

    What the loss is divided by, where ``keep`` drops something (libraries differ most here):

    | divided by | ``aggregation`` | ``divide_by`` |
    |---|---|---|
    | all responses, N: TRM, TRL, slime, OpenRLHF, verl's engine | response_sum, response_mean | ``"all"`` |
    | responses of which something is kept: verl's function | response_sum, response_mean | ``"kept"`` |
    | all tokens: TRL, OpenRLHF | token_mean | ``"all"`` |
    | kept tokens: verl's function | token_mean | ``"kept"`` |
    | N T_max: Dr. GRPO | constant, with ``Totals.max_length`` | ``"all"`` |
    | kept responses times T_max | constant, with ``Totals.max_length`` | ``"kept"`` |

    ``response_mean`` divides by a response's own tokens before, all or kept. ``Batch.totals`` goes before what is
    counted: ``"kept"`` with all responses in it is verl's engine where single tokens are dropped.

    A new objective is one line: ``dataclasses.replace(GRPO, aggregation=token_mean)``.

    >>> from dataclasses import replace
    >>> from rlnotes.objectives import GRPO
    >>> from rlnotes.objectives.aggregations import token_mean
    >>> replace(GRPO, aggregation=token_mean).pushes([[1.0, 1.0], [1.0]], [1, -1])
    [[0.333, 0.333], [-0.333]]
    """

    ratio: Callable[[Tensor, Tensor], Tensor] = token
    anchor: Anchor = "behavior"
    gate: Gate | ClipAround = no_gate
    advantage: Callable[[Tensor, int], Tensor] = group_mean_std
    aggregation: Callable[[Tensor, Totals], Tensor] = response_mean
    correction: Correction | None = None
    keep: Mask | None = None
    divide_by: Literal["all", "kept"] = "all"
    kl: KLPenalty | None = None
    entropy: float = 0.0
    dynamic_sampling: bool = False
    overlong: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self):
        if self.anchor not in get_args(Anchor):
            raise ValueError(f"anchor is {self.anchor!r}; choose 'behavior', 'proximal' or 'current'")
        if isinstance(self.gate, ClipAround) and self.anchor != "behavior":
            raise ValueError(
                f"anchor is {self.anchor!r}; ClipAround clips pi / mu around pi_k / mu: choose 'behavior', or Clip"
            )
        if self.divide_by not in ("all", "kept"):
            raise ValueError(f"divide_by is {self.divide_by!r}; choose 'all' or 'kept'")
        if not self.entropy >= 0:
            raise ValueError(f"entropy is {self.entropy}; it must not be negative: a positive bonus raises entropy")

    @property
    def needs_proximal(self) -> bool:
        """True if the trainer must recompute log-probabilities before the update."""
        parts = (self.gate, self.correction, self.keep)
        return self.anchor == "proximal" or any(getattr(part, "needs_proximal", False) for part in parts)

    @property
    def needs_divergence(self) -> RowDivergence | None:
        """What the trainer must compute at each token as ``Batch.divergence``: from rows of pi, and from mu's likeliest
        tokens as the sampler recorded them. None if the objective does without.
        """
        return getattr(self.keep, "needs_divergence", None)

    @property
    def needs_whole_batch(self) -> bool:
        """True if the loss of a part of a batch is unknown without numbers that only the whole batch gives."""
        return self.divide_by == "kept" or (self.correction is not None and self.correction.normalised)

    def pushes(self, ratios: Sequence[Sequence[float]], advantages: Sequence[float], **more: Any) -> list[list[float]]:
        """What stands before grad log pi of each token in grad J, to three digits: to try a recipe on a few tokens.

        Arguments are those of :meth:`Batch.of_ratios`: ``ratios`` pi / mu of the tokens of each response, and the
        ``advantages`` of the responses.

        >>> from rlnotes.objectives import TOKEN_TIS
        >>> TOKEN_TIS.pushes([[0.5, 4.0]], [-1])
        [[-0.5, -2.0]]
        """
        batch = Batch.of_ratios(ratios, advantages, **more)
        logp = batch.logp.requires_grad_()
        (slope,) = torch.autograd.grad(policy_loss(self, batch), logp)
        # + 0.0: no -0.0
        return [[round(-x, 3) + 0.0 for x in row[: len(own)]] for row, own in zip(slope.tolist(), ratios, strict=True)]


def policy_loss(choices: Choices, batch: Batch) -> Tensor:
    """The loss () to *minimise*. ``choices.advantage`` is not used here: the batch holds the advantages.

    On the first update, with ratio 1, the loss of a mean-centred advantage is 0. Its gradient is not.

    >>> from rlnotes.objectives import GRPO
    >>> batch = Batch.of_ratios([[1.0, 1.0], [1.5]], [1, -1])  # -(1 - 1.5) / 2
    >>> round(policy_loss(GRPO, batch).item(), 3)
    0.25
    """
    mask = batch.mask
    ratio = choices.ratio(batch.log_ratio("logp", f"logp_{choices.anchor}"), mask)
    gate = choices.gate
    if isinstance(gate, ClipAround):
        gate = gate.around(choices.ratio(batch.log_ratio("logp_proximal", "logp_behavior"), mask))
    loss = -gate(ratio, batch.masked("token_advantages"))
    if choices.correction is not None:
        loss = _times(loss, _weight(choices.correction, batch))
    kept = mask
    if choices.keep is not None:
        kept = mask & per_token(choices.keep(batch), batch)
        loss = torch.where(kept, loss, 0.0)
    if choices.kl is not None and choices.kl.where == "loss":
        estimate = kl_estimate(batch.log_ratio("logp", "logp_reference"), choices.kl.estimator)
        loss = loss + choices.kl.beta * (_times(estimate, ratio) if choices.kl.weighted else estimate)
    if choices.entropy:
        loss = loss - choices.entropy * batch.masked("entropy")
    counted = kept if choices.divide_by == "kept" else mask
    # in the loss's own precision: a bool mask divided by an integer would give float32 weights to a float64 loss
    weights = choices.aggregation(counted.to(loss.dtype), batch.totals or Totals.of(counted, batch.max_length))
    return (torch.where(mask, loss, 0.0) * weights).sum()


def _weight(correction: Correction, batch: Batch) -> Tensor:
    """Weights (N, T) of the correction, over the mean of the whole batch if it is normalised."""
    mean = batch.totals.weight if batch.totals else None
    if correction.normalised and batch.totals and mean is None:
        raise ValueError(
            "totals.weight is missing; this correction divides by the mean weight of the whole batch: pass "
            "Totals(..., weight=correction.mean(log_ratio, mask)) with every part, or the whole batch without totals"
        )
    return correction(batch.log_ratio(f"logp_{correction.policy}", "logp_behavior"), batch.mask, mean)


def _times(loss: Tensor, weight: Tensor) -> Tensor:
    """Their product, finite: two ratios may both be close to the largest float."""
    limit = torch.finfo(loss.dtype).max * math.exp(-SPARE)
    return loss * torch.minimum(weight, limit / loss.detach().abs().clamp(min=1))
