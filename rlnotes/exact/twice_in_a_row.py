"""A process of two states for mixtures of versions: a right answer pays 1 if the one before it was right as well.

A policy is one number, its chance of a right answer. The state says whether the answer before was right; the first
state says no. So J(p) = gamma p^2 / (1 - gamma), which is p^2 at gamma = 1/2.
"""

import numpy as np

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture, step_kernel

OLD, CURRENT = 0, 1  # indices of the two versions


def twice_in_a_row(gamma: float) -> MDP:
    """States: the answer before was wrong (0), or right (1). Actions: a wrong answer (0), a right one (1).

    >>> from rlnotes.exact.mdp import expected_return
    >>> round(expected_return(twice_in_a_row(gamma=0.5), answers(0.75)), 4)  # 0.75^2
    0.5625
    """
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1
    return MDP(P, np.array([[0.0, 0.0], [0.0, 1.0]]), np.eye(2)[0], gamma)


def answers(right: float) -> np.ndarray:
    """The policy (2, 2) that answers right with this chance in either state.

    >>> print(answers(0.75))
    [[0.25 0.75]
     [0.25 0.75]]
    """
    if not 0 <= right <= 1:
        raise ValueError(f"right is {right}; a probability lies in [0, 1]")
    return np.array([[1 - right, right]] * 2)


def two_versions(old: float, current: float, share: float, sigma: float) -> Mixture:
    """A ``share`` of trajectories begins with the old version; each step leaves it with chance ``sigma``, for good.

    ``old`` and ``current`` are the versions' chances of a right answer. ``sigma`` 0 is the trajectory level.
    Raises ``ValueError`` for a chance outside [0, 1].

    >>> mixture = two_versions(old=0.25, current=0.5, share=0.5, sigma=0.1)
    >>> print(mixture.alpha, mixture.kernel)
    [0.5 0.5] [[0.9 0.1]
     [0.  1. ]]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; a probability lies in [0, 1]")
    to_current = np.array([[0.0, 1.0]] * 2)
    kernel = step_kernel(np.array([sigma, 0.0]), to_current)
    return Mixture(np.array([answers(old), answers(current)]), np.array([share, 1 - share]), kernel)
