"""What a policy loss is computed from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.estimators.checks import readable
from rlnotes.exact.precision import widened
from rlnotes.objectives.aggregations import Totals

Anchor = Literal["behavior", "proximal", "current"]
Policy = Literal["current", "proximal"]  # what is compared with the sampler: pi itself, or the recomputed pi_k
Past = Literal["behavior", "proximal"]  # what pi is compared with: the sampler mu, or pi before the update


@dataclass(frozen=True)
class Batch:
    """What a policy loss is computed from. Only ``logp`` and ``entropy`` carry a gradient.

    | field | shape | meaning |
    |---|---|---|
    | ``logp`` | (N, T) | log pi of the sampled tokens |
    | ``mask`` | (N, T) bool | True on the response's own tokens |
    | ``advantages`` | (N,) or (N, T) | A-hat |
    | ``logp_behavior`` | (N, T) | log mu, as recorded by the sampler |
    | ``logp_proximal`` | (N, T) | log pi_k, recomputed by the trainer before the update |
    | ``logp_reference`` | (N, T) | log pi_ref, for a KL penalty |
    | ``totals`` | | sizes of the whole batch if this is a part of one |
    | ``max_length`` | | T_max of a batch that is whole, where it is not the width T |
    | ``entropy`` | (N, T) | entropy of pi where each token was drawn, for an entropy bonus |
    | ``truncated`` | (N,) bool | True for a response that was cut off at the length limit |
    | ``divergence`` | (N, T) | TV or KL of mu and pi at each token, from more than the token drawn: |
    | | | what ``Choices.needs_divergence`` computes. KL may be infinite |

    Outside the mask any number may stand, NaN and infinity too: it reaches neither value nor gradient. What comes in
    float16 or bfloat16 is read as float32, so that no loss is computed in less.
    Raises ``ValueError`` for shapes that disagree, for a response without tokens, and for a number under the mask
    that is not finite.

    >>> mu, pi = torch.tensor([[0.5, 0.25]]).log(), torch.tensor([[0.25, 0.5]]).log()
    >>> batch = Batch(pi, torch.ones(1, 2) > 0, torch.tensor([1.0]), logp_behavior=mu)
    >>> batch.log_ratio("logp", "logp_behavior").exp()
    tensor([[0.5000, 2.0000]])
    """

    logp: Tensor
    mask: Tensor
    advantages: Tensor
    logp_behavior: Tensor | None = None
    logp_proximal: Tensor | None = None
    logp_reference: Tensor | None = None
    totals: Totals | None = None
    entropy: Tensor | None = None
    truncated: Tensor | None = None
    divergence: Tensor | None = None
    max_length: int | None = None

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
        if self.truncated is not None and (
            tuple(self.truncated.shape) != shape[:1] or self.truncated.dtype != torch.bool
        ):
            raise ValueError(
                f"truncated has shape {tuple(self.truncated.shape)} and dtype {self.truncated.dtype}; "
                f"it must be {shape[:1]}, one bool per response"
            )
        values = readable(self.logp)
        empty = ~self.mask.any(-1)
        if values and bool(empty.any()):
            raise ValueError(
                f"mask is empty in row {int(empty.nonzero()[0])}: a response has at least one token; leave the row out"
            )
        named = dict(logp=self.logp, advantages=self.token_advantages)
        for name in ("logp_behavior", "logp_proximal", "logp_reference", "entropy", "divergence"):
            value = getattr(self, name)
            if value is None:
                continue
            if tuple(value.shape) != shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; logp has {shape}")
            if value.requires_grad and name != "entropy":
                raise ValueError(f"{name} carries a gradient; only logp may: pass {name}.detach()")
            # a KL may be infinite, and is then above every threshold
            named[name] = value.clamp(max=torch.finfo(value.dtype).max) if name == "divergence" else value
        for name, value in named.items():
            bad = self.mask & ~torch.isfinite(value)
            if values and bool(bad.any()):
                row, column = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"{name} is {float(value[row, column].detach())} at [{row}, {column}], under the mask; -inf means "
                    "that a policy gives the sampled token probability 0, NaN that the weights have diverged"
                )

    @staticmethod
    def of_ratios(
        ratios: Sequence[Sequence[float]],
        advantages: Sequence[float],
        *,
        mu: float = 0.1,
        proximal: Sequence[Sequence[float]] | None = None,
        divergence: Sequence[Sequence[float]] | None = None,
    ) -> "Batch":
        """A small batch to try things on: ``ratios`` pi / mu of the tokens of each response, which end where they end.

        ``mu`` is the probability of every token; ``proximal`` are the ratios pi_k / mu, 1 unless given. float64.

        >>> Batch.of_ratios([[2.0, 1.0], [0.5]], [1, -1], mu=0.25).mask
        tensor([[ True,  True],
                [ True, False]])
        """
        width = max(len(row) for row in ratios)

        def padded(rows: Sequence[Sequence[float]]) -> Tensor:
            return torch.tensor([[*row, *[math.nan] * (width - len(row))] for row in rows], dtype=torch.float64)

        ratio = padded(ratios)
        behavior = torch.full_like(ratio, math.log(mu))
        return Batch(
            behavior + ratio.log(),
            ~ratio.isnan(),
            torch.tensor(advantages, dtype=torch.float64),
            logp_behavior=behavior,
            logp_proximal=behavior if proximal is None else behavior + padded(proximal).log(),
            divergence=None if divergence is None else padded(divergence),
        )

    @property
    def token_advantages(self) -> Tensor:
        """Advantages (N, T), one per token."""
        advantages = widened(self.advantages)
        return advantages if advantages.dim() == 2 else advantages[:, None].expand_as(self.logp)

    @property
    def logp_current(self) -> Tensor:
        """``logp`` (N, T) without its gradient: the anchor at which every ratio is 1."""
        return self.logp.detach()

    def masked(self, name: str) -> Tensor:
        """The named (N, T) field, 0 outside the mask. Raises ``ValueError`` if the batch lacks it."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} is missing; this objective needs it: pass Batch(..., {name}=...)")
        value = widened(value)
        return torch.where(self.mask, value, torch.zeros_like(value))

    def log_ratio(self, numerator: str, denominator: str) -> Tensor:
        """Difference (N, T) of two named log-probabilities, 0 outside the mask.

        Both are replaced by 0 outside the mask *before* they meet, so that a NaN there reaches no gradient.
        """
        return self.masked(numerator) - self.masked(denominator)
