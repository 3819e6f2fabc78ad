"""Walks read from an environment's table are those that its own steps make."""

from bisect import bisect_right
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlnotes.control.walks import Move, walks

ENVS = {
    "chance": ("FrozenLake-v1", 1000),
    "cut off": ("FrozenLake-v1", 7),
    "two starts": ("Taxi-v4", 20),
    "no limit": ("FrozenLake-v1", -1),
}


def by_steps(env, pi, episodes, rng):
    """The same walks, slowly: every move is asked of the environment."""
    env.reset(seed=int(rng.integers(2**31)))
    for _ in range(episodes):
        state, over = env.reset()[0], False
        while not over:
            action = bisect_right(np.cumsum(pi[state])[:-1].tolist(), rng.random())
            following, reward, terminated, truncated, _ = env.step(action)
            yield Move(state, action, following, reward, terminated), terminated or truncated
            state, over = following, terminated or truncated


@pytest.mark.parametrize("name", ENVS)
def test_the_table_makes_the_moves_that_steps_make(name):
    which, limit = ENVS[name]
    env = gymnasium.make(which, max_episode_steps=limit)
    table = env.unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
    pi = np.random.default_rng(3).dirichlet(np.ones(len(table[0])), len(table))
    found = walks(env, pi, 100, np.random.default_rng(1))
    own, last = zip(*by_steps(env, pi, 100, np.random.default_rng(1)), strict=True)
    assert [move for walk in found for move in walk] == list(own)
    assert np.cumsum([len(walk) for walk in found]).tolist() == (np.flatnonzero(last) + 1).tolist()


def test_chances_that_add_up_to_less_than_one_by_rounding_fall_back_to_the_first_outcome():
    class Short(gymnasium.Env):
        P = (([(0.0, 0, 1.0, True), (1e-12, 0, 2.0, True)],),)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
            super().reset(seed=seed)
            return 0, {}

    assert {walk[0].reward for walk in walks(Short(), np.ones((1, 1)), 20, np.random.default_rng(0))} == {1.0}


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(ValueError, match="has no table P; take a tabular environment such as FrozenLake-v1"):
        walks(gymnasium.make("CartPole-v1"), np.ones((1, 2)), 1, np.random.default_rng(0))
