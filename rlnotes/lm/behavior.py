"""The switchboard of the behaviour policy: how mu, which samples, is made to differ from pi, which learns.

In production the two differ by accident: another kernel, another precision, older weights. Here they differ on
purpose, one cause at a time, and the sampler records the log-probabilities of the mu that it really drew from.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.lm.config import RolloutKVCache, RolloutWeights
from rlnotes.lm.model import Transformer
from rlnotes.lm.quantize import fake_quantized
from rlnotes.lm.share import ALONE, Share
from rlnotes.lm.versions import VersionMixture

_BLOCK_WEIGHTS = ("qkv.weight", "out.weight", "up.weight", "down.weight")  # of attention, network, experts


class SplitLinear(nn.Module):
    """A linear layer that adds up its products in ``pieces``: equal in real numbers, in floating point nearly."""

    def __init__(self, layer: nn.Linear, pieces: int):
        super().__init__()
        self.weight, self.pieces = layer.weight, pieces

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (..., in) to (..., out)."""
        parts = zip(x.tensor_split(self.pieces, -1), self.weight.tensor_split(self.pieces, -1), strict=True)
        return torch.stack([F.linear(part, weight) for part, weight in parts]).sum(0)


@dataclass(frozen=True)
class Behavior:
    """What stands between pi and mu. ``Behavior()`` is nothing: mu is pi, bit for bit, up to the sampling transform.

    | field | meaning |
    |---|---|
    | ``weights`` | mu's weights are pi's, rounded to this format; it computes in pi's own precision |
    | ``logit_noise`` | standard deviation of Gaussian noise on every logit of mu, fresh for each token sampled |
    | ``kv_cache`` | what mu remembers of a text, its keys and values, prompt included, is rounded to this format |
    | ``blocks`` | mu adds up each product of a linear layer in this many pieces: the same sum in another order |
    | ``mixture`` | older weights that sample too, each its own tokens; the switches above apply to every version |

    Noise makes mu a random policy: each token has a distribution of its own, and its log-probability is the one in
    that distribution. Importance weights pi / mu are exact all the same, whatever the noise was.

    bfloat16 rounds every weight, for a server that loads such a copy has no others. The formats with a scale round the
    linear layers of the blocks, where nearly all weights are, and leave what servers leave: the embeddings, which are
    looked up and not multiplied, the norms, the head, and a mixture's router, which is small and decides much.
    """

    weights: RolloutWeights = "float32"
    logit_noise: float = 0.0
    kv_cache: RolloutKVCache = "float32"
    blocks: int = 1
    mixture: VersionMixture | None = None

    def __post_init__(self):
        for name, formats in (("weights", get_args(RolloutWeights)), ("kv_cache", get_args(RolloutKVCache))):
            if getattr(self, name) not in formats:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(formats)}")
        if not 0 <= self.logit_noise < float("inf"):
            raise ValueError(f"logit_noise is {self.logit_noise}; it must be 0 (none) or positive and finite")
        if self.blocks < 1:
            raise ValueError(f"blocks is {self.blocks}; it must be 1 (one sum) or more")

    @torch.no_grad()
    def rollout_model(self, model: Transformer) -> Transformer:
        """The model that samples: ``model`` itself, or a changed copy of it. ``model`` is never changed.

        Raises ``ValueError`` for a weight that is not finite, and for more ``blocks`` than a sum has terms.
        """
        if self.weights == "float32" and self.blocks == 1:
            return model
        if self.blocks > model.config.d_model:
            raise ValueError(f"blocks is {self.blocks}; the shortest sum has {model.config.d_model} terms: take fewer")
        copy = deepcopy(model).requires_grad_(False)
        for name, weight in copy.named_parameters():
            if self.weights == "bfloat16" or name.endswith(_BLOCK_WEIGHTS):
                weight.copy_(fake_quantized(weight, self.weights, name))
        if self.blocks > 1:
            for name, layer in list(copy.named_modules()):
                if isinstance(layer, nn.Linear):
                    copy.set_submodule(name, SplitLinear(layer, self.blocks))
        return copy

    def logits(self, logits: Tensor, generator: torch.Generator, share: Share = ALONE) -> Tensor:
        """mu's logits (n, V) from those of the rollout model. Without noise nothing is drawn from ``generator``.

        The n responses are ``share`` of those that are sampled.
        """
        if self.logit_noise == 0:
            return logits
        return logits + share.noise(logits, partial(Tensor.normal_, std=self.logit_noise), generator)
