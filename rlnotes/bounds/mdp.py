"""The bounds of 000, 002, 003 and 004 on exact discounted processes: how far J(new) - J(old) can fall short of L.

``new`` and ``old`` are policies (S, A). L is written with the mean over the new policy's actions, so none of it needs
common support. Maxima run over all states, visited or not, as the sources write them. All bounds need gamma < 1, and
most bound the gap from both sides; a :class:`Bound` speaks of the lower one.
"""

from dataclasses import replace

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds import token_closed_forms
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.estimators import divergences
from rlnotes.estimators.divergences import log_probs
from rlnotes.exact.mdp import MDP, expected_return, gains, occupancy, optimal_policy, surrogate, transitions, values

# --- Scalars


def largest_gain(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """C = max_s |G(s)|: 000 Theorem 3.2, 002 eq. (58).

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> round(largest_gain(*crossed_fork(gamma=0.5, first=0.25, last=0.25)), 3)
    0.5
    """
    return float(np.abs(gains(mdp, new, old)).max())


def half_span(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """(max G - min G) / 2, at most C. It may replace C since two distributions over states have the same sum.

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> case = rare_cost(gamma=0.5, D=0.5)  # G is 0, 0 and -1
    >>> round(half_span(*case), 3), round(largest_gain(*case), 3)
    (0.5, 1.0)
    """
    return float(np.ptp(gains(mdp, new, old)) / 2)


def largest_advantage(mdp: MDP, old: np.ndarray) -> float:
    """xi = max |A| over states and actions: 004 Theorem 2.1; the norm of A in 000 section 5.2.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> mdp, new, old = crossed_fork(gamma=0.5, first=0.25, last=0.25)
    >>> round(largest_advantage(mdp, old), 3)
    1.0
    """
    return float(np.abs(values(mdp, old).a).max())


def reward_range(mdp: MDP) -> float:
    """max r - min r over states and actions."""
    return float(np.ptp(mdp.r))


def state_tv(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """TV (...,) of two policies (..., A) in each state, in [0, 1].

    >>> print(state_tv(np.array([[0.75, 0.25], [0.5, 0.5]]), np.full((2, 2), 0.5)))
    [0.25 0.  ]
    """
    return divergences.tv(log_probs(p), log_probs(q))


def state_kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL(p, q) (...,) of two policies (..., A) in each state; infinite where q lacks an action of p."""
    return np.maximum(divergences.kl(log_probs(p), log_probs(q)), 0.0)  # rounding can leave -1e-17


def largest_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """D: the largest TV over states."""
    return float(state_tv(mdp.policy(new, "new"), mdp.policy(old, "old")).max())


def largest_kl(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """The largest KL(old, new) over states, the direction of 002 eq. (66).

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> round(largest_kl(*crossed_fork(0.5, first=0.25, last=0.25)), 3)  # log(4/3) / 2
    0.144
    """
    return float(state_kl(mdp.policy(old, "old"), mdp.policy(new, "new")).max())


def mean_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """The mean TV over d of the old policy: 000 Lemma 3.1."""
    return float(occupancy(mdp, old) @ state_tv(mdp.policy(new, "new"), mdp.policy(old, "old")))


def mean_kl(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """The mean KL(old, new) over d of the old policy, which TRPO constrains: 002 eq. (67).

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> case = rare_cost(gamma=0.5, D=0.5)  # log 2 in half of all steps
    >>> round(mean_kl(*case), 3), largest_kl(*case)
    (0.347, inf)
    """
    kl = state_kl(mdp.policy(old, "old"), mdp.policy(new, "new"))
    counted = visited(mdp, old) & (kl > 0)  # an infinite KL counts only where the old policy goes
    return float(occupancy(mdp, old)[counted] @ kl[counted])


def visited(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """Where d of ``pi`` is positive, (S,) bool: by sums of non-negative numbers, so that rounding cannot blur zeros."""
    hops = (np.eye(mdp.states) + mdp.gamma * transitions(mdp, pi)) / 2
    return mdp.start @ np.linalg.matrix_power(hops, mdp.states) > 0


def worst_return(mdp: MDP) -> float:
    """The least J of any policy, by policy iteration on the negative rewards."""
    return -float(mdp.start @ optimal_policy(replace(mdp, r=-mdp.r))[1].v)


# --- How far states shift


def occupancy_gap(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """The L1 distance between d of the new and of the old policy, at most 2."""
    return float(np.abs(occupancy(mdp, new) - occupancy(mdp, old)).sum())


def occupancy_shift(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Inequality:
    """The L1 distance of the two d is at most 2 gamma / (1 - gamma) times the mean TV: 000 Lemma 3.1.

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> claim = occupancy_shift(*rare_cost(gamma=0.5, D=0.5))
    >>> print(f"{claim.left:.3f} <= {claim.right:.3f}")
    0.500 <= 0.500
    """
    right = forms.occupancy_shift(mdp.gamma, mean_tv(mdp, new, old))
    return Inequality(occupancy_gap(mdp, new, old), float(right))


def coupled_occupancy_shift(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Inequality:
    """It is at most 2 gamma D / (1 - gamma (1 - D)). Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import slow_trap
    >>> claim = coupled_occupancy_shift(*slow_trap(gamma=0.5, D=0.25))
    >>> print(f"{claim.left:.3f} <= {claim.right:.3f}")
    0.400 <= 0.400
    """
    right = forms.coupled_occupancy_shift(mdp.gamma, largest_tv(mdp, new, old))
    return Inequality(occupancy_gap(mdp, new, old), float(right))


def step_shifts(mdp: MDP, new: np.ndarray, old: np.ndarray, steps: int) -> np.ndarray:
    """TV (steps + 1,) between the two distributions of s_t, for t = 0 to ``steps``."""
    laws, chains = [mdp.start, mdp.start], [transitions(mdp, new), transitions(mdp, old)]
    shifts = [0.0]
    for _ in range(steps):
        laws = [law @ chain for law, chain in zip(laws, chains, strict=True)]
        shifts.append(float(np.abs(laws[0] - laws[1]).sum() / 2))
    return np.array(shifts)


def simulation_lemma(mdp: MDP, new: np.ndarray, old: np.ndarray, steps: int) -> Inequality:
    """(steps + 1,) the TV at time t is at most t D: 003 section 5.3.

    >>> from rlnotes.exact.mdp_families import slow_trap
    >>> claim = simulation_lemma(*slow_trap(gamma=0.5, D=0.25), steps=2)
    >>> print(claim.left.round(4), "<=", claim.right.round(4))
    [0.     0.25   0.4375] <= [0.   0.25 0.5 ]
    """
    right = token_closed_forms.simulation_lemma(np.arange(1, steps + 2), largest_tv(mdp, new, old))
    return Inequality(step_shifts(mdp, new, old, steps), right)


def coupling(mdp: MDP, new: np.ndarray, old: np.ndarray, steps: int) -> Inequality:
    """(steps + 1,) it is at most 1 - (1 - D)^t. Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import slow_trap
    >>> claim = coupling(*slow_trap(gamma=0.5, D=0.25), steps=2)
    >>> print(claim.left.round(4), "<=", claim.right.round(4))
    [0.     0.25   0.4375] <= [0.     0.25   0.4375]
    """
    right = token_closed_forms.coupling(np.arange(1, steps + 2), largest_tv(mdp, new, old))
    return Inequality(step_shifts(mdp, new, old, steps), right)


# --- The gap and its bounds


def distribution_shift(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """What L misses, J(new) - J(old) - L: 002 eq. (52), called a penalty there and added.

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> case = two_rooms(gamma=0.9)
    >>> print(f"L {surrogate(*case):.2f}, shift {distribution_shift(*case):.2f}")
    L -15.47, shift 22.93
    """
    shift = occupancy(mdp, new) - occupancy(mdp, old)
    return float(shift @ gains(mdp, new, old)) / (1 - mdp.gamma)


def improvement_bound(name: str, mdp: MDP, new: np.ndarray, old: np.ndarray, penalties: dict[str, np.ndarray]) -> Bound:
    """The true improvement and L, beside some penalties. The floor is that of the worst policy of the process."""
    before = expected_return(mdp, old)
    return Bound(
        name,
        expected_return(mdp, new) - before,
        surrogate(mdp, new, old),
        {key: float(penalty) for key, penalty in penalties.items()},
        worst_return(mdp) - before,
    )


def shift_bound(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """C times the true L1 distance of the two d / (1 - gamma): 002 section 4.3, below eq. (53).

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> bound = shift_bound(*crossed_fork(gamma=0.5, first=0.25, last=0.25))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.250 >= -0.250
    """
    penalty = forms.shift_penalty(mdp.gamma, largest_gain(mdp, new, old), occupancy_gap(mdp, new, old))
    return improvement_bound("002 section 4.3", mdp, new, old, {"C |d' - d| / (1-γ)": penalty})


def average_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """2 gamma C / (1 - gamma)^2 times the mean TV: 000 Theorem 3.2.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> bound = average_tv(*crossed_fork(gamma=0.5, first=0.25, last=0.25))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.250 >= -0.500
    """
    penalty = forms.mean_tv(mdp.gamma, largest_gain(mdp, new, old), mean_tv(mdp, new, old))
    return improvement_bound("000 Theorem 3.2", mdp, new, old, {"2γC/(1-γ)² E TV": penalty})


def half_span_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """:func:`average_tv` with half the span of G for C: never larger. Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> bound = half_span_tv(*rare_cost(gamma=0.5, D=0.5))  # attained; average_tv says -1
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.500 >= -0.500
    """
    penalty = forms.mean_tv(mdp.gamma, half_span(mdp, new, old), mean_tv(mdp, new, old))
    return improvement_bound("Theorem 3.2, half-span", mdp, new, old, {"γ span G/(1-γ)² E TV": penalty})


def max_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """4 gamma xi D^2 / (1 - gamma)^2: 003 section 5.3, and 004 Theorem 2.1 with the constant that is true.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> bound = max_tv(*crossed_fork(gamma=0.5, first=0.25, last=0.25))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.250 >= -0.500
    """
    penalty = forms.max_tv(mdp.gamma, largest_advantage(mdp, old), largest_tv(mdp, new, old))
    return improvement_bound("TRPO, max TV", mdp, new, old, {"4γξ/(1-γ)² D²": penalty})


def max_kl(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """:func:`max_tv` with the largest KL(old, new), by Pinsker: what the constraint of 002 eq. (66) buys.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> bound = max_kl(*crossed_fork(gamma=0.5, first=0.25, last=0.25))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.250 >= -0.575
    """
    penalty = forms.max_kl(mdp.gamma, largest_advantage(mdp, old), largest_kl(mdp, new, old))
    return improvement_bound("TRPO, max KL", mdp, new, old, {"2γξ/(1-γ)² KL": penalty})


def coupled_tv(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """2 gamma xi D min(1, 2D) / ((1 - gamma)(1 - gamma (1 - D))): attained at every gamma and D.

    Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import slow_trap
    >>> bound = coupled_tv(*slow_trap(gamma=0.5, D=0.25))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}; L is {bound.surrogate:.3f}")
    0.600 >= 0.600; L is 1.000
    """
    penalty = forms.coupled_tv(mdp.gamma, largest_advantage(mdp, old), largest_tv(mdp, new, old))
    return improvement_bound("max TV, coupled", mdp, new, old, {"2γξ D min(1,2D)/((1-γ)(1-γ(1-D)))": penalty})


def average_kl(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """(max r - min r) / (1 - gamma)^2 times the mean KL(old, new): 002 eq. (67) bounds the gap with no maximum at all.

    Nearly attained as gamma goes to 1. Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> bound = average_kl(*rare_cost(gamma=0.5, D=0.1))  # the largest KL is infinite
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.100 >= -0.421
    """
    penalty = forms.mean_divergence(mdp.gamma, reward_range(mdp), mean_kl(mdp, new, old))
    return improvement_bound("average KL", mdp, new, old, {"range r/(1-γ)² E KL": penalty})


def average_tv_of_rewards(mdp: MDP, new: np.ndarray, old: np.ndarray) -> Bound:
    """:func:`average_kl` with the mean TV: no advantage to know. Elementary, derived for this course.

    >>> from rlnotes.exact.mdp_families import rare_cost
    >>> bound = average_tv_of_rewards(*rare_cost(gamma=0.5, D=0.1))
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    -0.100 >= -0.400
    """
    penalty = forms.mean_divergence(mdp.gamma, reward_range(mdp), mean_tv(mdp, new, old))
    return improvement_bound("average TV, by rewards", mdp, new, old, {"range r/(1-γ)² E TV": penalty})


BOUNDS = (
    shift_bound,
    average_tv,
    half_span_tv,
    max_tv,
    max_kl,
    coupled_tv,
    average_kl,
    average_tv_of_rewards,
)  # all that take (mdp, new, old)
