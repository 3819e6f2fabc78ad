"""Steps of environments side by side, with every row's ending told apart.

A vector environment starts an episode again by itself, in one of two ways, and code written for one is silently wrong
in the other. ``NEXT_STEP``: the call *after* the end ignores the action and returns the new start, with reward 0. That
row never happened in the environment: it is a phantom. ``SAME_STEP``: the call that ends the episode already returns
the new start, and the final observation stands in ``info``. The collector gives the same transitions in both.
"""

import math
from collections import deque
from dataclasses import dataclass, fields
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from rlnotes.control.networks import ActorCritic

RECENT = 100  # episodes in the running mean of returns


@dataclass(frozen=True)
class Steps:
    """T steps of N environments. Phantom rows are there and mean nothing: take ``x[steps.valid]`` of everything.

    ``ended`` keeps a phantom, and all that comes after an end, out of what is summed backwards along time.
    """

    obs: Tensor
    """(T, N, ...) float32, what the action was chosen on"""
    actions: Tensor
    """(T, N) int64, counted from 0"""
    logp: Tensor
    """(T, N) log-probability of the action under the policy that chose it, as it was then"""
    rewards: Tensor
    """(T, N) float32"""
    terminated: Tensor
    """(T, N) bool: the episode is over, and nothing is worth having after it"""
    truncated: Tensor
    """(T, N) bool: a limit stopped the episode, and its final observation keeps its value"""
    valid: Tensor
    """(T, N) bool, False on rows that are no transition of an episode asked for"""
    next_obs: Tensor
    """(T, N, ...) float32, what followed; at an end the final observation, never the next episode's first"""
    finished: list[float]
    """undiscounted returns of the episodes that ended here, in the order of their ends"""

    @property
    def ended(self) -> Tensor:
        """(T, N) bool: nothing of the next row belongs to this one. True on ends and on rows that are not valid."""
        return self.terminated | self.truncated | ~self.valid


def make_envs(
    name: str, n: int, seed: int, autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP
) -> VectorEnv[Any, Any, Any]:
    """``n`` environments ``name`` side by side in this process, seeded, action space included.

    ``SAME_STEP`` spends no call on phantoms. A time limit that Gymnasium puts around the environment comes back as
    ``truncated``. Raises ``ValueError`` for ``n`` below 1 and a negative ``seed``.
    """
    if n < 1:
        raise ValueError(f"n is {n}; at least one environment is needed")
    envs = gymnasium.make_vec(
        name, n, vectorization_mode="sync", vector_kwargs=dict(autoreset_mode=AutoresetMode(autoreset))
    )
    _seed(envs, seed)
    return envs


def make_network(envs: VectorEnv[Any, Any, Any], generator: torch.Generator) -> ActorCritic:
    """A fresh network for the spaces of ``envs``. Raises ``ValueError`` for spaces that it cannot serve."""
    _check_spaces(envs)
    (size,), actions = envs.single_observation_space.shape, envs.single_action_space.n  # type: ignore
    return ActorCritic(size, int(actions), generator)


