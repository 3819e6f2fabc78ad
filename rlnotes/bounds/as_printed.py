"""Claims about decision processes that are wrong as the sources print them. For errata: nothing builds on these."""

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.mdp import gains, improvement_bound, largest_advantage, largest_tv, visited
from rlnotes.bounds.mixtures import distance_to_behavior, mixture_bound, surrogate
from rlnotes.bounds.result import Bound
from rlnotes.exact import mixtures
from rlnotes.exact.mdp import MDP, expected_return, occupancy, values
from rlnotes.exact.mixtures import Mixture


def max_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """J(new) - J(old) >= L - 2 gamma xi D^2 / (1 - gamma)^2: 004 Theorem 2.1. False at every gamma in (0, 1).

    The coefficient 2 belongs to C and the mean TV of 000 Theorem 3.2. From C <= 2 xi D it becomes 4.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> bound = max_tv(*crossed_fork(gamma=0.25, first=0.25, last=0.25))
    >>> print(f"{bound.true:.3f} < {bound.lower:.3f}")  # -1/12 and -1/18
    -0.083 < -0.056
    """
    penalty = forms.max_tv(mdp.gamma, largest_advantage(mdp, old), largest_tv(mdp, new, old)) / 2
    return improvement_bound("004 Theorem 2.1, as printed", mdp, new, old, {"2γξ/(1-γ)² D²": penalty})


def performance_difference(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """E_{d_new} E_new A, without 1/(1 - gamma): 003 sections 5.1 and 5.3. Right only if d is a sum of visits.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> case = crossed_fork(gamma=0.5, first=0.25, last=0.25)
    >>> print(f"{performance_difference(*case):.3f}, and the change of J is -0.250")
    -0.125, and the change of J is -0.250
    """
    return float(occupancy(mdp, new) @ gains(mdp, new, old))


def step_size(gamma: forms.Numbers, advantage: forms.Numbers, gain: forms.Numbers) -> np.ndarray:
    """min(1, (1 - gamma)^2 g / (4 gamma eps)): 002 eqs. (61), (63). Negative for g < 0, NaN for g = eps = 0.

    ``gamma`` in (0, 1); arrays broadcast.

    >>> print(step_size(gamma=0.5, advantage=np.array([2.0, -2.0]), gain=1.0))
    [ 0.25 -0.25]
    """
    with np.errstate(invalid="ignore"):
        return np.minimum(1.0, np.square(np.subtract(1, gamma)) * advantage / np.multiply(np.multiply(4, gamma), gain))


def mixture_bias(mdp: MDP, mixture: Mixture, current: np.ndarray) -> float:
    """sum_i alpha_i (J(pi_i) - J(pi_k)) for J_mix - J(pi_k): 000 section 5.2. Right only at trajectory level.

    >>> from rlnotes.exact.mdp_families import replaced_at_once
    >>> mdp, mixture, new = replaced_at_once(gamma=0.5, D=0.25, paid=1.0)
    >>> true = mixtures.expected_return(mdp, mixture) - expected_return(mdp, new)
    >>> round(mixture_bias(mdp, mixture, new), 3), round(true, 3) + 0.0
    (0.5, 0.0)
    """
    return mixtures.component_average(mdp, mixture) - expected_return(mdp, current)


def own_advantages(mdp: MDP, mixture: Mixture, new: np.ndarray) -> Bound:
    """J(new) - J_mix with each policy's own advantages for A^beta at step level: what 000 section 6.1 warns of.

    False with C over the (s, i) that the behaviour visits, which is all that its data show.

    >>> from rlnotes.exact.mdp_families import replaced_at_once
    >>> bound = own_advantages(*replaced_at_once(0.5, D=0.25, paid=1.0))  # J(new) = J_mix
    >>> round(bound.lower, 3), bound.holds
    (0.125, False)
    """
    own = np.stack([values(mdp, pi).a for pi in mixture.policies], axis=1)
    reached = visited(*mixtures.augmented(mdp, mixture)).reshape(mdp.states, mixture.size)
    gain = np.abs((mdp.policy(new, "new")[:, None] * own).sum(-1))[reached].max()
    penalty = forms.mean_tv(mdp.gamma, gain, distance_to_behavior(mdp, mixture, new))
    predicted = surrogate(mdp, mixture, new, own)
    return mixture_bound("000 section 6.1", mdp, mixture, new, predicted, {"2γC/(1-γ)² E TV": float(penalty)})
