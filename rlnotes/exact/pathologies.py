"""Small decision processes in which a plausible method goes wrong, as processes and in closed form."""

from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mdp_families import Case

# --- 002 Example 4.1.1: a step that the surrogate praises


def surrogate_trap(
    step: np.ndarray, damage: float, rare: float, careless: float = 0.001, gamma: float = 0.9
) -> tuple[np.ndarray, np.ndarray]:
    """What a local surrogate predicts and what the return does: 002 Example 4.1.1, for a step of any size.

    From the start a door leads to a room, and is taken with probability ``rare``. In the room one button pays 1, the
    other costs ``damage``; the old policy presses the bad one with probability ``careless``. The new policy mixes the
    old one with "always through the door, always the bad button", in proportion ``step`` in [0, 1]. Returns the
    predicted and the true change of the expected discounted return, arrays like ``step``. The process itself is
    :func:`door_and_buttons`.

    >>> predicted, true = surrogate_trap(np.array([0.01, 1.0]), damage=10.0, rare=0.01)
    >>> print(predicted.round(2), true.round(2))
    [0.01 0.78] [ 0.01 -9.01]
    """
    value = 1 - careless * (1 + damage)  # of the room, under the old policy
    advantage_door, advantage_button = (1 - rare) * gamma * value, -(1 + damage) * (1 - careless)
    predicted = step * (advantage_door + rare * gamma * advantage_button)
    door, button = (1 - step) * rare + step, (1 - step) * careless + step
    return predicted, gamma * door * (1 - button * (1 + damage)) - gamma * rare * value


def door_and_buttons(damage: float, rare: float, careless: float = 0.001, gamma: float = 0.9) -> Case:
    """002 Example 4.1.1 as a process with the source's new and old policy (3, 2), at a step of size 1.

    States: start, room, end. Actions: stay out, door; in the room good, bad. The source's M, eta, eta_2 are ``damage``,
    ``rare``, ``careless``. Raises ``ValueError`` for shares outside [0, 1].

    >>> from rlnotes.exact.mdp import performance_difference, surrogate
    >>> case = door_and_buttons(damage=10.0, rare=0.01)
    >>> print(f"L {surrogate(*case):.3f}, change {performance_difference(*case):.3f}")
    L 0.782, change -9.009
    """
    P = np.zeros((3, 2, 3))
    P[0, 0, 2] = P[0, 1, 1] = P[1, :, 2] = P[2, :, 2] = 1
    mdp = MDP(P, np.array([[0.0, 0.0], [1.0, -damage], [0.0, 0.0]]), np.eye(3)[0], gamma)
    anything = [1.0, 0.0]  # at the end nothing depends on the action
    new, old = [[0.0, 1.0], [0.0, 1.0], anything], [[1 - rare, rare], [1 - careless, careless], anything]
    return Case(mdp, mdp.policy(new, "new"), mdp.policy(old, "old"))


# --- A step that the surrogate condemns


def two_rooms(gamma: float = 0.9) -> Case:
    """Two rooms: a small step from old towards new does harm, and the full step gains.

    Action 0 heads for room 0 and action 1 for room 1. In room 0 heading for it pays 1, in room 1 heading for it pays 2.
    The old policy always takes action 0, the new one action 1; the start is in room 0. At gamma = 0.9 the surrogate of
    the full step is about -15.5, and the return grows by about 7.5.

    >>> from rlnotes.exact.mdp import performance_difference, surrogate
    >>> case = two_rooms(gamma=0.9)
    >>> print(f"L {surrogate(*case):.2f}, change {performance_difference(*case):.2f}")
    L -15.47, change 7.46
    """
    P = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.1, 0.9]]])
    mdp = MDP(P, np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.0]), gamma)
    always = np.eye(2)
    return Case(mdp, always[[1, 1]], always[[0, 0]])


# --- 002 Example 4.1.2: trajectory weights


def counted_steps(horizon: int, gamma: float, endless: bool) -> MDP:
    """002 Example 4.1.2 as a process that is Markov: the state counts the steps, and no action matters.

    States: 0 to ``horizon`` - 1, then the source's absorbing state, ``horizon``, which pays 1. ``endless`` takes the
    example at its word: that state pays at every step, and the return is gamma^H / (1 - gamma). Else it pays once and
    leads to one more state, which pays nothing, and the return is gamma^H, as the source wants. Raises ``ValueError``
    for a horizon below 1.

    >>> from rlnotes.exact.mdp import expected_return
    >>> pi = np.full((4, 2), 0.5)
    >>> expected_return(counted_steps(horizon=2, gamma=0.5, endless=False), pi)
    0.25
    """
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}; at least one step is needed")
    states = horizon + (1 if endless else 2)
    following = np.minimum(np.arange(states) + 1, states - 1)
    P = np.repeat(np.eye(states)[following][:, None], 2, axis=1)
    r = np.zeros((states, 2))
    r[horizon] = 1
    return MDP(P, r, np.eye(states)[0], gamma)


class Law(NamedTuple):
    """A distribution of finitely many values."""

    values: np.ndarray
    probabilities: np.ndarray


def trajectory_weight_law(horizon: int, p: float, q: float) -> Law:
    """The weight w of a trajectory of ``horizon`` independent choices between 0 and 1: 002 Example 4.1.2.

    The behaviour takes action 1 with probability ``p``, the target with ``q``, both strictly between 0 and 1. A weight
    depends only on how many ones there are, so there are ``horizon`` + 1 values. Raises ``ValueError`` otherwise.

    >>> law = trajectory_weight_law(horizon=2, p=0.5, q=0.75)
    >>> print(law.values, law.probabilities.round(3))
    [0.25 0.75 2.25] [0.25 0.5  0.25]
    """
    for name, share in (("p", p), ("q", q)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}; a probability strictly between 0 and 1 is needed")
    ones = np.arange(horizon + 1)
    return Law((q / p) ** ones * ((1 - q) / (1 - p)) ** (horizon - ones), binom.pmf(ones, horizon, p))
