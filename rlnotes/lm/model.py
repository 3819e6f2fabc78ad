"""A decoder-only transformer: learned positions, layer norm, ReLU, no biases; dense, or with a mixture of experts.

One ``forward`` serves three uses, told apart by the ``memory`` it is given: a plain pass (none), cached
decoding (``KVCache``, on a GPU ``GroupCache``), and scoring many responses behind one shared prompt (``Prefix``).
"""

import os
from functools import cache
from importlib.util import find_spec
from shutil import which
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.lm.config import ModelConfig, RolloutKVCache
from rlnotes.lm.experts import Experts, Routes
from rlnotes.lm.quantize import rounded


def positions(mask: Tensor) -> Tensor:
    """Position of each token, counted from the mask, so that left pads do not shift what follows.

    ``mask`` (N, S) bool, True on real tokens. Returns (N, S) integers; pads get 0. Sampling and scoring both
    use this function.
    """
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


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

    def behind(self, repeat: int) -> "SharedPrefix":
        """The memory for a pass over ``repeat`` responses per prompt."""
        return SharedPrefix(self, repeat)


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

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention (N, 1, d) of a new token with ``q``, ``k`` and ``v`` (N, H, 1, D), which is then remembered."""
        written = self.length - self._prefix.length
        if layer == self.k.shape[0] - 1:
            self.length += 1
        return self._attend(q, k, v, *self._prefix.layers[layer], self.k[layer], self.v[layer], written)

    @staticmethod
    def serves(config: ModelConfig, device: torch.device) -> bool:
        """Whether there is a kernel: on a GPU that Triton knows, for heads whose width is a power of two."""
        width = config.d_model // config.n_heads
        return width & (width - 1) == 0 and device.type == "cuda" and _triton_works(device)


@cache
def _triton_works(device: torch.device) -> bool:
    """It comes with PyTorch for a GPU on Linux, needs a C compiler, and knows compute capability 7.0 and later."""
    compilers = (os.environ.get("CC", "gcc"), "gcc", "clang")
    if find_spec("triton") is None or not any(which(name) for name in compilers):
        return False
    return torch.cuda.get_device_capability(device) >= (7, 0)


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


class Block(nn.Module):
    """One layer: attention, then a ReLU network four times as wide or a mixture of them, both added to the residual
    stream.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        d = config.d_model
        self.n_heads = config.n_heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.experts = Experts(config) if config.experts else None
        if self.experts is None:
            self.up = nn.Linear(d, 4 * d, bias=False)
            self.down = nn.Linear(4 * d, d, bias=False)

    def forward(
        self, x: Tensor, layer: int, mask: Tensor | None, memory: Memory | None, routes: Routes | None = None
    ) -> Tensor:
        """``x`` (N, n, d) to (N, n, d). ``routes`` takes down which experts were used."""
        q, k, v = self.project(x)
        if isinstance(memory, GroupCache):
            return self.finish(x, memory.attend(layer, q, k, v), routes)
        if memory is not None:
            k, v = memory.extend(layer, k, v)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.finish(x, attended.transpose(1, 2).reshape(x.shape), routes)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (N, H, n, D) of ``x`` (N, n, d)."""
        n, length, d = x.shape
        qkv = self.side_by_side(x).view(n, length, 3, self.n_heads, d // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return q, k, v

    def side_by_side(self, x: Tensor) -> Tensor:
        """The same in one tensor (N, n, 3 * d)."""
        return self.qkv(self.norm_attention(x))

    def finish(self, x: Tensor, attended: Tensor, routes: Routes | None = None) -> Tensor:
        """Add to ``x`` (N, n, d) what was ``attended`` (N, n, d), and then the network's output."""
        x = x + self.out(attended)
        normed = self.norm_mlp(x)
        return x + (self.down(F.relu(self.up(normed))) if self.experts is None else self.experts(normed, routes))


class Transformer(nn.Module):
    """A decoder-only language model. ``Transformer(preset_config("tiny", vocab_size, context))``.

    ``generator`` seeds the initial weights; without one they come from a generator seeded with 0.
    """

    def __init__(self, config: ModelConfig, generator: torch.Generator | None = None):
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embedding = nn.Embedding(config.context, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model, bias=False)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        generator = generator or torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    residual = name.endswith(("out.weight", "down.weight"))
                    std = 0.02 / (2 * config.n_layers) ** 0.5 if residual else 0.02
                    parameter.normal_(0.0, std, generator=generator)

    @property
    def n_parameters(self) -> int:
        """Number of trainable numbers."""
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.weight.device

    def hidden(
        self,
        tokens: Tensor,
        position: Tensor,
        key_mask: Tensor | None = None,
        memory: Memory | None = None,
        routes: Routes | None = None,
    ) -> Tensor:
        """The last layer's states (N, n, d) of ``tokens`` (N, n) at ``position`` (n,) or (N, n).

        ``key_mask`` (N, keys) bool hides padded keys, those in ``memory`` first. Positions at or past the
        context raise ``ValueError``: they never wrap. ``routes`` takes down the experts of a mixture model.
        """
        x = self.token_embedding(tokens) + self.position_embedding(position)
        n_keys = tokens.shape[1]
        if isinstance(memory, KVCache):
            n_keys += memory.length
        elif isinstance(memory, SharedPrefix):
            n_keys += memory.prefix.length
        mask = attention_mask(tokens.shape[1], n_keys, key_mask, tokens.device)
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, mask, memory, routes)
        return self.norm(x)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (N, S, V) of the token after each of ``tokens`` (N, S).

        ``mask`` (N, S) bool is False on left pads.
        """
        self.check_length(tokens.shape[1])
        position = torch.arange(tokens.shape[1], device=tokens.device) if mask is None else positions(mask)
        return self.head(self.hidden(tokens, position, mask))

    def check_length(self, length: int) -> None:
        """Raise ``ValueError`` if ``length`` positions do not fit the context."""
        if length > self.config.context:
            raise ValueError(
                f"{length} positions do not fit the model's context of {self.config.context}; "
                "shorten the prompt or the response, or build the model with a larger context"
            )
