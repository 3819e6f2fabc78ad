"""Low-rank adapters (LoRA): the weights stay as they are, and a small correction to each is learned.

A layer computes W x + (alpha / r) B A x with A (r, in) and B (out, r). B starts at 0, so the first policy is the old
one to the bit. For sampling the correction is added to W once: the same sum in another order, so that mu and pi differ
by rounding, as in production where adapters are merged.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.lm.model import Transformer

ALPHA = 32.0  # the usual choice; the correction's size then hardly depends on the rank


class Adapted(nn.Module):
    """A linear layer whose weight is frozen, with an adapter of ``rank``, which is trained."""

    def __init__(self, layer: nn.Linear, rank: int, alpha: float, generator: torch.Generator):
        super().__init__()
        (out, inner), device = layer.weight.shape, layer.weight.device
        self.scale = alpha / rank
        self.weight = layer.weight.requires_grad_(False)
        self.a = nn.Parameter((torch.randn(rank, inner, generator=generator) / inner**0.5).to(device))
        self.b = nn.Parameter(torch.zeros(out, rank, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (..., in) to (..., out)."""
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.a), self.b)

    def merged(self) -> nn.Linear:
        """One plain layer that computes the same."""
        layer = nn.Linear(self.weight.shape[1], self.weight.shape[0], bias=False, device="meta")  # draws no numbers
        layer.weight = nn.Parameter(self.weight + self.scale * self.b @ self.a)
        return layer


def add_adapters(model: Transformer, rank: int, generator: torch.Generator, alpha: float = ALPHA) -> None:
    """Freeze ``model``, and give every linear layer but a mixture's router an adapter.

    The head is one of them: in 40 steps of ``reverse`` the head alone came from 0.35 to 0.87, all weights to 0.90, and
    the linear layers of the blocks nowhere. ``generator``, on the CPU, draws the matrices A. Raises ``ValueError`` for
    a rank below 1 or above the model's width, and for a model that has adapters.
    """
    if merged(model) is not model:
        raise ValueError("the model has adapters already; add them to lora.merged(model), which contains what they say")
    if not 1 <= rank <= model.config.d_model:
        raise ValueError(f"rank is {rank}; it must be from 1 to the model's width, {model.config.d_model}")
    model.requires_grad_(False)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear) and not name.endswith("router"):
            model.set_submodule(name, Adapted(layer, rank, alpha, generator))


@torch.no_grad()
def merged(model: Transformer) -> Transformer:
    """A plain model that computes the same, for sampling: ``model`` itself if it has no adapters, else a copy."""
    if not any(isinstance(layer, Adapted) for layer in model.modules()):
        return model
    plain = deepcopy(model)
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, Adapted):
            plain.set_submodule(name, layer.merged())
    return plain
