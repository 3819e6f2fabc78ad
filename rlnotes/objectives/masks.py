"""Masks that drop responses or tokens. A mask takes the batch and returns bool, True for what is kept.

The shape says what is dropped: (N,) for whole responses, (N, T) for tokens. What is dropped adds nothing to the
surrogate; whether the aggregation still divides by it is ``Choices.divide_by``. A mask that compares with the
recomputed policy says so in ``needs_proximal``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.objectives.batch import Anchor, Batch
from rlnotes.objectives.ratios import sequence_mean


@dataclass(frozen=True)
class OffPolicyMask:
    """Drop a response with A < 0 whose mean log(anchor / pi) is above ``delta`` (OPSM of DeepSeek-V3.2)."""

    delta: float
    anchor: Anchor = "behavior"

    @property
    def needs_proximal(self) -> bool:
        """True if the drift is measured from the recomputed policy."""
        return self.anchor == "proximal"

    def __call__(self, batch: Batch) -> Tensor:
        """(N,) bool."""
        drift = -sequence_mean(batch.log_ratio("logp", f"logp_{self.anchor}").detach(), batch.mask)[:, 0].log()
        return ~((batch.masked("token_advantages").sum(-1) < 0) & (drift > self.delta))


@dataclass(frozen=True)
class MismatchBand:
    """Keep a response whose geometric mean of proximal / behaviour lies in [``low``, ``high``]."""

    low: float
    high: float
    needs_proximal = True

    def __call__(self, batch: Batch) -> Tensor:
        """(N,) bool."""
        ratio = sequence_mean(batch.log_ratio("logp_proximal", "logp_behavior"), batch.mask)[:, 0]
        return (ratio >= self.low) & (ratio <= self.high)


@dataclass(frozen=True)
class ClipMask:
    """Drop a token whose pi / anchor is outside [1 - ``low``, 1 + ``high``] in the direction that A pushes it.

    With no gate the gradient is that of the clip: 004 appendix D. But the weight before the advantage is now another
    choice, so it can be capped, or measured from another policy than the mask is.
    """

    low: float = 0.2
    high: float = 0.28
    anchor: Anchor = "behavior"

    @property
    def needs_proximal(self) -> bool:
        """True if the mask looks at the ratio to the recomputed policy."""
        return self.anchor == "proximal"

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        ratio = torch.exp(batch.log_ratio("logp", f"logp_{self.anchor}").detach())
        advantages = batch.token_advantages
        return ~(((advantages > 0) & (ratio > 1 + self.high)) | ((advantages < 0) & (ratio < 1 - self.low)))


@dataclass(frozen=True)
class ProximalMask(ClipMask):
    """:class:`ClipMask` on the ratio to the recomputed policy pi_k (MiniRL): 004 appendix D."""

    anchor: Anchor = "proximal"


def not_truncated(batch: Batch) -> Tensor:
    """Drop a response that was cut off at the length limit (N,): 002 section 5.4.2, overlong filtering.

    TRL's ``mask_truncated_completions``. Its tokens once stayed in TRL's denominator; here ``divide_by`` says so.
    """
    if batch.truncated is None:
        raise ValueError("truncated is missing; this mask drops what it names: pass Batch(..., truncated=...)")
    return ~batch.truncated
