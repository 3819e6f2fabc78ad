"""Finite Markov decision processes, solved exactly: one linear solve each, never sweeps with a stopping rule.

Sizes: S states, A actions. A policy ``pi`` is an array (S, A) whose rows sum to one. An *end* is a state from which no
action ever pays again. gamma = 1 is allowed where the policy surely reaches an end. Every function raises
``ValueError`` for a policy of the wrong shape or with rows that are no distributions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlnotes.exact.checks import discount, distribution, finite

TIE = 1e-10  # an action must be better by more than TIE * max(1, largest |Q|) to replace the old one
SLOWEST = 1e10  # expected steps to an end beyond which float64 cannot solve gamma = 1
MOST_ROUNDS = 1000  # of policy iteration, which needs about ten


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite decision process. Its arrays are read-only copies.

    ``P`` (S, A, S): chance of the next state. ``r`` (S, A): mean reward of a step, which may have any sign. ``start``
    (S,): distribution of the first state. ``gamma`` in [0, 1]. Raises ``ValueError`` for wrong shapes, rows that are
    no distributions, rewards that are not finite, and a discount outside [0, 1].

    >>> P, r = np.ones((1, 2, 1)), np.array([[1.0, 0.0]])  # one state; action 0 pays 1
    >>> mdp = MDP(P, r, start=np.ones(1), gamma=0.5)
    >>> mdp.states, mdp.actions, expected_return(mdp, np.array([[0.5, 0.5]]))
    (1, 2, 1.0)
    """

    P: np.ndarray
    r: np.ndarray
    start: np.ndarray
    gamma: float

    def __post_init__(self):
        P = distribution("P", self.P, (None, None, None))
        S, A, _ = P.shape
        if not S or not A:
            raise ValueError(f"P has shape {P.shape}; at least one state and one action are needed")
        arrays = {
            "P": finite("P", P, (S, A, S)),
            "r": finite("r", self.r, (S, A)),
            "start": distribution("start", self.start, (S,)),
        }
        for name, array in arrays.items():
            own = array.copy()
            own.setflags(write=False)
            object.__setattr__(self, name, own)
        object.__setattr__(self, "gamma", discount(self.gamma))

    @property
    def states(self) -> int:
        """S."""
        return self.r.shape[0]

    @property
    def actions(self) -> int:
        """A."""
        return self.r.shape[1]

    def policy(self, pi: object, name: str = "pi") -> np.ndarray:
        """``pi`` as a checked policy (S, A) of this process. ``name`` stands in the error."""
        return distribution(name, pi, (self.states, self.actions))


class Values(NamedTuple):
    """V (S,), Q (S, A) and advantage Q - V (S, A) of a policy, in units of reward."""

    v: np.ndarray
    q: np.ndarray
    a: np.ndarray


def values(mdp: MDP, pi: np.ndarray) -> Values:
    """Values of ``pi`` in every state (000 section 2.1).

    At gamma = 1, raises ``ValueError`` naming a state from which ``pi`` never reaches an end, or too slowly.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> v, q, a = values(mdp, np.array([[0.5, 0.5]]))  # a half per step: 0.5 / (1 - 0.5)
    >>> print(v, q, a)
    [1.] [[1.5 0.5]] [[ 0.5 -0.5]]
    """
    pi = mdp.policy(pi)
    v = _state_values(mdp, pi, np.ones(mdp.states, bool))
    q = action_values(mdp, v)
    return Values(v, q, q - v[:, None])


def action_values(mdp: MDP, v: np.ndarray) -> np.ndarray:
    """Q (S, A): one step, then ``v`` (S,)."""
    return mdp.r + mdp.gamma * mdp.P @ v


def expected_return(mdp: MDP, pi: np.ndarray) -> float:
    """J: expected discounted return from the start distribution (000 section 2.1).

    At gamma = 1 only states that can be reached from the start have to end; raises ``ValueError`` if one does not.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> expected_return(mdp, np.array([[0.5, 0.5]]))  # 0.5 / (1 - 0.5)
    1.0
    """
    return float(mdp.start @ _state_values(mdp, mdp.policy(pi), mdp.start > 0))


