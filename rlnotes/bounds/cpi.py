"""Conservative policy iteration: how far to step from one policy towards another. 002 sections 4.4 and 4.5.

``old`` is the policy at hand, ``other`` the one to step towards, ``alpha`` in [0, 1] the size of the step.
"""

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.mdp import improvement_bound, largest_gain
from rlnotes.bounds.mdp_closed_forms import Numbers
from rlnotes.bounds.result import Bound
from rlnotes.exact.mdp import MDP, surrogate


def step(old: np.ndarray, other: np.ndarray, alpha: float) -> np.ndarray:
    """(1 - alpha) old + alpha other, (S, A): 002 eqs. (55), (64). Raises ``ValueError`` unless 0 <= alpha <= 1.

    >>> print(step(old=[[1.0, 0.0]], other=[[0.0, 1.0]], alpha=0.25))
    [[0.75 0.25]]
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; a step towards another policy lies in [0, 1]")
    return (1 - alpha) * np.asarray(old) + alpha * np.asarray(other)


def policy_advantage(mdp: MDP, old: np.ndarray, other: np.ndarray) -> float:
    """g = L_old(other): 002 eq. (58). L of a step is alpha g exactly: 002 eq. (57).

    >>> from rlnotes.exact.mdp_families import conservative_trap
    >>> mdp, other, old = conservative_trap(gamma=0.5)
    >>> round(policy_advantage(mdp, old, other), 3)
    2.0
    """
    return surrogate(mdp, other, old)


# --- Closed forms. ``gain`` is eps of 002 eq. (58)


def conservative_penalty(gamma: Numbers, gain: Numbers, alpha: Numbers) -> np.ndarray:
    """2 gamma eps alpha^2 / (1 - gamma)^2: 002 eqs. (59), (60). Arrays broadcast.

    >>> print(conservative_penalty(gamma=0.5, gain=1.0, alpha=0.25))
    0.25
    """
    return forms.mean_tv(gamma, np.multiply(alpha, gain), alpha)


def kakade_langford_penalty(gamma: Numbers, gain: Numbers, alpha: Numbers) -> np.ndarray:
    """2 gamma eps alpha^2 / ((1 - gamma)(1 - gamma (1 - alpha))): Kakade and Langford (2002). Arrays broadcast.

    Attained at every gamma and alpha. 002 eq. (59) is larger, by little for a small step and 1 / (1 - gamma) times for
    a whole one.

    >>> print(kakade_langford_penalty(gamma=0.5, gain=1.0, alpha=0.25))
    0.2
    """
    return forms.shift_penalty(gamma, np.multiply(alpha, gain), forms.coupled_occupancy_shift(gamma, alpha))


def step_size(gamma: float, advantage: float, gain: float) -> float:
    """The alpha in [0, 1] that promises most by 002 eq. (60): eq. (61), where it is defined and not negative.

    ``advantage`` is g. 0 where g <= 0. 1 at gamma = 0, where nothing is subtracted. Where eps = 0, so is g.

    >>> step_size(gamma=0.5, advantage=2.0, gain=1.0)
    0.25
    """
    if advantage <= 0 or gain == 0:
        return 0.0
    return float(min(1.0, (1 - gamma) ** 2 * advantage / (4 * gamma * gain))) if gamma else 1.0


def kakade_langford_step_size(gamma: float, advantage: float, gain: float) -> float:
    """The alpha in [0, 1] that promises most by :func:`kakade_langford_penalty`; as :func:`step_size` at the ends.

    It is at least as large. As (1 - gamma) g <= eps, it stays below .4143 (1 - gamma) / gamma.

    >>> round(kakade_langford_step_size(gamma=0.5, advantage=2.0, gain=1.0), 3)
    0.414
    """
    if advantage <= 0 or gain == 0:
        return 0.0
    if gamma == 0:
        return 1.0
    share = (1 - gamma) * advantage / (2 * gain)
    return float(min(1.0, (1 - gamma) / gamma * (1 / np.sqrt(1 - share) - 1)))


# --- Bounds


def conservative(mdp: MDP, old: np.ndarray, other: np.ndarray, alpha: float) -> Bound:
    """J(step) - J(old) >= alpha g - 2 gamma eps alpha^2 / (1 - gamma)^2: 002 eq. (60).

    >>> from rlnotes.exact.mdp_families import conservative_trap
    >>> mdp, other, old = conservative_trap(gamma=0.5)
    >>> bound = conservative(mdp, old, other, alpha=0.25)
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    0.300 >= 0.250
    """
    penalty = conservative_penalty(mdp.gamma, largest_gain(mdp, other, old), alpha)
    return improvement_bound("002 eq. (60)", mdp, step(old, other, alpha), old, {"2γε α²/(1-γ)²": penalty})


def kakade_langford(mdp: MDP, old: np.ndarray, other: np.ndarray, alpha: float) -> Bound:
    """:func:`conservative` with Kakade and Langford's own, smaller penalty.

    >>> from rlnotes.exact.mdp_families import conservative_trap
    >>> mdp, other, old = conservative_trap(gamma=0.5)
    >>> bound = kakade_langford(mdp, old, other, alpha=0.25)  # attained
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    0.300 >= 0.300
    """
    penalty = kakade_langford_penalty(mdp.gamma, largest_gain(mdp, other, old), alpha)
    name = "Kakade and Langford (2002)"
    return improvement_bound(name, mdp, step(old, other, alpha), old, {"2γε α²/((1-γ)(1-γ(1-α)))": penalty})