class Collector:
    """Steps ``envs`` with a network's policy. Actions are drawn from ``generator``, starts follow from ``seed``.

    The seed is given to the environments once, here: at every reset it would give one start again and again.
    Raises ``ValueError`` for an autoreset mode other than ``NEXT_STEP`` and ``SAME_STEP``, and for spaces other than a
    flat box of observations and discrete actions.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], generator: torch.Generator, seed: int):
        self.mode = _autoreset_mode(envs)
        _check_spaces(envs)
        self.envs, self.generator = envs, generator
        self.env_steps = 0  # transitions so far, phantoms not counted
        self.recent: deque[float] = deque(maxlen=RECENT)
        self._begin(_seed(envs, seed))

    @property
    def return_mean(self) -> float:
        """Mean return of the last 100 episodes, undiscounted; NaN before the first one ends."""
        return sum(self.recent) / len(self.recent) if self.recent else math.nan

    def collect(self, network: ActorCritic, steps: int) -> Steps:
        """The next ``steps`` rows, T, of every environment, going on where the last call stopped.

        An episode that goes on after the last row has no flag there: its ``next_obs`` is worth its value.
        """
        if steps < 1:
            raise ValueError(f"steps is {steps}; it must be at least 1")
        return _stack([self._step(network) for _ in range(steps)])

    def collect_episodes(self, network: ActorCritic) -> Steps:
        """One whole episode of every environment: N trajectories from the start distribution, 002 eq. (37).

        T is the length of the longest; rows after an environment's own end are not valid. To take the first N
        episodes that end would prefer short ones.
        """
        self._begin(self.envs.reset()[0])
        rows = []
        while self._wanted.any():
            rows.append(self._step(network))
            self._wanted &= ~rows[-1].ended.numpy()
        self._begin(self.envs.reset()[0])
        return _stack(rows)

    def _begin(self, obs: np.ndarray) -> None:
        n = self.envs.num_envs
        self._obs = _float(obs)
        self._returns = np.zeros(n)
        self._phantom = np.zeros(n, dtype=bool)  # the next call only resets this environment
        self._wanted = np.ones(n, dtype=bool)

    @torch.no_grad()
    def _step(self, network: ActorCritic) -> Steps:
        """One call of the environments: :class:`Steps` without the time axis."""
        log_probs = network.log_probs(self._obs)
        uniform = torch.rand(log_probs.shape, generator=self.generator)
        actions = (log_probs - torch.log(-torch.log(uniform))).argmax(-1)  # Gumbel-max: a draw from the softmax
        first = self.envs.single_action_space.start  # type: ignore  # spaces are checked: it is Discrete
        following, rewards, terminated, truncated, info = self.envs.step(actions.numpy() + first)
        valid = self._wanted & ~self._phantom
        terminated, truncated = terminated & valid, truncated & valid
        ended = terminated | truncated
        self._returns += np.where(valid, rewards, 0.0)
        finished = self._returns[ended].tolist()
        self._returns[ended] = 0.0
        self._phantom = ended & (self.mode is AutoresetMode.NEXT_STEP)
        last = following
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            last = following.copy()
            for i in np.flatnonzero(ended):
                last[i] = info["final_obs"][i]
        obs, self._obs = self._obs, _float(following)
        self.env_steps += int(valid.sum())
        self.recent.extend(finished)
        return Steps(
            obs=obs,
            actions=actions,
            logp=log_probs.gather(-1, actions[:, None]).squeeze(-1),
            rewards=_float(rewards),
            terminated=torch.from_numpy(terminated),
            truncated=torch.from_numpy(truncated),
            valid=torch.from_numpy(valid),
            next_obs=_float(last),
            finished=finished,
        )


def _stack(rows: list[Steps]) -> Steps:
    tensors = {
        field.name: torch.stack([getattr(row, field.name) for row in rows])
        for field in fields(Steps)
        if field.name != "finished"
    }
    return Steps(**tensors, finished=[value for row in rows for value in row.finished])


def _float(array: np.ndarray) -> Tensor:
    """A float32 copy: environments may write into the arrays that they returned."""
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _seed(envs: VectorEnv[Any, Any, Any], seed: int) -> np.ndarray:
    """Seed the environments and what their action space draws; returns the first observations."""
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    envs.action_space.seed(seed)  # reset does not reach it
    return envs.reset(seed=seed)[0]


def _autoreset_mode(envs: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    if not isinstance(envs, VectorEnv):
        raise ValueError(f"envs is {envs}, not a vector environment; make one with make_envs(name, n, seed)")
    mode = envs.metadata.get("autoreset_mode")
    if mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        raise ValueError(
            f"envs.metadata['autoreset_mode'] is {mode}, which this collector was not written for; "
            "make the environments with make_envs(name, n, seed), or with SAME_STEP or NEXT_STEP"
        )
    return mode


def _check_spaces(envs: VectorEnv[Any, Any, Any]) -> None:
    observation, action = envs.single_observation_space, envs.single_action_space
    if not (isinstance(observation, Box) and len(observation.shape) == 1):
        raise ValueError(f"observations are {observation}; a Box of one axis is needed: wrap with FlattenObservation")
    if not isinstance(action, Discrete):
        raise ValueError(f"actions are {action}; Discrete ones are needed, as CartPole-v1 has them")
