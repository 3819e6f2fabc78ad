"""This room's way of what :class:`rlnotes.lm.operations.Operations` names: a kernel where there is one, else the usual.

Kernels need Triton, which comes with PyTorch for a GPU, so they are imported where they are used.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlnotes.gpu.cuda_graph import captured
from rlnotes.gpu.kernels import dtype_behind, longest_text, usable
from rlnotes.gpu.static_step import StaticStep, graphed_step
from rlnotes.lm.config import ModelConfig
from rlnotes.lm.kv_cache import KVCache, Prefix, SharedPrefix, apart
from rlnotes.lm.operations import Operations


class GroupCache(KVCache):
    """A :class:`KVCache` of one new token at a time, which leaves a prompt's keys and values where they are, once for
    its group, and does the attention itself, by one kernel. Equal to the other up to rounding.
    """

    def start(self, prefix: Prefix, repeat: int) -> None:
        """Follow the prompts, each ``repeat`` times."""
        from rlnotes.gpu.decode_kernel import attend

        self._attend, self._prefix, self.length = attend, prefix, prefix.length

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """There is no one tensor of all keys to return. Always raises ``NotImplementedError``."""
        raise NotImplementedError("a GroupCache keeps prompts and responses apart; call attend")

    def mask(self, n: int, key_mask: Tensor | None, device: torch.device) -> None:
        """A new token sees all."""

    def attend(self, layer: int, qkv: Tensor, mask: Tensor | None) -> Tensor:
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


class GroupPrefix(SharedPrefix):
    """A :class:`SharedPrefix` which leaves the prompts where they are, and does the attention itself, by one kernel.
    Equal to the other up to rounding.
    """

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """There is no one tensor of all keys to return. Always raises ``NotImplementedError``."""
        raise NotImplementedError("a GroupPrefix keeps prompts and responses apart; call attend")

    def mask(self, n: int, key_mask: Tensor | None, device: torch.device) -> None:
        """The kernel knows who sees whom."""

    def attend(self, layer: int, qkv: Tensor, mask: Tensor | None) -> Tensor:
        """Attention (N, n, d) of all responses' tokens with ``qkv`` (N, n, 3, H, D)."""
        from rlnotes.gpu.prefix_kernel import attend

        return attend(qkv, *self.prefix.layers[layer])

    @staticmethod
    def serves(config: ModelConfig, device: torch.device, longest: int) -> bool:
        """Whether there is a kernel for prompts and responses of at most ``longest`` tokens: on a GPU, for heads 16, 32
        or 64 wide, see :func:`rlnotes.gpu.kernels.longest_text`.
        """
        fits = config.d_model // config.n_heads in (16, 32, 64)
        return fits and usable(device) and longest <= longest_text(device)


class GPUOperations(Operations):
    """Kernels where they serve."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """See :meth:`Operations.norm`."""
        if not usable(x.device):
            return super().norm(x, weight, epsilon)
        from rlnotes.gpu.norm_kernel import norm

        return norm(x, weight, epsilon, dtype_behind(x))

    def add_norm(self, x: Tensor, y: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """See :meth:`Operations.add_norm`."""
        if not usable(x.device):
            return super().add_norm(x, y, weight, epsilon)
        from rlnotes.gpu.norm_kernel import add_norm

        return add_norm(x, y, weight, epsilon, dtype_behind(x))

    def kv_cache(
        self, config: ModelConfig, n: int, prompt: int, length: int, device: torch.device, dtype: torch.dtype
    ) -> KVCache:
        """See :meth:`Operations.kv_cache`."""
        if GroupCache.serves(config, device):
            return GroupCache(config, n, length, device, dtype)
        return super().kv_cache(config, n, prompt, length, device, dtype)

    def shared_prefix(self, config: ModelConfig, prefix: Prefix, repeat: int, longest: int) -> SharedPrefix:
        """See :meth:`Operations.shared_prefix`."""
        if GroupPrefix.serves(config, prefix.layers[0][0].device, longest):
            return GroupPrefix(prefix, repeat)
        return super().shared_prefix(config, prefix, repeat, longest)

    def recorded(self, work: Callable[[], Tensor], *generators: torch.Generator, rehearsals: int) -> Any:
        """See :meth:`Operations.recorded`."""
        return captured(work, *generators, rehearsals=rehearsals)

    def recorded_step(self, trainer: Any) -> StaticStep | None:
        """See :meth:`Operations.recorded_step`."""
        return graphed_step(trainer)
