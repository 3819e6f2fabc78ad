"""The attention of one new token, on a GPU: one Triton kernel that also writes the token's key and value.

A response's prompt stands in memory once for its group, so what a group's responses read of it comes from the
card's cache. The usual way copies it to every response, and needs three kernels.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false
# Triton comes with PyTorch for a GPU; on a machine without one nothing imports this file.

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 16  # keys at a time
WARPS = 1  # a program has one query: there is little to share


@triton.jit
def _add_keys(keys, values, seen, query, largest, total, mean):  # pragma: no cover (compiled)
    """One step of a softmax on the way: keys and values (BLOCK, D) at these places, where ``seen`` (BLOCK,)."""
    k = tl.load(keys, mask=seen[:, None], other=0.0).to(tl.float32)
    v = tl.load(values, mask=seen[:, None], other=0.0).to(tl.float32)
    score = tl.where(seen, tl.sum(k * query[None, :], 1), -float("inf"))
    now = tl.maximum(largest, tl.max(score, 0))
    shrink, weight = tl.exp(largest - now), tl.exp(score - now)
    return now, total * shrink + tl.sum(weight, 0), mean * shrink + tl.sum(weight[:, None] * v, 0)


@triton.jit(do_not_specialize=["prompt", "written", "room", "repeat"])
def _attend(  # pragma: no cover (compiled)
    q, k, v, row, head,
    prompt_k, prompt_v, prompt_row, prompt_head, prompt_token, prompt,
    own_k, own_v, room, written,
    out, repeat, scale, n_heads: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One response, one head."""
    n, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK)
    here = n * row + h * head + d
    query = tl.load(q + here).to(tl.float32) * scale
    new_k, new_v = tl.load(k + here), tl.load(v + here)
    own = (n * n_heads + h) * room * D
    tl.store(own_k + own + written * D + d, new_k)
    tl.store(own_v + own + written * D + d, new_v)
    largest = tl.sum(query * new_k.to(tl.float32), 0)
    total, mean = tl.exp(largest - largest), new_v.to(tl.float32)
    first = (n // repeat) * prompt_row + h * prompt_head
    for start in range(0, prompt, BLOCK):
        at = first + (start + j)[:, None] * prompt_token + d[None, :]
        seen = start + j < prompt
        largest, total, mean = _add_keys(prompt_k + at, prompt_v + at, seen, query, largest, total, mean)
    for start in range(0, written, BLOCK):
        at = own + (start + j)[:, None] * D + d[None, :]
        seen = start + j < written
        largest, total, mean = _add_keys(own_k + at, own_v + at, seen, query, largest, total, mean)
    tl.store(out + (n * n_heads + h) * D + d, mean / total)


def attend(
    q: Tensor, k: Tensor, v: Tensor, prompt_k: Tensor, prompt_v: Tensor, own_k: Tensor, own_v: Tensor, written: int
) -> Tensor:
    """Attention (N, 1, H * D) of a new token: ``q``, ``k``, ``v`` (N, H, 1, D), three views of one tensor.

    It sees its prompt, ``prompt_k`` and ``prompt_v`` (B, H, P, D), also two views of one tensor, each for N / B
    responses; the ``written`` first of ``own_k`` and ``own_v`` (N, H, S, D), behind which its key and value are
    written; and itself. D is a power of two. Sums are float32.
    """
    n, n_heads, length, d = q.shape
    assert length == 1
    assert q.stride() == k.stride() == v.stride() and prompt_k.stride() == prompt_v.stride()
    out = torch.empty((n, 1, n_heads * d), device=q.device, dtype=q.dtype)
    with torch.cuda.device(q.device):
        _attend[(n, n_heads)](
            *(q, k, v, q.stride(0), q.stride(1)),
            *(prompt_k, prompt_v, prompt_k.stride(0), prompt_k.stride(1), prompt_k.stride(2), prompt_k.shape[2]),
            *(own_k, own_v, own_k.shape[2], written),
            *(out, n // len(prompt_k), d**-0.5),
            n_heads=n_heads, D=d, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip
    return out
