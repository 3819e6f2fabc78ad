"""Rollouts written by hand, and a critic that reads its values off the observations."""

from typing import Any

import torch
from torch import Tensor, nn

from rlnotes.control.collector import Steps


def column(*numbers: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """(T, 1)."""
    return torch.tensor(numbers, dtype=dtype)[:, None]


class ReadOff(nn.Module):
    """Observations are (value,); the policy is uniform over two actions."""

    def value(self, obs: Tensor) -> Tensor:
        return obs[..., 0]

    def log_probs(self, obs: Tensor) -> Tensor:
        return torch.full((*obs.shape[:-1], 2), 0.5).log()


def two_episodes(how: str, phantom: bool = False) -> Steps:
    """Episode A, two steps, ended at its second ``how``; episode B goes on after the cut. All rewards are 1.

    V is 10 in A, its final observation too, and 2 in B. With ``phantom`` a row that never happened lies between.
    """
    ends = [False, True, False, False]
    never = [False] * 4
    rows = dict(
        obs=[10, 10, 2, 2],
        next_obs=[10, 10, 2, 2],
        rewards=[1, 1, 1, 1],
        terminated=ends if how == "terminated" else never,
        truncated=ends if how == "truncated" else never,
        valid=[True] * 4,
    )
    if phantom:
        fakes = dict(obs=10, next_obs=2, rewards=0, terminated=False, truncated=False, valid=False)
        rows = {name: [*row[:2], fakes[name], *row[2:]] for name, row in rows.items()}
    T = len(rows["obs"])
    flags = {name: column(*rows[name], dtype=torch.bool) for name in ("terminated", "truncated", "valid")}
    return Steps(
        obs=column(*rows["obs"])[..., None],
        next_obs=column(*rows["next_obs"])[..., None],
        rewards=column(*rows["rewards"]),
        actions=torch.zeros(T, 1, dtype=torch.int64),
        logp=torch.full((T, 1), 0.5).log(),
        finished=[],
        **flags,
    )
