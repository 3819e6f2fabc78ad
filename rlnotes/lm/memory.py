"""What a pass of the transformer attends to besides its own tokens, and which of them it may see."""

from typing import Protocol

import torch
from torch import Tensor

from rlnotes.lm.config import ModelConfig, RolloutKVCache
from rlnotes.lm.kernels import longest_text, usable
from rlnotes.lm.quantize import rounded


class Memory(Protocol):
    """Keys and values that a pass attends to besides its own."""

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take this layer's new keys and values (N, H, n, D); return all that the queries may see."""
        ...


class KVCache:
    """Keys and values of a growing batch of sequences, allocated once: (L, N, H, S, D) each.

    What goes in is rounded to ``kind``: "float32" is no change, "float8" has a scale for each key and each value.
    """

    def __init__(
        self,
        config: ModelConfig,
        n: int,
        length: int,
        device: torch.device,
        dtype: torch.dtype,
        kind: RolloutKVCache = "float32",
    ):
        shape = (config.n_layers, n, config.n_heads, length, config.d_model // config.n_heads)
        self.k = torch.empty(shape, device=device, dtype=dtype)
        self.v = torch.empty(shape, device=device, dtype=dtype)
        self.kind: RolloutKVCache = kind
        self.length = 0

    def start(self, prefix: "Prefix", repeat: int) -> None:
        """Fill the first positions with a prompt's keys and values, each prompt ``repeat`` times."""
        p = prefix.length
        for layer, (k, v) in enumerate(prefix.layers):
            self.k[layer].unflatten(0, (-1, repeat))[..., :p, :] = rounded(k, self.kind)[:, None]
            self.v[layer].unflatten(0, (-1, repeat))[..., :p, :] = rounded(v, self.kind)[:, None]
        self.length = p

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write one step and return views of everything so far."""
        end = self.length + k.shape[2]
        self.k[layer, :, :, self.length : end] = rounded(k, self.kind)
        self.v[layer, :, :, self.length : end] = rounded(v, self.kind)
        if layer == self.k.shape[0] - 1:
            self.length = end
        return self.k[layer, :, :, :end], self.v[layer, :, :, :end]


class Prefix:
    """Keys and values of B prompts, computed once, differentiable, and shared by the G responses of each."""

    def __init__(self):
        self.layers: list[tuple[Tensor, Tensor]] = []

    @property
    def length(self) -> int:
        """Number of prompt positions P."""
        return self.layers[0][0].shape[2]

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Remember the prompt's own keys and values."""
        self.layers.append((k, v))
        return k, v


class GroupCache(KVCache):
    """A :class:`KVCache` of one new token at a time, which leaves a prompt's keys and values where they are, once for
    its group, and does the attention itself, by one kernel for a GPU. Equal to the other up to rounding.
    """

    def start(self, prefix: "Prefix", repeat: int) -> None:
        """Follow the prompts, each ``repeat`` times."""
        from rlnotes.lm.decode_kernel import attend  # only here: it needs Triton

        self._attend, self._prefix, self.length = attend, prefix, prefix.length

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """There is no one tensor of all keys to return. Always raises ``NotImplementedError``."""
        raise NotImplementedError("a GroupCache keeps prompts and responses apart; call attend")

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention (N, 1, d) of a new token with ``qkv`` (N, 1, 3, H, D), which is then remembered."""
        written = self.length - self._prefix.length
        if layer == self.k.shape[0] - 1:
            self.length += 1
        q, k, v = apart(qkv)
        return self._attend(q, k, v, *self._prefix.layers[layer], self.k[layer], self.v[layer], written)

    @staticmethod
    def serves(config: ModelConfig, device: torch.device) -> bool:
        """Whether there is a kernel: on a GPU, for heads whose width is a power of two."""
        width = config.d_model // config.n_heads
        return width & (width - 1) == 0 and usable(device)


class SharedPrefix:
    """A :class:`Prefix` as seen by the responses that follow it."""

    def __init__(self, prefix: Prefix, repeat: int):
        self.prefix, self.repeat = prefix, repeat

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put the prompt's keys and values before the response's."""
        prompt_k, prompt_v = self.prefix.layers[layer]
        return self._join(prompt_k, k), self._join(prompt_v, v)

    def _join(self, prompt: Tensor, response: Tensor) -> Tensor:
        """(B, H, P, D) and (B * G, H, n, D) to (B * G, H, P + n, D), copied once."""
        grouped = response.unflatten(0, (-1, self.repeat))
        shared = prompt[:, None].expand(-1, self.repeat, -1, -1, -1)
        return torch.cat([shared, grouped], 3).flatten(0, 1)


class GroupPrefix(SharedPrefix):
    """The same, which leaves the prompts where they are, and does the attention itself, by one kernel for a GPU. Equal
    to the other up to rounding.
    """

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """There is no one tensor of all keys to return. Always raises ``NotImplementedError``."""
        raise NotImplementedError("a GroupPrefix keeps prompts and responses apart; call attend")

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention (N, n, d) of all responses' tokens with ``qkv`` (N, n, 3, H, D)."""
        from rlnotes.lm.prefix_kernel import attend  # only here: it needs Triton

        return attend(qkv, *self.prefix.layers[layer])

    @staticmethod
    def serves(config: ModelConfig, device: torch.device, longest: int) -> bool:
        """Whether there is a kernel for prompts and responses of at most ``longest`` tokens: on a GPU, for heads 16, 32
        or 64 wide, see :func:`rlnotes.lm.kernels.longest_text`.
        """
        fits = config.d_model // config.n_heads in (16, 32, 64)
        return fits and usable(device) and longest <= longest_text(device)


def apart(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (N, H, n, D) of ``qkv`` (N, n, 3, H, D)."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    return q, k, v


def attention_mask(n_queries: int, n_keys: int, key_mask: Tensor | None, device: torch.device) -> Tensor | None:
    """Who may see whom: query i stands at key position n_keys - n_queries + i and sees no later key.

    ``key_mask`` (N, n_keys) bool hides pads. Returns None where nothing needs hiding, else a bool mask that
    broadcasts to (N, H, n_queries, n_keys). The offset matters: PyTorch's own ``is_causal`` aligns the
    queries with the *first* keys, which is wrong when a cache holds the earlier ones.
    """
    mask = None
    if n_queries > 1:
        ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
        mask = ones.tril(n_keys - n_queries)[None, None]
    if key_mask is not None:
        hidden = key_mask[:, None, None, :]
        mask = hidden if mask is None else mask & hidden
        if n_queries > 1:
            # a pad sees itself, so that its (unused) row is not empty: an empty softmax is NaN
            mask = mask | torch.eye(n_keys, dtype=torch.bool, device=device)[n_keys - n_queries :]
    return mask
