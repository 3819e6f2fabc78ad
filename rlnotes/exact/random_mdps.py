"""Random processes, pairs of policies and mixtures, to try bounds on. Every one comes from a NumPy generator.

Random cases seldom come near a bound's worst case: that none of them breaks a bound says little about its constant.
"""

from collections.abc import Callable

import numpy as np

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture, step_kernel

Pair = tuple[np.ndarray, np.ndarray]


def random_mdp(rng: np.random.Generator, states: int, actions: int, gamma: float, concentration: float = 1.0) -> MDP:
    """Dirichlet rows, rewards uniform in [-1, 1]. A ``concentration`` well below 1 makes steps near-deterministic.

    >>> mdp = random_mdp(np.random.default_rng(0), states=3, actions=2, gamma=0.9)
    >>> mdp.states, mdp.actions
    (3, 2)
    """
    return MDP(
        rng.dirichlet(np.full(states, concentration), size=(states, actions)),
        rng.uniform(-1, 1, (states, actions)),
        rng.dirichlet(np.ones(states)),
        gamma,
    )


def sparse_mdp(rng: np.random.Generator, states: int, actions: int, gamma: float, branches: int = 2) -> MDP:
    """As :func:`random_mdp`, but a step has ``branches`` outcomes at most, and every trajectory starts in state 0.

    With one branch all steps are deterministic. Raises ``ValueError`` unless 1 <= ``branches`` <= ``states``.
    """
    if not 1 <= branches <= states:
        raise ValueError(f"branches is {branches}; a step needs between 1 and {states} outcomes, the number of states")
    P = np.zeros((states, actions, states))
    for row in P.reshape(-1, states):
        row[rng.choice(states, branches, replace=False)] = rng.dirichlet(np.ones(branches))
    return MDP(P, rng.uniform(-1, 1, (states, actions)), np.eye(states)[0], gamma)


def ending_mdp(rng: np.random.Generator, states: int, actions: int, gamma: float = 1.0) -> MDP:
    """A process whose last state is an end, which every step reaches with a chance of at least 0.1."""
    live = random_mdp(rng, states, actions, gamma)
    end = np.eye(states)[-1]
    P, r, start = 0.9 * live.P + 0.1 * end, live.r.copy(), live.start
    P[-1], r[-1] = end, 0.0
    return MDP(P, r, start, gamma)


def any_mdp(rng: np.random.Generator) -> MDP:
    """2 to 6 states, 2 to 5 actions, gamma in [0.5, 0.99]; dense, near-deterministic or sparse.

    >>> mdp = any_mdp(np.random.default_rng(0))
    >>> 2 <= mdp.states <= 6, 2 <= mdp.actions <= 5
    (True, True)
    """
    states, actions, gamma = int(rng.integers(2, 7)), int(rng.integers(2, 6)), float(rng.uniform(0.5, 0.99))
    if rng.random() < 0.3:
        return sparse_mdp(rng, states, actions, gamma, branches=int(rng.integers(1, states + 1)))
    return random_mdp(rng, states, actions, gamma, concentration=float(10 ** rng.uniform(-1.3, 0.7)))


def random_policy(rng: np.random.Generator, states: int, actions: int, concentration: float = 1.0) -> np.ndarray:
    """A policy (S, A) with Dirichlet rows.

    >>> pi = random_policy(np.random.default_rng(0), states=3, actions=2)
    >>> print(pi.shape, pi.sum(-1).round(3))
    (3, 2) [1. 1. 1.]
    """
    return rng.dirichlet(np.full(actions, concentration), size=states)


def near_pair(rng: np.random.Generator, states: int, actions: int) -> Pair:
    """Old and new policy: the new one mixes in 0.1 to 10 percent of another.

    >>> old, new = near_pair(np.random.default_rng(0), states=3, actions=2)
    >>> bool(np.abs(new - old).max() <= 0.1)
    True
    """
    old = random_policy(rng, states, actions)
    step = 10 ** rng.uniform(-3, -1)
    return old, (1 - step) * old + step * random_policy(rng, states, actions)


def far_pair(rng: np.random.Generator, states: int, actions: int) -> Pair:
    """Old and new policy, independent."""
    return random_policy(rng, states, actions), random_policy(rng, states, actions)


def near_deterministic_pair(rng: np.random.Generator, states: int, actions: int) -> Pair:
    """Old and new policy, independent, each with nearly all of a row on one action."""
    return random_policy(rng, states, actions, 0.05), random_policy(rng, states, actions, 0.05)


def disjoint_pair(rng: np.random.Generator, states: int, actions: int) -> Pair:
    """Old and new policy that share no action in any state: no importance ratio exists. Needs 2 actions."""
    if actions < 2:
        raise ValueError(f"actions is {actions}; two policies that share none need at least 2")
    own = np.array([rng.permutation(actions) for _ in range(states)]) < rng.integers(1, actions)
    return _restricted(random_policy(rng, states, actions), own), _restricted(random_policy(rng, states, actions), ~own)


PAIRS: dict[str, Callable[[np.random.Generator, int, int], Pair]] = {
    "near": near_pair,
    "far": far_pair,
    "near-deterministic": near_deterministic_pair,
    "disjoint": disjoint_pair,
}


def trajectory_mixture(rng: np.random.Generator, states: int, actions: int, size: int) -> Mixture:
    """``size`` policies, each kept for a whole trajectory.

    >>> mixture = trajectory_mixture(np.random.default_rng(0), 3, actions=2, size=2)
    >>> print(mixture.kernel)
    [[1. 0.]
     [0. 1.]]
    """
    return Mixture(_policies(rng, states, actions, size), rng.dirichlet(np.ones(size)), np.eye(size))


def step_mixture(rng: np.random.Generator, states: int, actions: int, size: int) -> Mixture:
    """``size`` policies that take turns: each step may hand over to another one.

    >>> mixture = step_mixture(np.random.default_rng(0), states=3, actions=2, size=2)
    >>> bool((mixture.kernel > 0).all())
    True
    """
    kernel = step_kernel(rng.random(size), rng.dirichlet(np.ones(size), size=size))
    return Mixture(_policies(rng, states, actions, size), rng.dirichlet(np.ones(size)), kernel)


def _policies(rng: np.random.Generator, states: int, actions: int, size: int) -> np.ndarray:
    return np.array([random_policy(rng, states, actions) for _ in range(size)])


def _restricted(pi: np.ndarray, support: np.ndarray) -> np.ndarray:
    """``pi`` given that its action is in ``support`` (S, A) bool."""
    kept = np.where(support, pi, 0.0)
    return kept / kept.sum(-1, keepdims=True)
