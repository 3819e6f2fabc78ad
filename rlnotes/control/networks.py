"""The one network of the classic loops: a policy and a value function, apart from each other."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

HIDDEN = 64


class ActorCritic(nn.Module):
    """Policy over ``actions`` discrete actions and value of observations (..., ``observation_size``), float32.

    Two networks of two tanh layers each. They share no weight, so the critic's loss does not move the policy.
    All weights are orthogonal and come from ``generator``; biases are 0. The policy's last layer is small: it starts
    almost uniform, whatever the observation.
    """

    def __init__(self, observation_size: int, actions: int, generator: torch.Generator):
        super().__init__()
        for name, size, least in (("observation_size", observation_size, 1), ("actions", actions, 2)):
            if size < least:
                raise ValueError(f"{name} is {size}; it must be at least {least}")
        self.policy_net = _mlp(observation_size, actions, 0.01, generator)
        self.value_net = _mlp(observation_size, 1, 1.0, generator)

    def logits(self, obs: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., actions) of observations (..., observation_size)."""
        return self.policy_net(obs)

    def log_probs(self, obs: Tensor) -> Tensor:
        """Log-probabilities (..., actions) of observations (..., observation_size)."""
        return torch.log_softmax(self.logits(obs), dim=-1)

    def value(self, obs: Tensor) -> Tensor:
        """Values (...,) of observations (..., observation_size): of their shape, without a last axis of one."""
        return self.value_net(obs).squeeze(-1)


def _mlp(inputs: int, outputs: int, last_gain: float, generator: torch.Generator) -> nn.Sequential:
    sizes, gains = (inputs, HIDDEN, HIDDEN, outputs), (math.sqrt(2), math.sqrt(2), last_gain)
    layers: list[nn.Module] = []
    for before, after, gain in zip(sizes[:-1], sizes[1:], gains, strict=True):
        layer = skip_init(nn.Linear, before, after)  # the usual start would draw from the global generator
        assert isinstance(layer, nn.Linear)
        nn.init.orthogonal_(layer.weight, gain, generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])
