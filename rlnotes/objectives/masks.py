"""Masks that drop whole responses. A mask takes the batch and returns (N,) bool, True for what is kept.

A dropped response adds nothing to the loss, and the aggregation still divides by all of them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from rlnotes.objectives.ratios import sequence_mean

if TYPE_CHECKING:
    from rlnotes.objectives.loss import Anchor, Batch


@dataclass(frozen=True)
class OffPolicyMask:
    """Drop a response with A < 0 whose mean log(anchor / pi) is above ``delta`` (OPSM of DeepSeek-V3.2)."""

    delta: float
    anchor: "Anchor" = "behavior"

    def __call__(self, batch: "Batch") -> Tensor:
        """(N,) bool."""
        drift = -sequence_mean(batch.log_ratio("logp", f"logp_{self.anchor}").detach(), batch.mask)[:, 0].log()
        return ~((batch.token_advantages[:, 0] < 0) & (drift > self.delta))


@dataclass(frozen=True)
class MismatchBand:
    """Keep a response whose geometric mean of proximal / behaviour lies in [``low``, ``high``]."""

    low: float
    high: float

    def __call__(self, batch: "Batch") -> Tensor:
        """(N,) bool."""
        ratio = sequence_mean(batch.log_ratio("logp_proximal", "logp_behavior"), batch.mask)[:, 0]
        return (ratio >= self.low) & (ratio <= self.high)
