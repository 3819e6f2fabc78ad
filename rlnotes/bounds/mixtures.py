"""The bounds of 000 sections 4 and 5 for data from several policies, on exact processes.

``mixture`` is the behaviour beta: the i-th of its M policies is at work in (s, i). ``current`` is pi_k, ``new`` is
pi_{k+1}, both (S, A). d_beta is the distribution (S, M) of states and indices. All bounds need gamma < 1.
"""

from itertools import combinations

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.mdp import average_tv, largest_advantage, largest_gain, state_tv, worst_return
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture

# --- Scalars


def distance_to_behavior(mdp: MDP, mixture: Mixture, pi: np.ndarray) -> float:
    """E_{d_beta} TV(pi, pi_i): of the new policy, the first penalty of 000 Theorem 5.1; of the current one, S_k.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(distance_to_behavior(mdp, mixture, answers(0.75)), 3)
    0.375
    """
    return float((mixtures.occupancy(mdp, mixture) * state_tv(mdp.policy(pi), mixture.policies).T).sum())


def update_shift(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> float:
    """U_k = E_{d_beta} TV(new, current): 000 section 5.3.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(update_shift(mdp, mixture, new=answers(0.75), current=answers(0.5)), 3)
    0.25
    """
    tv = state_tv(mdp.policy(new, "new"), mdp.policy(current, "current"))
    return float(mixtures.occupancy(mdp, mixture).sum(-1) @ tv)


def staleness(mdp: MDP, mixture: Mixture, current: np.ndarray) -> float:
    """S_k = E_{d_beta} TV(current, pi_i): 000 section 5.3.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(staleness(mdp, mixture, current=answers(0.5)), 3)  # the mean of 0.25 and 0
    0.125
    """
    return distance_to_behavior(mdp, mixture, current)


def largest_mixture_gain(mdp: MDP, mixture: Mixture, new: np.ndarray) -> float:
    """C = max over (s, i) of abs E_new A^beta: 000 section 5.2.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(largest_mixture_gain(mdp, mixture, answers(0.75)), 4)
    0.5625
    """
    return float(np.abs((mdp.policy(new, "new")[:, None] * mixtures.values(mdp, mixture).a).sum(-1)).max())


def surrogate(mdp: MDP, mixture: Mixture, new: np.ndarray, advantages: np.ndarray) -> float:
    """1/(1 - gamma) times the mean over d_beta and the new policy of any ``advantages`` that broadcast to (S, M, A).

    With A^beta it is L_beta, :func:`rlnotes.exact.mixtures.surrogate`. 000 section 5.4 has estimates there.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> new, advantages = answers(0.75), mixtures.values(mdp, mixture).a
    >>> round(surrogate(mdp, mixture, new, advantages), 4)
    0.25
    """
    gain = (mdp.policy(new, "new")[:, None] * advantages).sum(-1)
    return float((mixtures.occupancy(mdp, mixture) * gain).sum()) / (1 - mdp.gamma)


def common_radius(policies: np.ndarray) -> float:
    """Half the largest TV of two of the ``policies`` (M, S, A) in one state: 000 Observation 5.2.

    No policy is closer than this to all of them everywhere. Of two policies, the midpoint is as close.

    >>> common_radius(np.array([[[0.75, 0.25]], [[0.25, 0.75]]]))
    0.25
    """
    return max((float(state_tv(p, q).max()) / 2 for p, q in combinations(policies, 2)), default=0.0)


# --- Inequalities


def triangle(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Inequality:
    """E TV(new, pi_i) <= U_k + S_k: 000 section 5.3.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> claim = triangle(mdp, mixture, new=answers(0.75), current=answers(0.5))
    >>> print(f"{claim.left:.3f} <= {claim.right:.3f}")
    0.375 <= 0.375
    """
    right = update_shift(mdp, mixture, new, current) + staleness(mdp, mixture, current)
    return Inequality(distance_to_behavior(mdp, mixture, new), right)


def mixture_bias(mdp: MDP, mixture: Mixture, current: np.ndarray) -> Inequality:
    """J(current) - J_mix <= 2 max abs A^{pi_k} / (1 - gamma) S_k: 000 section 5.2, at either level.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> claim = mixture_bias(mdp, mixture, current=answers(0.5))
    >>> print(f"{claim.left:.2f} <= {claim.right:.2f}")
    0.09 <= 0.31
    """
    left = exact.expected_return(mdp, current) - mixtures.expected_return(mdp, mixture)
    return Inequality(left, float(_bias_penalty(mdp, current, staleness(mdp, mixture, current))))


# --- Against J_mix


def average_tv_largest(mdp: MDP, mixture: Mixture, new: np.ndarray) -> Bound:
    """J(new) - J_mix >= L_beta - 2 gamma max_i C_i / (1 - gamma)^2 E TV(new, pi_i): 000 Corollary 4.2.

    Raises ``ValueError`` unless trajectories keep their policy.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = average_tv_largest(mdp, mixture, new=answers(0.75))
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}")
    0.41 >= -0.59
    """
    largest = max(largest_gain(mdp, new, pi) for pi in _kept(mixture))
    penalty = forms.mean_tv(mdp.gamma, largest, distance_to_behavior(mdp, mixture, new))
    predicted = mixtures.surrogate(mdp, mixture, new)
    return mixture_bound("000 Corollary 4.2", mdp, mixture, new, predicted, {"2γ max C/(1-γ)² E TV": float(penalty)})


def average_tv_by_policy(mdp: MDP, mixture: Mixture, new: np.ndarray) -> Bound:
    """:func:`average_tv_largest` with each policy's own C_i, as 000 section 4.2 suggests: one penalty per policy.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = average_tv_by_policy(mdp, mixture, new=answers(0.75))
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}")
    0.41 >= -0.47
    """
    alone = [average_tv(mdp, new, pi) for pi in _kept(mixture)]
    weighed = list(zip(mixture.alpha, alone, strict=True))
    penalties = {f"policy {i}": float(share * bound.penalty) for i, (share, bound) in enumerate(weighed)}
    predicted = float(sum(share * bound.surrogate for share, bound in weighed))
    return mixture_bound("000 Corollary 4.2, by policy", mdp, mixture, new, predicted, penalties)


def mixture_bound(
    name: str, mdp: MDP, mixture: Mixture, new: np.ndarray, predicted: float, penalties: dict[str, float]
) -> Bound:
    """J(new) - J_mix beside ``predicted`` and some penalties.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = mixture_bound("a claim", mdp, mixture, answers(0.75), 0.5, {"P": 0.25})
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}")
    0.41 >= 0.25
    """
    before = mixtures.expected_return(mdp, mixture)
    return Bound(name, exact.expected_return(mdp, new) - before, predicted, penalties, worst_return(mdp) - before)


# --- Against J(current)


def theorem_5_1(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Bound:
    """L_beta, less a penalty for the distance of the new policy to the behaviour, and one for staleness.

    000 Theorem 5.1, at either level, with the advantages A^beta of the behaviour process.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = theorem_5_1(mdp, mixture, new=answers(0.75), current=answers(0.5))
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}")
    0.31 >= -0.91
    """
    penalties = {
        "2γC/(1-γ)² E TV(new, behavior)": _shift_penalty(mdp, mixture, new, distance_to_behavior(mdp, mixture, new)),
        "2ξ/(1-γ) S": _bias_penalty(mdp, current, staleness(mdp, mixture, current)),
    }
    return _current_bound("000 Theorem 5.1", mdp, mixture, new, current, mixtures.values(mdp, mixture).a, penalties)


def corollary_5_3(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Bound:
    """:func:`theorem_5_1` by the triangle inequality: what the optimiser answers for, and what the sampler does.

    000 Corollary 5.3.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = corollary_5_3(mdp, mixture, new=answers(0.75), current=answers(0.5))
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}, L is {bound.surrogate:.2f}")
    0.31 >= -0.91, L is 0.25
    """
    penalties = _split_penalties(mdp, mixture, new, current)
    return _current_bound("000 Corollary 5.3", mdp, mixture, new, current, mixtures.values(mdp, mixture).a, penalties)


def estimated_advantages(
    mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray, advantages: np.ndarray
) -> Bound:
    """:func:`corollary_5_3` with estimates (S, M, A) for A^beta, less their largest error / (1 - gamma).

    000 sections 5.4 and 9, whose factor M is not needed while ratios are not clipped: their mean is 1.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> estimates = mixtures.values(mdp, mixture).a + 0.1
    >>> bound = estimated_advantages(mdp, mixture, answers(0.75), answers(0.5), estimates)
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}, L is {bound.surrogate:.2f}")
    0.31 >= -0.91, L is 0.45
    """
    error = float(np.abs(advantages - mixtures.values(mdp, mixture).a).max())
    penalties = _split_penalties(mdp, mixture, new, current)
    penalties["ε_A/(1-γ)"] = forms.advantage_replacement(mdp.gamma, error)
    return _current_bound("000 section 9", mdp, mixture, new, current, advantages, penalties)


def current_advantages(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Bound:
    """With the advantages A^{pi_k} of the current policy: one penalty, none for staleness, and 0 at new = current.

    2 gamma C_k / (1 - gamma)^2 E TV(new, pi_i), the form of GePPO (Queeney et al. 2021); 000 section 5.4 has these
    advantages in mind. They must be estimated off-policy.

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> bound = current_advantages(mdp, mixture, new=answers(0.75), current=answers(0.5))
    >>> print(f"{bound.true:.2f} >= {bound.lower:.2f}")
    0.31 >= -0.25
    """
    shift = distance_to_behavior(mdp, mixture, new)
    penalty = forms.mean_tv(mdp.gamma, largest_gain(mdp, new, current), shift)
    advantages = exact.values(mdp, current).a[:, None]
    penalties = {"2γC/(1-γ)² E TV(new, behavior)": penalty}
    return _current_bound("GePPO", mdp, mixture, new, current, advantages, penalties)


def _current_bound(
    name: str,
    mdp: MDP,
    mixture: Mixture,
    new: np.ndarray,
    current: np.ndarray,
    advantages: np.ndarray,
    penalties: dict[str, np.ndarray],
) -> Bound:
    before = exact.expected_return(mdp, current)
    return Bound(
        name,
        exact.expected_return(mdp, new) - before,
        surrogate(mdp, mixture, new, advantages),
        {key: float(penalty) for key, penalty in penalties.items()},
        worst_return(mdp) - before,
    )


def _shift_penalty(mdp: MDP, mixture: Mixture, new: np.ndarray, shift: float) -> np.ndarray:
    return forms.mean_tv(mdp.gamma, largest_mixture_gain(mdp, mixture, new), shift)


def _bias_penalty(mdp: MDP, current: np.ndarray, stale: float) -> np.ndarray:
    return forms.mixture_bias(mdp.gamma, largest_advantage(mdp, current), stale)


def _split_penalties(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> dict[str, np.ndarray]:
    update, stale = update_shift(mdp, mixture, new, current), staleness(mdp, mixture, current)
    return {
        "C1 U": _shift_penalty(mdp, mixture, new, update),
        "C2 S": _shift_penalty(mdp, mixture, new, stale) + _bias_penalty(mdp, current, stale),
    }


def _kept(mixture: Mixture) -> np.ndarray:
    """The policies (M, S, A), each kept for a trajectory."""
    if not np.array_equal(mixture.kernel, np.eye(mixture.size)):
        raise ValueError("kernel is not the identity; a bound by policy needs one policy per trajectory: theorem_5_1")
    return mixture.policies
