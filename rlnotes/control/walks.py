"""Episodes of a Gymnasium environment with numbered states, by a policy that is a table."""

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np


class Move(NamedTuple):
    """One step of an episode."""

    state: int
    action: int
    following: int
    reward: float
    terminated: bool


def walks(env: Any, pi: np.ndarray, episodes: int, rng: np.random.Generator) -> list[list[Move]]:
    """Play ``episodes`` by ``pi`` (S, A), each until it ends or is cut off.

    All chance comes from ``rng``: actions directly, the environment by a seed. Raises ``ValueError`` for no episodes.
    """
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; a mean needs at least one")
    thresholds = np.cumsum(pi, axis=1)[:, :-1].tolist()  # plain lists: one number at a time they are faster
    env.reset(seed=int(rng.integers(2**31)))
    return [_walk(env, thresholds, rng) for _ in range(episodes)]


def _walk(env: Any, thresholds: list[list[float]], rng: np.random.Generator) -> list[Move]:
    """One episode. An action is the number of thresholds that a uniform draw reaches."""
    state, _ = env.reset()
    walk, over = [], False
    while not over:
        action = bisect_right(thresholds[state], rng.random())
        following, reward, terminated, truncated, _ = env.step(action)
        walk.append(Move(state, action, following, float(reward), terminated))
        state, over = following, terminated or truncated
    return walk
