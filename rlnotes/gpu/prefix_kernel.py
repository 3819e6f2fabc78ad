"""The attention of responses behind the prompt of their group, on a GPU: a Triton kernel, and one for the gradients.

A prompt's keys and values stand in memory once for its group, and so do their gradients. The usual way copies them to
every response, and tiles made for long texts stay mostly empty. Here a whole text is one tile, so it must be short.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportIncompatibleMethodOverride=false
# Triton comes with PyTorch for a GPU; on a machine without one nothing imports this file.

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlnotes.gpu.kernels import longest_text, roomy


@triton.jit
def _weights(query, own_k, prompt_k, prompt, scale, T: tl.constexpr, P: tl.constexpr):  # pragma: no cover (compiled)
    """How much of each prompt token (T, P) and of each token of its own (T, T) a response's tokens take."""
    t, p = tl.arange(0, T), tl.arange(0, P)
    first = tl.dot(query, tl.trans(prompt_k), input_precision="ieee") * scale
    first = tl.where((p < prompt)[None, :], first, -float("inf"))
    own = tl.dot(query, tl.trans(own_k), input_precision="ieee") * scale
    own = tl.where(t[None, :] <= t[:, None], own, -float("inf"))
    largest = tl.maximum(tl.max(first, 1), tl.max(own, 1))[:, None]
    first, own = tl.exp(first - largest), tl.exp(own - largest)
    total = (tl.sum(first, 1) + tl.sum(own, 1))[:, None]
    return first / total, own / total


