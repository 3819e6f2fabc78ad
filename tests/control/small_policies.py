"""Policies small enough to write the Fisher matrix out."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rlnotes.estimators.divergences import kl


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def times(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: matrix @ v


H = vector(4, 1, 1, 3).view(2, 2)


class Linear:
    """Parameters x with surrogate g'x and KL x'Hx / 2: the quadratic model of TRPO is exact."""

    def __init__(self, h: Tensor, g: Tensor):
        self.h, self.g = h, g
        self.x = torch.zeros(len(g), dtype=torch.float64, requires_grad=True)

    def surrogate(self) -> Tensor:
        return self.g @ self.x

    def kl(self) -> Tensor:
        return self.x @ self.h @ self.x / 2


class SoftmaxPolicy:
    """A small network's policy on a batch of states, in float64, with advantages of the actions taken."""

    def __init__(self, seed: int, states: int = 12, actions: int = 3, scale: float = 1.0):
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.obs, self.advantages = draw(states, 2), draw(states)
        self.net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, actions)).double()
        self.parameters = list(self.net.parameters())
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.copy_(scale * draw(*parameter.shape))
        self.old = self.log_probs().detach()
        self.actions = torch.multinomial(self.old.exp(), 1, generator=generator)

    def log_probs(self) -> Tensor:
        return self.net(self.obs).log_softmax(-1)

    def surrogate(self) -> Tensor:
        return ((self.log_probs() - self.old).exp().gather(-1, self.actions)[:, 0] * self.advantages).mean()

    def kl(self) -> Tensor:
        return kl(self.old, self.log_probs()).mean()

    def reverse_kl(self) -> Tensor:
        return kl(self.log_probs(), self.old).mean()
