"""Small processes on which a bound is attained, or a claim fails, with the old and the new policy.

``D`` is the largest TV between the two policies. Rewards are in [-1, 1]. ``ValueError`` is raised for numbers that make
no process or no policy.
"""

from typing import NamedTuple

import numpy as np

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture


class Case(NamedTuple):
    """A process and two policies (S, A).

    >>> mdp, new, old = rare_cost(gamma=0.5, D=0.25)
    >>> print(new[0], old[0])
    [0.75 0.25] [1. 0.]
    """

    mdp: MDP
    new: np.ndarray
    old: np.ndarray


def _case(mdp: MDP, new: object, old: object) -> Case:
    return Case(mdp, mdp.policy(new, "new"), mdp.policy(old, "old"))


def fork(gamma: float, r: list[list[float]]) -> MDP:
    """From state 0, action 0 leads to state 1 and action 1 to state 2, which never end. ``r`` (3, 2).

    >>> mdp = fork(gamma=0.5, r=[[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    >>> print(mdp.P[0])  # the next state after either action
    [[0. 1. 0.]
     [0. 0. 1.]]
    """
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1
    return MDP(P, np.array(r), np.eye(3)[0], gamma)


def trap(gamma: float, r: list[list[float]]) -> MDP:
    """In state 0 all actions stay but the last, which leads to state 1; state 1 never ends. ``r`` (2, A)."""
    actions = len(r[0])
    P = np.zeros((2, actions, 2))
    P[0, :-1, 0] = P[0, -1, 1] = P[1, :, 1] = 1
    return MDP(P, np.array(r), np.eye(2)[0], gamma)


def crossed_fork(gamma: float, first: float, last: float) -> Case:
    """New goes more often, by ``first``, where it does worse, by ``last``: both are TVs, at most 1/2 each.

    L = 0 and J(new) - J(old) = -4 gamma first last / (1 - gamma), with common support. At first = last = gamma = 1/4 it
    breaks 004 Theorem 2.1 as printed: -1/12 < -1/18. As ``last`` goes to 0 it attains 000 Theorem 3.2.

    >>> from rlnotes.exact.mdp import performance_difference, surrogate
    >>> case = crossed_fork(gamma=0.5, first=0.25, last=0.25)
    >>> round(surrogate(*case), 3) + 0.0, round(performance_difference(*case), 3)
    (0.0, -0.25)
    """
    mdp = fork(gamma, [[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]])
    new = [[0.5 + first, 0.5 - first], [0.5 - last, 0.5 + last], [0.5 + last, 0.5 - last]]
    return _case(mdp, new, np.full((3, 2), 0.5))


def slow_trap(gamma: float, D: float, support: float = 0.0) -> Case:
    """The gap is 2 gamma D min(1, 2D) / ((1 - gamma)(1 - gamma (1 - D))), the coupled bound itself, at every gamma, D.

    With a ``support`` k > 0, at most 1 - D, the old policy takes every action of the new one, and the gap comes to that
    as k goes to 0. It breaks 004 Theorem 2.1 as printed for D < (1 - gamma) / gamma.

    >>> from rlnotes.exact.mdp import performance_difference, surrogate
    >>> case = slow_trap(gamma=0.5, D=0.25)
    >>> print(f"L {surrogate(*case):.2f}, change {performance_difference(*case):.2f}")
    L 1.00, change 0.60
    """
    k = support
    mdp = trap(gamma, [[1 - 2 * k / (1 - k), -1.0, 1.0], [1.0, -1.0, -1.0]])
    old = np.array([[(1 - k) / 2, (1 - k) / 2, k], [0.5, 0.25, 0.25]])
    moved = max(0.0, D - (1 - k) / 2)  # what the second action cannot give
    new = old + np.array([[-moved, moved - D, D], [-min(D, 0.5), min(D, 0.5), 0.0]])
    return _case(mdp, new, old)


def rare_cost(gamma: float, D: float) -> Case:
    """G = (0, 0, -1), and old never goes where it is -1: the bound by half its span is attained, that by C is not.

    So is 000 Lemma 3.1.

    >>> from rlnotes.exact.mdp import gains
    >>> print(gains(*rare_cost(gamma=0.5, D=0.25)).round(3) + 0.0)
    [ 0.  0. -1.]
    """
    mdp = fork(gamma, [[0.0, 0.0], [0.0, 0.0], [-1.0, 1.0]])
    old = [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]
    return _case(mdp, [[1 - D, D], [1.0, 0.0], [1.0, 0.0]], old)


def conservative_trap(gamma: float) -> Case:
    """A two-state chain on which any step of size alpha from old towards new attains Kakade and Langford's bound.

    ``new`` is the policy to mix in: G = 1 before the trap and -1 in it.

    >>> from rlnotes.exact.mdp import gains
    >>> print(gains(*conservative_trap(gamma=0.5)).round(3))
    [ 1. -1.]
    """
    mdp = trap(gamma, [[0.0, 1.0], [0.0, -1.0]])
    return _case(mdp, [[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]])