@triton.jit
def _attend(  # pragma: no cover (compiled)
    qkv, length, prompt_k, prompt_v, prompt_row, prompt_head, prompt_token, prompt,
    out, repeat, scale, n_heads: tl.constexpr, D: tl.constexpr, T: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """One response, one head."""
    n, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, p, d = tl.arange(0, T)[:, None], tl.arange(0, P)[:, None], tl.arange(0, D)[None, :]
    own = qkv + ((n * length + t) * 3 * n_heads + h) * D + d
    query = tl.load(own, mask=t < length, other=0.0)
    k = tl.load(own + n_heads * D, mask=t < length, other=0.0)
    v = tl.load(own + 2 * n_heads * D, mask=t < length, other=0.0)
    first = (n // repeat) * prompt_row + h * prompt_head + p * prompt_token + d
    first_k = tl.load(prompt_k + first, mask=p < prompt, other=0.0)
    first_v = tl.load(prompt_v + first, mask=p < prompt, other=0.0)
    of_prompt, of_own = _weights(query, k, first_k, prompt, scale, T, P)
    mean = tl.dot(of_prompt.to(v.dtype), first_v, input_precision="ieee")
    mean += tl.dot(of_own.to(v.dtype), v, input_precision="ieee")
    tl.store(out + ((n * length + t) * n_heads + h) * D + d, mean, mask=t < length)


@triton.jit
def _attend_gradients(  # pragma: no cover (compiled)
    qkv, length, prompt_k, prompt_v, prompt_row, prompt_head, prompt_token, prompt,
    slope, d_qkv, d_prompt_k, d_prompt_v,
    repeat, scale, n_heads: tl.constexpr, D: tl.constexpr, T: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """One group, one head. ``slope`` is the gradient of the output."""
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, p, d = tl.arange(0, T)[:, None], tl.arange(0, P)[:, None], tl.arange(0, D)[None, :]
    first = b * prompt_row + h * prompt_head + p * prompt_token + d
    first_k = tl.load(prompt_k + first, mask=p < prompt, other=0.0)
    first_v = tl.load(prompt_v + first, mask=p < prompt, other=0.0)
    d_first_k, d_first_v = tl.zeros((P, D), tl.float32), tl.zeros((P, D), tl.float32)
    for i in range(repeat):
        rows = (b * repeat + i) * length + t
        own = (rows * 3 * n_heads + h) * D + d
        query = tl.load(qkv + own, mask=t < length, other=0.0)
        k = tl.load(qkv + own + n_heads * D, mask=t < length, other=0.0)
        v = tl.load(qkv + own + 2 * n_heads * D, mask=t < length, other=0.0)
        g = tl.load(slope + (rows * n_heads + h) * D + d, mask=t < length, other=0.0)
        of_prompt, of_own = _weights(query, k, first_k, prompt, scale, T, P)
        d_prompt = tl.dot(g, tl.trans(first_v), input_precision="ieee")
        d_own = tl.dot(g, tl.trans(v), input_precision="ieee")
        mean = (tl.sum(of_prompt * d_prompt, 1) + tl.sum(of_own * d_own, 1))[:, None]
        d_prompt = (of_prompt * (d_prompt - mean) * scale).to(query.dtype)
        d_own = (of_own * (d_own - mean) * scale).to(query.dtype)
        of_prompt, of_own = of_prompt.to(query.dtype), of_own.to(query.dtype)
        d_query = tl.dot(d_prompt, first_k, input_precision="ieee") + tl.dot(d_own, k, input_precision="ieee")
        tl.store(d_qkv + own, d_query, mask=t < length)
        d_k = tl.dot(tl.trans(d_own), query, input_precision="ieee")
        tl.store(d_qkv + own + n_heads * D, d_k, mask=t < length)
        d_v = tl.dot(tl.trans(of_own), g, input_precision="ieee")
        tl.store(d_qkv + own + 2 * n_heads * D, d_v, mask=t < length)
        d_first_k += tl.dot(tl.trans(d_prompt), query, input_precision="ieee")
        d_first_v += tl.dot(tl.trans(of_prompt), g, input_precision="ieee")
    whole = ((b * n_heads + h) * prompt + p) * D + d
    tl.store(d_prompt_k + whole, d_first_k, mask=p < prompt)
    tl.store(d_prompt_v + whole, d_first_v, mask=p < prompt)


def _launch(kernel: Any, programs: int, qkv: Tensor, prompt_k: Tensor, prompt_v: Tensor, *rest: Tensor) -> None:
    n, length, _, n_heads, d = qkv.shape
    prompt = prompt_k.shape[2]
    t, p = (max(16, triton.next_power_of_2(size)) for size in (length, prompt))
    small = t * p <= 1024
    ahead = small and roomy(qkv.device)  # the next response is fetched while this one is worked on
    with torch.cuda.device(qkv.device):
        kernel[(programs, n_heads)](
            *(qkv, length, prompt_k, prompt_v),
            *(prompt_k.stride(0), prompt_k.stride(1), prompt_k.stride(2), prompt),
            *(*rest, n // len(prompt_k), d**-0.5),
            n_heads=n_heads, D=d, T=t, P=p, num_warps=2 if small else 8, num_stages=3 if ahead else 1,
        )  # fmt: skip


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, prompt_k: Tensor, prompt_v: Tensor) -> Tensor:
        n, length, _, n_heads, d = qkv.shape
        ctx.save_for_backward(qkv, prompt_k, prompt_v)
        out = qkv.new_empty(n, length, n_heads * d)
        _launch(_attend, n, qkv, prompt_k, prompt_v, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qkv, prompt_k, prompt_v = ctx.saved_tensors
        found = torch.empty_like(qkv), *(prompt_k.new_empty(prompt_k.shape) for _ in range(2))
        _launch(_attend_gradients, len(prompt_k), qkv, prompt_k, prompt_v, slope.contiguous(), *found)
        return found


def attend(qkv: Tensor, prompt_k: Tensor, prompt_v: Tensor) -> Tensor:
    """Attention (N, T, H * D) of N responses: each token sees its prompt, the tokens before it, and itself.

    ``qkv`` (N, T, 3, H, D) are their queries, keys and values; ``prompt_k`` and ``prompt_v`` (B, H, P, D), two views of
    one tensor, each serve N / B responses. D is 16, 32 or 64; for T and P see
    :func:`rlnotes.gpu.kernels.longest_text`. Sums are float32. Differentiable once.
    """
    assert max(qkv.shape[1], prompt_k.shape[2]) <= longest_text(qkv.device)
    assert prompt_k.stride() == prompt_v.stride() and prompt_k.stride(3) == 1 and len(qkv) % len(prompt_k) == 0
    return _Attend.apply(qkv.contiguous(), prompt_k, prompt_v)
