"""Layer norm on a GPU, and the sum before it: a Triton kernel, and one for the gradients.

PyTorch has a kernel for the sum and one for the norm and, where the layers behind compute in bfloat16, one that rounds.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportIncompatibleMethodOverride=false
# Triton comes with PyTorch for a GPU; on a machine without one nothing imports this file.

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 2  # of a program at a time
PROGRAMS = 1024  # at most, of the gradients' kernel: each leaves a sum for the weight


@triton.jit
def _standard(x, seen, width, epsilon):  # pragma: no cover (compiled)
    """Rows (R, W) of mean 0 and variance 1, and by what they were divided (R, 1)."""
    centred = tl.where(seen, x - (tl.sum(x, 1) / width)[:, None], 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, 1) / width + epsilon)[:, None]
    return centred / deviation, deviation


@triton.jit
def _norm(  # pragma: no cover (compiled)
    x, y, weight, total, normed, n, width, epsilon, ADD: tl.constexpr, R: tl.constexpr, W: tl.constexpr
):
    """Some rows."""
    row, column = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    at, seen = row * width + column, (row < n) & (column < width)
    value = tl.load(x + at, mask=seen, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(y + at, mask=seen, other=0.0).to(tl.float32)
        tl.store(total + at, value, mask=seen)
    found, _ = _standard(value, seen, width, epsilon)
    tl.store(normed + at, found * tl.load(weight + column, mask=column < width, other=0.0), mask=seen)


@triton.jit
def _norm_gradients(  # pragma: no cover (compiled)
    total, weight, d_total, d_normed, d_x, d_y, d_weight, n, width, epsilon,
    ADD: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Every so many rows, and their part of the weight's gradient."""
    column = tl.arange(0, W)[None, :]
    own = tl.load(weight + column, mask=column < width, other=0.0)
    d_own = tl.zeros((R, W), tl.float32)
    for start in range(tl.program_id(0) * R, n, tl.num_programs(0) * R):
        row = (start + tl.arange(0, R)).to(tl.int64)[:, None]
        at, seen = row * width + column, (row < n) & (column < width)
        found, deviation = _standard(tl.load(total + at, mask=seen, other=0.0).to(tl.float32), seen, width, epsilon)
        slope = tl.load(d_normed + at, mask=seen, other=0.0).to(tl.float32)
        d_own += slope * found
        slope *= own
        mean, along = tl.sum(slope, 1) / width, tl.sum(slope * found, 1) / width
        d_value = (slope - mean[:, None] - found * along[:, None]) / deviation
        if ADD:
            d_value += tl.load(d_total + at, mask=seen, other=0.0).to(tl.float32)
            tl.store(d_y + at, d_value, mask=seen)
        tl.store(d_x + at, d_value, mask=seen)
    tl.store(d_weight + tl.program_id(0) * width + tl.arange(0, W), tl.sum(d_own, 0), mask=tl.arange(0, W) < width)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor, epsilon: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        width = x.shape[-1]
        n = x.numel() // width
        normed = torch.empty_like(x, dtype=dtype)
        total = x if y is None else torch.empty_like(x)
        with torch.cuda.device(x.device):
            _norm[(triton.cdiv(n, ROWS),)](
                *(x, x if y is None else y, weight, total, normed, n, width, epsilon),
                ADD=y is not None, R=ROWS, W=triton.next_power_of_2(width),
            )  # fmt: skip
        ctx.save_for_backward(total, weight)
        ctx.epsilon, ctx.y = epsilon, None if y is None else y.dtype
        if y is None:
            total = x.new_empty(0)
            ctx.mark_non_differentiable(total)
        return total, normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor, d_normed: Tensor) -> tuple[Tensor | None, ...]:
        total, weight = ctx.saved_tensors
        width, add = total.shape[-1], ctx.y is not None
        n = total.numel() // width
        programs = min(triton.cdiv(n, ROWS), PROGRAMS)
        d_x, d_weight = torch.empty_like(total), weight.new_empty(programs, width, dtype=torch.float32)
        d_y = torch.empty_like(total, dtype=ctx.y) if add else None
        with torch.cuda.device(total.device):
            _norm_gradients[(programs,)](
                *(total, weight, d_total.contiguous(), d_normed.contiguous(), d_x, d_y if add else d_x, d_weight),
                *(n, width, ctx.epsilon),
                ADD=add, R=ROWS, W=triton.next_power_of_2(width),
            )  # fmt: skip
        of_weight = d_weight.sum(0).to(weight.dtype) if ctx.needs_input_grad[2] else None
        return d_x, d_y, of_weight, None, None


def norm(x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """Rows of ``x`` (..., d) with mean 0 and variance 1, times ``weight`` (d,), as ``dtype``. Differentiable once."""
    assert x.shape[-1:] == weight.shape
    return _Norm.apply(x.contiguous(), None, weight, epsilon, dtype)[1]


def add_norm(x: Tensor, y: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """``x`` + ``y`` (..., d), in the precision of ``x``, and :func:`norm` of it."""
    assert torch.promote_types(x.dtype, y.dtype) == x.dtype
    return _Norm.apply(x.contiguous(), y.contiguous(), weight, epsilon, dtype)
