"""Episodes of a Gymnasium environment with numbered states, by a policy that is a table."""

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Move(NamedTuple):
    """One step of an episode."""

    state: int
    action: int
    following: int
    reward: float
    terminated: bool


class _Outcomes(NamedTuple):
    """What may come of an action: the moves, and for each the chance of it or of one before it."""

    reached: list[float]
    moves: list[Move]


def walks(env: Any, pi: np.ndarray, episodes: int, rng: np.random.Generator) -> list[list[Move]]:
    """Play ``episodes`` by ``pi`` (S, A), each until it ends or is cut off.

    All chance comes from ``rng``: actions directly, the environment by a seed. Moves are read from the environment's
    table ``P``, with its own random numbers: those that ``env.step`` would make, several times as fast. Raises
    ``ValueError`` for no episodes, and where ``P`` is missing.
    """
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; a mean needs at least one")
    if not hasattr(env.unwrapped, "P"):
        raise ValueError(f"{env.unwrapped} has no table P; take a tabular environment such as FrozenLake-v1")
    thresholds = np.cumsum(pi, axis=1)[:, :-1].tolist()  # plain lists: one number at a time they are faster
    table = [[_outcomes(s, a, env.unwrapped.P[s][a]) for a in range(pi.shape[1])] for s in range(pi.shape[0])]
    limit = env.spec.max_episode_steps if env.spec else None
    env.reset(seed=int(rng.integers(2**31)))
    act, move = rng.random, env.unwrapped.np_random.random
    return [_walk(env.reset()[0], table, thresholds, limit or math.inf, act, move) for _ in range(episodes)]


def _outcomes(state: int, action: int, listed: list[tuple[float, int, float, bool]]) -> _Outcomes:
    chances = [chance for chance, *_ in listed]
    moves = [Move(state, action, int(following), float(reward), over) for _, following, reward, over in listed]
    return _Outcomes(np.cumsum(chances).tolist(), moves)


def _walk(
    state: int,
    table: list[list[_Outcomes]],
    thresholds: list[list[float]],
    limit: float,
    act: Callable[[], float],
    move: Callable[[], float],
) -> list[Move]:
    """One episode. An action is the number of thresholds that a uniform draw reaches, and so is its outcome."""
    walk = []
    while len(walk) < limit:
        reached, moves = table[state][bisect_right(thresholds[state], act())]
        made = moves[
            bisect_right(reached, move()) % len(moves)
        ]  # beyond all, by rounding, is the first: as in Gymnasium
        walk.append(made)
        if made.terminated:
            break
        state = made.following
    return walk
