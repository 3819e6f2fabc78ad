"""Several models as one: the rows of a batch are equal blocks, and each block is read by a model of its own.

A GPU that works on one tiny model is idle most of the time: starting a kernel takes longer than its work. Here the
weights of R models stand in one tensor (R, ...), a linear layer is one ``bmm``, and everything that treats rows alike
(attention, caches, the sampler, the score) serves R models at once and does not know it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from rlnotes.lm.config import ModelConfig
from rlnotes.lm.experts import Routes
from rlnotes.lm.kv_cache import KeysValues
from rlnotes.lm.model import Norm, Transformer


class StackedLinear(nn.Module):
    """R linear layers without biases. ``weight`` (R, out, in)."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (R * n, ..., in) to (R * n, ..., out)."""
        blocks = x.reshape(len(self.weight), -1, x.shape[-1])
        return torch.bmm(blocks, self.weight.mT).view(*x.shape[:-1], -1)


class StackedEmbedding(nn.Module):
    """R tables. ``weight`` (R, entries, d)."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, ids: Tensor) -> Tensor:
        """``ids`` (R * n, S) to (R * n, S, d)."""
        r, entries, _ = self.weight.shape
        first = entries * torch.arange(r, device=ids.device)
        return F.embedding((ids.reshape(r, -1) + first[:, None]).view(ids.shape), self.weight.flatten(0, 1))


class StackedNorm(nn.Module):
    """R layer norms without biases. ``weight`` (R, d)."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (R * n, S, d), normed."""
        r, d = self.weight.shape
        blocks = F.layer_norm(x, (d,)).view(r, -1, d)
        return (blocks * self.weight[:, None]).view(x.shape)

    def after(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` + ``y`` (R * n, S, d), and that normed."""
        total = x + y
        return total, self(total)


STACKED = {nn.Linear: StackedLinear, nn.Embedding: StackedEmbedding, Norm: StackedNorm}


class StackedTransformer(Transformer):
    """R dense models of one size as one, with parameters (R, ...) named as theirs. Row i of R * n goes to i // n.

    ``weights`` (R, P) are those of the models, all in a row, and the parameters are views of them: see
    :func:`shared_weights`. Raises ``ValueError`` for a mixture of experts, which sends each expert another number of
    tokens.
    """

    def __init__(self, config: ModelConfig, weights: Tensor):
        if config.experts:
            raise ValueError(f"config has {config.experts} experts; only dense models can be stacked")
        super().__init__(config)
        layers = [(name, STACKED[type(one)]) for name, one in self.named_modules() if type(one) in STACKED]
        own = [weight.shape for weight in self.parameters()]  # of one model, layer by layer
        parts = weights.split([shape.numel() for shape in own], 1)
        for (name, kind), shape, part in zip(layers, own, parts, strict=True):
            self.set_submodule(name, kind(part.unflatten(1, shape)))

    def hidden(
        self,
        tokens: Tensor,
        position: Tensor,
        key_mask: Tensor | None = None,
        kv_cache: KeysValues | None = None,
        routes: Routes | None = None,
    ) -> Tensor:
        """See :meth:`Transformer.hidden`; N is R * n. Each row needs positions of its own: its model has its own."""
        return super().hidden(tokens, position.expand(tokens.shape), key_mask, kv_cache, routes)

    def taken_gradients(self) -> Tensor:
        """The gradients (R, P), as the weights are. None is kept."""
        gradients = torch.cat([weight.grad.flatten(1) for weight in self.parameters() if weight.grad is not None], 1)
        self.zero_grad()
        return gradients


def shared_weights(models: Sequence[Transformer]) -> Tensor:
    """The weights (R, P) of models of one size, all of each in a row. From now on the models' own are parts of it: a
    change of one is seen in the other, on either side.
    """
    weights = torch.stack([parameters_to_vector(model.parameters()) for model in models]).detach()
    for row, model in zip(weights, models, strict=True):
        vector_to_parameters(row, model.parameters())
    return weights


class StackedAdamW:
    """AdamW without weight decay on the ``weights`` (R, P) of R models, each with a learning rate of its own.

    torch's has one rate for all, and would have to be called R times. Up to rounding each row goes its way.
    """

    def __init__(self, weights: Tensor, betas: tuple[float, float], epsilon: float):
        self.weights, self.betas, self.epsilon = weights, betas, epsilon
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.count = torch.zeros(len(weights), 1, dtype=torch.float64, device=weights.device)

    def step(self, gradients: Tensor, rates: Tensor, going: Tensor) -> None:
        """A step of all rows that are ``going`` (R,) bool, along ``gradients`` (R, P), with ``rates`` (R,).

        The others stay as they are, whatever their gradients hold.
        """
        (first, second), going = self.betas, going[:, None]
        gradients, one = gradients.where(going, 0.0), going.to(gradients.dtype)
        self.mean.lerp_(gradients, (1 - first) * one)
        self.square.lerp_(gradients.square(), (1 - second) * one)
        count = self.count + 1
        self.count += going
        size = rates[:, None] * one / (1 - first**count).float()
        width = (self.square.sqrt() / (1 - second**count).sqrt().float()).add_(self.epsilon)
        self.weights.sub_(size * self.mean / width)


def clip(gradients: Tensor, limits: Tensor) -> Tensor:
    """Shorten each of ``gradients`` (R, P) to its own of the ``limits`` (R,), as ``clip_grad_norm_`` does. Returns the
    norms (R,) before.
    """
    norms = gradients.norm(dim=1)
    gradients.mul_((limits / (norms + 1e-6)).clamp(max=1.0)[:, None])
    return norms
