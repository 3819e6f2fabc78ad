"""A decoder-only transformer: learned positions, layer norm, ReLU, no biases; dense, or with a mixture of experts.

One ``forward`` serves three uses, told apart by the ``kv_cache`` it is given: a plain pass (none), cached decoding
(``KVCache``), and scoring many responses behind one shared prompt (``SharedPrefix``).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.lm.config import ModelConfig
from rlnotes.lm.experts import Experts, Routes
from rlnotes.lm.kv_cache import KeysValues
from rlnotes.lm.operations import operations


def positions(mask: Tensor) -> Tensor:
    """Position of each token, counted from the mask, so that left pads do not shift what follows.

    ``mask`` (N, S) bool, True on real tokens. Returns (N, S) integers; pads get 0. Sampling and scoring both
    use this function.
    """
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


class Norm(nn.LayerNorm):
    """Layer norm without a bias. On a GPU one kernel does it, and :meth:`after` too."""

    def __init__(self, width: int):
        super().__init__(width, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` (..., d), normed."""
        return operations().norm(input, self.weight, self.eps)

    def after(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` + ``y`` (..., d), and that normed."""
        return operations().add_norm(x, y, self.weight, self.eps)


class Block(nn.Module):
    """One layer: attention, then a ReLU network four times as wide or a mixture of them, both added to the residual
    stream.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        d = config.d_model
        self.n_heads = config.n_heads
        self.norm_attention, self.norm_mlp = Norm(d), Norm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.experts = Experts(config) if config.experts else None
        if self.experts is None:
            self.up = nn.Linear(d, 4 * d, bias=False)
            self.down = nn.Linear(4 * d, d, bias=False)

    def forward(
        self, x: Tensor, layer: int, mask: Tensor | None, kv_cache: KeysValues, routes: Routes | None = None
    ) -> Tensor:
        """``x`` (N, n, d) to (N, n, d). ``routes`` takes down which experts were used."""
        qkv = self.side_by_side(x).view(*x.shape[:2], 3, self.n_heads, x.shape[2] // self.n_heads)
        return self.finish(x, kv_cache.attend(layer, qkv, mask), routes)

    def side_by_side(self, x: Tensor) -> Tensor:
        """Queries, keys and values of ``x`` (N, n, d) in one tensor (N, n, 3 * d)."""
        return self.qkv(self.norm_attention(x))

    def finish(self, x: Tensor, attended: Tensor, routes: Routes | None = None) -> Tensor:
        """Add to ``x`` (N, n, d) what was ``attended`` (N, n, d), and then the network's output."""
        x, normed = self.norm_mlp.after(x, self.out(attended))
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
        self.norm = Norm(config.d_model)
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
        kv_cache: KeysValues | None = None,
        routes: Routes | None = None,
    ) -> Tensor:
        """The last layer's states (N, n, d) of ``tokens`` (N, n) at ``position`` (n,) or (N, n).

        ``key_mask`` (N, keys) bool hides padded keys, those in ``kv_cache`` first. Positions at or past the
        context raise ``ValueError``: they never wrap. ``routes`` takes down the experts of a mixture model.
        """
        kv_cache = KeysValues() if kv_cache is None else kv_cache
        x = self.token_embedding(tokens) + self.position_embedding(position)
        mask = kv_cache.mask(tokens.shape[1], key_mask, tokens.device)
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, mask, kv_cache, routes)
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
