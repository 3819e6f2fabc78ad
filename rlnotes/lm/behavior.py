"""The switchboard of the behaviour policy: how mu, which samples, is made to differ from pi, which learns.

In production the two differ by accident: another kernel, another precision, older weights. Here they differ on
purpose, one cause at a time, and the sampler records the log-probabilities of the mu that it really drew from.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import TypeVar, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.exact.checks import distribution
from rlnotes.exact.mixtures import step_kernel
from rlnotes.lm.config import RolloutKVCache, RolloutWeights, TrainConfig
from rlnotes.lm.quantize import fake_quantized

Model = TypeVar("Model", bound=nn.Module)

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
class VersionMixture:
    """Which of M versions writes, the mixture of 000 sections 4 and 5. Twin of :class:`rlnotes.exact.mixtures.Mixture`.

    | field | meaning |
    |---|---|
    | ``lags`` (M,) | how many updates each version is behind the newest |
    | ``alpha`` (M,) | chances of the version that begins a response |
    | ``kernel`` (M, M) | row i: chances of the version of the next token after version i; None: it never changes |

    Without a kernel every response has one version, the trajectory level of 000 section 4.2. With one the version may
    change before each token after the first, the step level of 000 section 5.1, whatever the tokens are.
    Raises ``ValueError`` for a lag that is no whole number of updates and for rows that are no distributions.
    """

    lags: Sequence[int]
    alpha: Sequence[float]
    kernel: Sequence[Sequence[float]] | np.ndarray | None = None

    def __post_init__(self):
        if not self.lags:
            raise ValueError("lags is empty; name at least one version, (0,) is the newest")
        for i, lag in enumerate(self.lags):
            if not isinstance(lag, Integral) or lag < 0:
                raise ValueError(f"lags[{i}] is {lag}; a lag is a whole number of updates, 0 or more")
        m = len(self.lags)
        # plain numbers: a behaviour must compare and hash by its values
        object.__setattr__(self, "lags", tuple(int(lag) for lag in self.lags))
        object.__setattr__(self, "alpha", tuple(distribution("alpha", self.alpha, (m,)).tolist()))
        if self.kernel is not None:
            rows = distribution("kernel", self.kernel, (m, m)).tolist()
            object.__setattr__(self, "kernel", tuple(tuple(row) for row in rows))

    @property
    def size(self) -> int:
        """M."""
        return len(self.lags)

    def indices(self, n: int, length: int, generator: torch.Generator) -> Tensor:
        """Index (n, length) of the version that writes each token of ``n`` responses, on the generator's device.

        One uniform number a token is drawn, with a kernel or without; none if there is one version only.
        """
        device = generator.device
        if self.size == 1:
            return torch.zeros(n, length, dtype=torch.long, device=device)
        uniform = torch.rand(n, length, 1, generator=generator, device=device, dtype=torch.float64)
        current = _inverse(self.alpha, device).expand(n, -1).le(uniform[:, 0]).sum(-1)
        if self.kernel is None:
            return current[:, None].expand(n, length).contiguous()
        moves, drawn = _inverse(self.kernel, device), [current]
        for t in range(1, length):
            drawn.append(moves[drawn[-1]].le(uniform[:, t]).sum(-1))
        return torch.stack(drawn, 1)


def _inverse(rows: object, device: torch.device) -> Tensor:
    """Cumulated chances that end in exactly 1: a uniform number in [0, 1) then picks no index of chance 0."""
    sums = torch.tensor(rows, dtype=torch.float64, device=device).cumsum(-1)
    return sums / sums[..., -1:]


def mixture_of(config: TrainConfig) -> VersionMixture | None:
    """The mixture that a run is told to sample from: ``lags``, ``lag_weights``, ``switch``. None without lags."""
    if not config.lags:
        return None
    weights = config.lag_weights or (1.0,) * len(config.lags)
    alpha = [weight / sum(weights) for weight in weights]
    kernel = None
    if config.switch > 0:
        kernel = step_kernel(np.full(len(alpha), config.switch), np.tile(alpha, (len(alpha), 1)))
    return VersionMixture(config.lags, alpha, kernel)


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
    def rollout_model(self, model: Model) -> Model:
        """The model that samples: ``model`` itself, or a changed copy of it. ``model`` is never changed.

        Raises ``ValueError`` for a weight that is not finite, and for more ``blocks`` than a sum has terms.
        """
        if self.weights == "float32" and self.blocks == 1:
            return model
        terms = (layer.in_features for layer in model.modules() if isinstance(layer, nn.Linear))
        if self.blocks > 1 and self.blocks > (shortest := min(terms)):
            raise ValueError(f"blocks is {self.blocks}; the shortest sum has {shortest} terms: take fewer")
        copy = deepcopy(model).requires_grad_(False)
        for name, weight in copy.named_parameters():
            if self.weights == "bfloat16" or name.endswith(_BLOCK_WEIGHTS):
                weight.copy_(fake_quantized(weight, self.weights, name))
        if self.blocks > 1:
            for name, layer in list(copy.named_modules()):
                if isinstance(layer, nn.Linear):
                    copy.set_submodule(name, SplitLinear(layer, self.blocks))
        return copy
