"""Keys and values: what a pass of the transformer attends to besides its own tokens, and which of them it may see."""

import torch
from torch import Tensor
from torch.nn import functional as F

from rlnotes.lm.config import ModelConfig, RolloutKVCache
from rlnotes.lm.quantize import rounded


class KeysValues:
    """What a pass attends to: here its own keys and values only."""

    @property
    def before(self) -> int:
        """Keys that stand before the pass's own."""
        return 0

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take this layer's new keys and values (N, H, n, D); return all that the queries may see."""
        return k, v

    def mask(self, n: int, key_mask: Tensor | None, device: torch.device) -> Tensor | None:
        """Who of ``n`` new tokens may see whom, see :func:`attention_mask`."""
        return attention_mask(n, self.before + n, key_mask, device)

    def attend(self, layer: int, qkv: Tensor, mask: Tensor | None) -> Tensor:
        """Attention (N, n, d) of new tokens with ``qkv`` (N, n, 3, H, D)."""
        q, k, v = apart(qkv)
        k, v = self.extend(layer, k, v)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


class KVCache(KeysValues):
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

    @property
    def before(self) -> int:
        """All that was written."""
        return self.length

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


class Prefix(KeysValues):
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


class SharedPrefix(KeysValues):
    """A :class:`Prefix` as seen by the responses that follow it."""

    def __init__(self, prefix: Prefix, repeat: int):
        self.prefix, self.repeat = prefix, repeat

    @property
    def before(self) -> int:
        """The prompt's."""
        return self.prefix.length

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put the prompt's keys and values before the response's."""
        prompt_k, prompt_v = self.prefix.layers[layer]
        return self._join(prompt_k, k), self._join(prompt_v, v)

    def _join(self, prompt: Tensor, response: Tensor) -> Tensor:
        """(B, H, P, D) and (B * G, H, n, D) to (B * G, H, P + n, D), copied once."""
        grouped = response.unflatten(0, (-1, self.repeat))
        shared = prompt[:, None].expand(-1, self.repeat, -1, -1, -1)
        return torch.cat([shared, grouped], 3).flatten(0, 1)


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
