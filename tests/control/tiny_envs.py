"""Environments whose every number is known."""

from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn

from rlnotes.control.networks import ActorCritic

BOTH_MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


class Count(gymnasium.Env):
    """Observes how many steps were made, pays 1 a step, and ends after ``lengths``, episode by episode, then never."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, lengths: tuple[int, ...] = (), truncate: bool = False, first: float = 0.0):
        self.lengths, self.truncate, self.first = lengths, truncate, first
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self.episode = 0 if seed is not None else self.episode + 1
        self.count = 0
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        """Later episodes count from 0."""
        return np.array([self.count + (self.first if self.episode == 0 else 0)], dtype=np.float32)

    def step(self, action: int):
        self.count += 1
        ends = self.episode < len(self.lengths) and self.count == self.lengths[self.episode]
        return self.observation(), self.reward(action), ends and not self.truncate, ends and self.truncate, {}

    def reward(self, action: int) -> float:
        return 1.0


class Pays(Count):
    """Two steps, and the reward is the action."""

    def __init__(self):
        super().__init__(lengths=(2,) * 10**6)

    def reward(self, action: int) -> float:
        return float(action)


class Leaves(Count):
    """Action 1 ends the episode: under the uniform policy it lasts n steps with probability 1/2^n."""

    def step(self, action: int):
        self.count += 1
        return self.observation(), 1.0, bool(action == 1), False, {}


def register(name: str, make: Callable[[], gymnasium.Env], max_episode_steps: int | None = None) -> str:
    """Give an environment a name that ``make_envs`` knows, and return it."""
    gymnasium.register(name, entry_point=lambda **_: make(), max_episode_steps=max_episode_steps)
    return name


def vector(makers: list[Callable[[], gymnasium.Env]], mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv(makers, autoreset_mode=mode)


class Fixed(ActorCritic):
    """The uniform policy over two actions, or one with ``logits``, and a value given as a function of observations."""

    def __init__(self, value: Callable[[Tensor], Tensor] = torch.zeros_like, logits: tuple[float, ...] = (0.0, 0.0)):
        super().__init__(1, 2, torch.Generator())
        self.table = nn.Parameter(torch.tensor(logits))
        self.function = value

    def logits(self, obs: Tensor) -> Tensor:
        return self.table.expand(*obs.shape[:-1], -1)

    def value(self, obs: Tensor) -> Tensor:
        return self.function(obs[..., 0])


def ten_then_two(obs: Tensor) -> Tensor:
    """V = 10 of what is counted from 100, and 2 of the rest."""
    return torch.where(obs >= 100, 10.0, 2.0)
