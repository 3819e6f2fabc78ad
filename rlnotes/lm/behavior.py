"""The switchboard of the behaviour policy: how mu, which samples, is made to differ from pi, which learns.

In production the two differ by accident: another kernel, another precision, older weights. Here they differ on
purpose, one cause at a time, and the sampler records the log-probabilities of the mu that it really drew from.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from rlnotes.lm.config import RolloutWeights
from rlnotes.lm.model import Transformer


@dataclass(frozen=True)
class Behavior:
    """What stands between pi and mu. ``Behavior()`` is nothing: mu is pi, bit for bit, up to the sampling transform.

    | field | meaning |
    |---|---|
    | ``weights`` | ``"bfloat16"``: mu's weights are pi's, rounded to bfloat16; it computes in pi's own precision |
    | ``logit_noise`` | standard deviation of Gaussian noise on every logit of mu, fresh for each token sampled |

    Noise makes mu a random policy: each token has a distribution of its own, and its log-probability is the one in
    that distribution. Importance weights pi / mu are exact all the same, whatever the noise was.
    """

    weights: RolloutWeights = "float32"
    logit_noise: float = 0.0

    def __post_init__(self):
        if self.weights not in get_args(RolloutWeights):
            raise ValueError(f"weights is {self.weights!r}; choose one of {', '.join(get_args(RolloutWeights))}")
        if not 0 <= self.logit_noise < float("inf"):
            raise ValueError(f"logit_noise is {self.logit_noise}; it must be 0 (none) or positive and finite")

    @torch.no_grad()
    def rollout_model(self, model: Transformer) -> Transformer:
        """The model that samples: ``model`` itself, or a changed copy of it. ``model`` is never changed."""
        if self.weights == "float32":
            return model
        copy = deepcopy(model).requires_grad_(False)
        for weight in copy.parameters():
            weight.copy_(weight.to(torch.bfloat16))
        return copy

    def logits(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """mu's logits (..., V) from those of the rollout model. Without noise nothing is drawn from ``generator``."""
        if self.logit_noise == 0:
            return logits
        noise = torch.empty_like(logits).normal_(0.0, self.logit_noise, generator=generator)
        return logits + noise