def visits(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """Expected discounted number of visits to each state (S,): sum over t of gamma^t Pr(s_t = s).

    It is ``occupancy`` / (1 - gamma). At gamma = 1 an end counts 0, since nothing is paid there and the sum has no
    limit, and a policy that never ends raises ``ValueError``.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> print(visits(mdp, np.array([[0.5, 0.5]])))  # 1 / (1 - 0.5)
    [2.]
    """
    pi = mdp.policy(pi)
    live = _live(mdp, pi, mdp.start > 0)
    counts = np.zeros(mdp.states)
    counts[live] = np.linalg.solve(_system(mdp, pi, live).T, mdp.start[live])
    return counts


def occupancy(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """Normalised discounted state distribution d (S,), which sums to 1 (000 section 2.1).

    Raises ``ValueError`` at gamma = 1, where it does not exist.

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> mdp, new, old = two_rooms(gamma=0.9)
    >>> print(occupancy(mdp, old).round(3), occupancy(mdp, new).round(3))
    [0.836 0.164] [0.209 0.791]
    """
    if mdp.gamma == 1:
        raise ValueError("gamma is 1, where visits cannot be normalised; take visits(), or a gamma below 1")
    return (1 - mdp.gamma) * visits(mdp, pi)


def gains(mdp: MDP, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """G (S,): the mean advantage under ``old`` of an action of ``new``.

    >>> from rlnotes.exact.mdp_families import crossed_fork
    >>> print(gains(*crossed_fork(gamma=0.5, first=0.25, last=0.25)).round(3) + 0.0)
    [ 0.  -0.5  0.5]
    """
    return (mdp.policy(new, "new") * values(mdp, mdp.policy(old, "old")).a).sum(-1)


def performance_difference(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """J(new) - J(old), from the old advantages where the new policy goes (000 Lemma 2.1, 002 eq. (48)).

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> mdp, new, old = two_rooms(gamma=0.9)
    >>> change = expected_return(mdp, new) - expected_return(mdp, old)
    >>> print(f"{performance_difference(mdp, new, old):.3f} = {change:.3f}")
    7.461 = 7.461
    """
    gain = gains(mdp, new, old)  # first, for it checks both policies by name
    return float(visits(mdp, new) @ gain)


def surrogate(mdp: MDP, new: np.ndarray, old: np.ndarray) -> float:
    """L_old(new), from the old advantages where the old policy goes, without J(old) (000 Theorem 3.2).

    1/(1 - gamma) times the mean over the old occupancy. At gamma = 1 ``visits`` takes the place of both.

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> mdp, new, old = two_rooms(gamma=0.9)
    >>> change = expected_return(mdp, new) - expected_return(mdp, old)
    >>> print(f"L {surrogate(mdp, new, old):.2f}, change {change:.2f}")
    L -15.47, change 7.46
    """
    gain = gains(mdp, new, old)
    return float(visits(mdp, old) @ gain)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities (..., A) from finite ``logits`` (..., A).

    >>> print(softmax(np.log([3.0, 1.0])).round(3))
    [0.75 0.25]
    """
    logits = finite("logits", logits)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def policy_gradient(mdp: MDP, logits: np.ndarray) -> np.ndarray:
    """Gradient (S, A) of J with respect to the ``logits`` (S, A) of a softmax policy (002 eq. (36), summed up).

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> print(policy_gradient(mdp, np.zeros((1, 2))))  # 2 visits * 0.5 * A
    [[ 0.5 -0.5]]
    """
    pi = softmax(finite("logits", logits, (mdp.states, mdp.actions)))
    return visits(mdp, pi)[:, None] * pi * values(mdp, pi).a


def optimal_policy(mdp: MDP) -> tuple[np.ndarray, Values]:
    """A deterministic policy (S, A) that no action improves by more than ``TIE``, and its values: policy iteration.

    An old action stays unless a new one is better by more than the tolerance, so that ties cannot flip for ever. At
    gamma = 1 the search begins with a policy that surely ends; raises ``ValueError`` where there is none, or where
    rewards are collected for ever.

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> pi, found = optimal_policy(two_rooms(gamma=0.9).mdp)
    >>> print(pi.argmax(-1), found.v.round(2))
    [1 1] [15.82 18.02]
    """
    rows = np.arange(mdp.states)
    chosen = np.zeros(mdp.states, int) if mdp.gamma < 1 else _ending_actions(mdp)
    for _ in range(MOST_ROUNDS):
        pi = np.eye(mdp.actions)[chosen]
        try:
            found = values(mdp, pi)
        except ValueError as error:  # each round is better than the one before, so it is paid for never ending
            raise ValueError(f"the best return has no limit at gamma = 1: {error}") from error
        best = found.q.argmax(-1)
        better = found.q[rows, best] - found.q[rows, chosen] > TIE * max(1.0, np.abs(found.q).max())
        if not better.any():
            return pi, found
        chosen = np.where(better, best, chosen)
    raise ValueError(f"no optimum after {MOST_ROUNDS} rounds; the process is too ill-conditioned: take a smaller gamma")


def finite_horizon_values(mdp: MDP, pi: np.ndarray, horizon: int) -> np.ndarray:
    """Values (horizon + 1, S) of ``pi`` when the process is cut off: row h with h steps to go, row 0 is 0.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> print(finite_horizon_values(mdp, np.array([[0.5, 0.5]]), horizon=2).ravel())
    [0.   0.5  0.75]
    """
    pi = mdp.policy(pi)
    return _backward(mdp, horizon, lambda q: (pi * q).sum(-1))


def best_finite_horizon_values(mdp: MDP, horizon: int) -> np.ndarray:
    """Values (horizon + 1, S) of the best policy that may look at the steps to go: rows as in finite_horizon_values.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=0.5)
    >>> print(best_finite_horizon_values(mdp, horizon=2).ravel())
    [0.  1.  1.5]
    """
    return _backward(mdp, horizon, lambda q: q.max(-1))


def ends(mdp: MDP) -> np.ndarray:
    """Which states are ends, (S,) bool: no action pays there, nor in any state that can follow.

    >>> from rlnotes.exact.counterexamples import late_choice
    >>> print(ends(late_choice(gamma=0.5)))
    [False False  True]
    """
    pays = (mdp.r != 0).any(-1)
    return ~_reached(np.any(mdp.P > 0, axis=1).T, pays)


def transitions(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """State to next state under ``pi``, (S, S).

    >>> from rlnotes.exact.pathologies import two_rooms
    >>> mdp, new, old = two_rooms(gamma=0.9)
    >>> print(transitions(mdp, (new + old) / 2).round(3))
    [[0.55 0.45]
     [0.25 0.75]]
    """
    return np.einsum("sa,sat->st", mdp.policy(pi), mdp.P)


def _backward(mdp: MDP, horizon: int, choose) -> np.ndarray:
    """Backward induction: ``choose`` makes a value (S,) of Q (S, A)."""
    if horizon < 0:
        raise ValueError(f"horizon is {horizon}; a number of steps cannot be negative")
    rows = [np.zeros(mdp.states)]
    for _ in range(horizon):
        rows.append(choose(action_values(mdp, rows[-1])))
    return np.array(rows)


def _state_values(mdp: MDP, pi: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """V (S,) in the states that ``pi`` reaches from those of ``begin``; 0 in the others where gamma is 1."""
    live = _live(mdp, pi, begin)
    v = np.zeros(mdp.states)
    v[live] = np.linalg.solve(_system(mdp, pi, live), (pi * mdp.r).sum(-1)[live])
    return v


def _live(mdp: MDP, pi: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """The states to solve on, (S,) bool: all, or at gamma = 1 those that are reached from ``begin`` and are no ends."""
    if mdp.gamma < 1:
        return np.ones(mdp.states, bool)
    edges = transitions(mdp, pi) > 0
    last = ends(mdp)
    reached = _reached(edges, begin)
    stuck = reached & ~_reached(edges.T, last)
    if stuck.any():
        raise ValueError(
            f"policy never terminates at gamma = 1 from state {stuck.argmax()}; "
            "let it take actions that lead to an end, or take a gamma below 1"
        )
    return reached & ~last


def _system(mdp: MDP, pi: np.ndarray, live: np.ndarray) -> np.ndarray:
    """I - gamma P on the ``live`` states. At gamma = 1, raises where rounding errors would drown the solution."""
    matrix = np.eye(live.sum()) - mdp.gamma * transitions(mdp, pi)[np.ix_(live, live)]
    if mdp.gamma == 1 and len(matrix):
        try:
            steps = np.linalg.solve(matrix, np.ones(len(matrix)))
        except np.linalg.LinAlgError:
            steps = np.full(len(matrix), np.inf)
        slow = ~((steps > 0) & (steps < SLOWEST))
        if slow.any():
            raise ValueError(
                f"policy takes {SLOWEST:.0e} steps or more to terminate at gamma = 1 from state "
                f"{np.flatnonzero(live)[slow.argmax()]}; make its way to an end likelier, or take a gamma below 1"
            )
    return matrix


def _reached(edges: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """States (S,) bool that can be reached from those of ``begin`` (S,) along ``edges`` (S, S), ``begin`` included."""
    reached = begin
    while (more := reached | (reached @ edges)).sum() > reached.sum():
        reached = more
    return reached


def _ending_actions(mdp: MDP) -> np.ndarray:
    """One action per state (S,), each a step towards an end, so that the policy surely ends."""
    chosen = np.zeros(mdp.states, int)
    near = ends(mdp)
    while not near.all():
        towards = (mdp.P @ near > 0) & ~near[:, None]
        if not towards.any():
            raise ValueError(
                f"no policy terminates at gamma = 1 from state {(~near).argmax()}; "
                "let an action lead to an end, or take a gamma below 1"
            )
        chosen = np.where(towards.any(-1), towards.argmax(-1), chosen)
        near = near | towards.any(-1)
    return chosen
