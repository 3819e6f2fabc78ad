"""What a GPU may do in a way of its own. ``import rlnotes.gpu`` hands its ways over; nothing in this room imports that.

Without it everything runs all the same, by PyTorch's own kernels and one operation at a time.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rlnotes.lm.config import ModelConfig
from rlnotes.lm.kv_cache import KVCache, Prefix, SharedPrefix


class Operations:
    """PyTorch's way of each."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Rows of ``x`` (..., d) with mean 0 and variance 1, times ``weight`` (d,)."""
        return F.layer_norm(x, weight.shape, weight, None, epsilon)

    def add_norm(self, x: Tensor, y: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """``x`` + ``y`` (..., d), and that normed."""
        total = x + y
        return total, self.norm(total, weight, epsilon)

    def kv_cache(
        self, config: ModelConfig, n: int, prompt: int, length: int, device: torch.device, dtype: torch.dtype
    ) -> KVCache:
        """A cache for ``n`` responses of ``length`` tokens behind prompts of ``prompt`` tokens."""
        return KVCache(config, n, prompt + length, device, dtype)

    def shared_prefix(self, config: ModelConfig, prefix: Prefix, repeat: int, longest: int) -> SharedPrefix:
        """``prefix`` as ``repeat`` responses to each prompt see it; prompts and responses have ``longest`` tokens."""
        return SharedPrefix(prefix, repeat)

    def recorded(self, work: Callable[[], Tensor], *generators: torch.Generator, rehearsals: int) -> Any:
        """``work`` as a graph of the GPU, which replays it when called; False, with a warning, if nothing records."""
        warnings.warn("work is not recorded here: nothing records it before import rlnotes.gpu", stacklevel=4)
        return False

    def recorded_step(self, trainer: Any) -> Any:
        """The RL step of ``trainer`` recorded as a CUDA graph, called like it; None, with a warning, if not."""
        warnings.warn("cuda_graph does nothing here: nothing records a step before import rlnotes.gpu", stacklevel=5)
        return None


class _Current:
    operations = Operations()


def operations() -> Operations:
    """Those in use."""
    return _Current.operations


def use(operations: Operations) -> None:
    """Use ``operations`` from now on, in the whole process."""
    _Current.operations = operations
