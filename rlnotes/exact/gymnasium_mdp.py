"""Tabular Gymnasium environments as exact decision processes."""

from typing import Any

import numpy as np

from rlnotes.exact.mdp import MDP


def from_gymnasium(env: Any, gamma: float) -> MDP:
    """The process of a Gymnasium environment that has a table ``P``: FrozenLake, CliffWalking, Taxi and their like.

    States and actions keep their numbers. A terminated outcome pays its reward once and leads to an end: to the next
    state of the table where that state is an end already, else to one extra state, the last. A time limit that
    ``gymnasium.make`` puts around the environment is not in the table, so it is not in this process either: see
    ``finite_horizon_values``. Raises ``ValueError`` where ``P`` or ``initial_state_distrib`` is missing.

    >>> import gymnasium
    >>> mdp = from_gymnasium(gymnasium.make("FrozenLake-v1"), gamma=0.9)
    >>> mdp.states, mdp.actions
    (16, 4)
    """
    base = env.unwrapped
    for name in ("P", "initial_state_distrib"):
        if not hasattr(base, name):
            raise ValueError(f"{base} has no table {name}; take a tabular environment such as FrozenLake-v1")
    table, start = base.P, np.asarray(base.initial_state_distrib, dtype=np.float64)
    S, A = len(table), len(table[0])
    is_end = [_is_end(table, state) for state in range(S)]
    P, r = np.zeros((S + 1, A, S + 1)), np.zeros((S + 1, A))
    P[S, :, S] = 1
    for s in range(S):
        for a in range(A):
            for probability, following, reward, terminated in table[s][a]:
                target = S if terminated and not is_end[following] else following
                P[s, a, target] += probability  # outcomes may name a state twice
                r[s, a] += probability * reward
    if not P[:S, :, S].any():  # nothing leads to the extra state
        return MDP(P[:S, :, :S], r[:S], start, gamma)
    return MDP(P, r, np.append(start, 0.0), gamma)


def _is_end(table: Any, state: int) -> bool:
    """Whether every outcome of ``state`` stays there and pays nothing."""
    return all(
        following == state and reward == 0
        for action in range(len(table[state]))
        for _, following, reward, _ in table[state][action]
    )
