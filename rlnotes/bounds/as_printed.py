"""Claims about decision processes that are wrong as the sources print them. For errata: nothing builds on these."""

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.mdp import gains, improvement_bound, largest_advantage, largest_tv, visited
from rlnotes.bounds.mixtures import distance_to_behavior, mixture_bound, surrogate
from rlnotes.bounds.result import Bound
from rlnotes.exact import mixtures
from rlnotes.exact.mdp import MDP, expected_return, occupancy, values
from rlnotes.exact.mixtures import Mixture


def max_tv_penalty(gamma: forms.Numbers, advantage: forms.Numbers, tv_max: forms.Numbers) -> np.ndarray:
    """2 gamma xi D^2 / (1 - gamma)^2: 004 eq. (2). Half of what is true."""
    return forms.max_tv(gamma, advantage, tv_max) / 2


def max_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """J(new) - J(old) >= L - 2 gamma xi D^2 / (1 - gamma)^2: 004 Theorem 2.1. False at every gamma in (0, 1).

    The coefficient 2 belongs to C and the mean TV of 000 Theorem 3.2. From C <= 2 xi D it becomes 4.
    """
    penalty = max_tv_penalty(mdp.gamma, largest_advantage(mdp, old), largest_tv(mdp, new, old))
    return improvement_bound("004 Theorem 2.1, as printed", mdp, new, old, {"2γξ/(1-γ)² D²": penalty})


def performance_difference(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """E_{d_new} E_new A, without 1/(1 - gamma): 003 sections 5.1 and 5.3. Right only if d is a sum of visits."""
    return float(occupancy(mdp, new) @ gains(mdp, new, old))


def step_size(gamma: forms.Numbers, advantage: forms.Numbers, gain: forms.Numbers) -> np.ndarray:
    """min(1, (1 - gamma)^2 g / (4 gamma eps)): 002 eqs. (61), (63). Negative for g < 0, NaN for g = eps = 0.

    ``gamma`` in (0, 1); arrays broadcast.
    """
    with np.errstate(invalid="ignore"):
        return np.minimum(1.0, np.square(np.subtract(1, gamma)) * advantage / np.multiply(np.multiply(4, gamma), gain))


def mixture_bias(mdp: MDP, mixture: Mixture, current: np.ndarray) -> float:
    """sum_i alpha_i (J(pi_i) - J(pi_k)) for J_mix - J(pi_k): 000 section 5.2. Right only at trajectory level."""
    return mixtures.component_average(mdp, mixture) - expected_return(mdp, current)


def own_advantages(mdp: MDP, mixture: Mixture, new: np.ndarray) -> Bound:
    """J(new) - J_mix with each policy's own advantages for A^beta at step level: what 000 section 6.1 warns of.

    False with C over the (s, i) that the behaviour visits, which is all that its data show.
    """
    own = np.stack([values(mdp, pi).a for pi in mixture.policies], axis=1)
    reached = visited(*mixtures.augmented(mdp, mixture)).reshape(mdp.states, mixture.size)
    gain = np.abs((mdp.policy(new, "new")[:, None] * own).sum(-1))[reached].max()
    penalty = forms.mean_tv(mdp.gamma, gain, distance_to_behavior(mdp, mixture, new))
    predicted = surrogate(mdp, mixture, new, own)
    return mixture_bound("000 section 6.1", mdp, mixture, new, predicted, {"2γC/(1-γ)² E TV": float(penalty)})