def late_spoiler(gamma: float, m: float, p: float, q: float) -> Case:
    """The new policy goes with chance m, not p, to a state where it then swaps a good action of chance 1 - q away.

    With p, then q, then m near 0, the gap comes to gamma times the bound by the mean KL, and by the mean TV.

    >>> from rlnotes.exact.mdp import performance_difference, surrogate
    >>> case = late_spoiler(gamma=0.9, m=0.5, p=0.01, q=0.01)
    >>> print(f"L {surrogate(*case):.2f}, change {performance_difference(*case):.2f}")
    L 4.28, change -0.04
    """
    P = np.zeros((4, 2, 4))  # fork, spoiled, paid, unpaid
    P[0, 0, 3] = P[0, 1, 1] = P[1, 0, 2] = P[1, 1, 3] = P[2, :, 2] = P[3, :, 3] = 1
    r = np.zeros((4, 2))
    r[1, 0] = r[2] = 1
    rest = [[0.5, 0.5], [0.5, 0.5]]
    new, old = [[1 - m, m], [q, 1 - q], *rest], [[1 - p, p], [1 - q, q], *rest]
    return _case(MDP(P, r, np.eye(4)[0], gamma), new, old)


def forgotten_way(gamma: float, q: float, r: float) -> Case:
    """New never goes where old goes with chance ``q``, and would leave at once where old stays, but for a chance r.

    Each step there costs 1. With KL(new, old) over d of the new policy, the bound by the mean KL is false beyond
    gamma = 1/2: new does not see the state on which L goes wrong. KL(old, new) is infinite.
    """
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, 0, 1] = P[1, 1, 2] = P[2, :, 2] = 1
    mdp = MDP(P, np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), np.eye(3)[0], gamma)
    return _case(mdp, [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]], [[q, 1 - q], [1 - r, r], [0.5, 0.5]])


class MixtureCase(NamedTuple):
    """A process, a mixture of behaviours, and a new policy (S, A)."""

    mdp: MDP
    mixture: Mixture
    new: np.ndarray


def replaced_at_once(gamma: float, D: float, paid: float) -> MixtureCase:
    """Policy 0 chooses the way, and policy 1 does all the rest: only policy 0 would have been paid for it.

    The first action leads to a state that pays ``paid`` a step to policy 0, the second to one that pays nobody. New
    goes the first way with a chance larger by D and then acts as policy 1: J(new) = J_mix, though the advantages of
    policy 0 promise more.

    >>> from rlnotes.exact import mixtures
    >>> process, mixture, new = replaced_at_once(gamma=0.5, D=0.25, paid=1.0)
    >>> round(mixtures.component_average(process, mixture), 3)  # J of policy 0 for ever
    0.5
    >>> round(mixtures.expected_return(process, mixture), 3) + 0.0
    0.0
    """
    mdp = fork(gamma, [[0.0, 0.0], [paid, 0.0], [0.0, 0.0]])
    waits = [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]]
    takes = [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]
    new = np.array([[0.5 + D, 0.5 - D], *waits[1:]])
    return MixtureCase(mdp, Mixture(np.array([takes, waits]), np.eye(2)[0], np.array([[0.0, 1.0]] * 2)), new)


def one_behavior(case: Case, copies: int = 2) -> MixtureCase:
    """A mixture of ``copies`` of the old policy: with it as the current policy too, there is no staleness.

    Then 000 Corollaries 4.2 and 5.3, Theorem 5.1 and the bound with current advantages all come down to 000 Theorem
    3.2, and are attained where that is: by :func:`crossed_fork` with a small ``last``.

    >>> mdp, mixture, new = one_behavior(lagging_bandit(gamma=0.5, D=0.25))
    >>> mixture.size, bool((mixture.policies[0] == mixture.policies[1]).all())
    (2, True)
    """
    alpha = np.full(copies, 1 / copies)
    return MixtureCase(case.mdp, Mixture(np.array([case.old] * copies), alpha, np.eye(copies)), case.new)


def lagging_bandit(gamma: float, D: float) -> Case:
    """One state, two actions that pay 1 and -1, equally likely for the new policy; old has D less of the better one.

    J(new) - J(old) = 2 D / (1 - gamma): as J(current) - J_mix it attains the staleness penalty of 000 section 5.2.

    >>> from rlnotes.exact.mdp import performance_difference
    >>> round(performance_difference(*lagging_bandit(gamma=0.5, D=0.25)), 3)
    1.0
    """
    mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, -1.0]]), np.ones(1), gamma)
    return _case(mdp, [[0.5, 0.5]], [[0.5 - D, 0.5 + D]])
