"""Estimates of the policy gradient from whole episodes, judged exactly: every trajectory is listed with its chance.

An estimate is a sum over the steps of an episode: a weight times the score of the action taken, 002 eqs. (34), (35),
(39), (47). Which weight is the only difference between them. Time is the first axis, as in
:mod:`rlnotes.estimators.returns`, whose functions give the weights; the second axis counts the trajectories.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlnotes.exact.checks import finite
from rlnotes.exact.mdp import MDP, ends

MOST = 200_000  # trajectories: above it arrays need more than about a gigabyte


def with_bell(mdp: MDP, horizon: int) -> MDP:
    """``mdp`` stopped after ``horizon`` steps by a bell. The state knows the time, so values are exact.

    State t * S + s is state s at time t; the last one, horizon * S, is the end. Raises ``ValueError`` for a horizon
    below 1.

    >>> mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), gamma=1.0)
    >>> stopped = with_bell(mdp, horizon=3)
    >>> stopped.states, ends(stopped)
    (4, array([False, False, False,  True]))
    """
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}; at least one step is needed")
    S, A = mdp.states, mdp.actions
    end = horizon * S
    P, r = np.zeros((end + 1, A, end + 1)), np.zeros((end + 1, A))
    for t in range(horizon):
        now = slice(t * S, (t + 1) * S)
        r[now] = mdp.r
        if t + 1 < horizon:
            P[now, :, (t + 1) * S : (t + 2) * S] = mdp.P
        else:
            P[now, :, end] = 1
    P[end, :, end] = 1
    return MDP(P, r, np.append(mdp.start, np.zeros(end + 1 - S)), mdp.gamma)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """All K trajectories that can happen, T steps each. Rows after the end are padding: reward 0, not valid."""

    probs: np.ndarray
    """(K,), their chances, which sum to 1"""
    states: np.ndarray
    """(T, K) int"""
    actions: np.ndarray
    """(T, K) int, 0 on padding"""
    rewards: np.ndarray
    """(T, K), the mean rewards of the process"""
    next_states: np.ndarray
    """(T, K) int"""
    ended: np.ndarray
    """(T, K) bool: an end follows; True on padding as well"""
    valid: np.ndarray
    """(T, K) bool: not padding"""


def trajectories(mdp: MDP, pi: np.ndarray, most_steps: int) -> Trajectories:
    """Every trajectory of ``pi`` (S, A) with its chance, 002 eq. (14).

    Raises ``ValueError`` if one goes on after ``most_steps`` steps, naming a state that is no end, and if there are
    more than 200 000.

    >>> mdp = with_bell(MDP(np.ones((1, 2, 1)), np.eye(2)[:1], np.ones(1), 1), horizon=2)
    >>> paths = trajectories(mdp, np.full((3, 2), 0.5), most_steps=2)
    >>> print(paths.probs, paths.rewards.sum(0))
    [0.25 0.25 0.25 0.25] [2. 1. 1. 0.]
    """
    pi, last = mdp.policy(pi), ends(mdp)
    probs, now = mdp.start[mdp.start > 0], np.flatnonzero(mdp.start)
    rows: list[tuple[np.ndarray, ...]] = []
    while not last[now].all():
        if len(rows) == most_steps:
            raise ValueError(
                f"a trajectory is in state {now[~last[now]][0]} after {most_steps} steps and has not ended; "
                "raise most_steps, or stop the process with with_bell()"
            )
        forced = np.eye(mdp.actions)[0]  # after the end there is nothing to choose
        action_probs = np.where(last[now][:, None], forced, pi[now])
        moves = np.where(last[now][:, None, None], np.eye(mdp.states)[now][:, None], mdp.P[now])
        chance = action_probs[:, :, None] * moves
        parent, action, following = np.nonzero(chance)
        if len(parent) > MOST:
            raise ValueError(f"there are more than {MOST} trajectories; take fewer steps or a smaller process")
        rows = [tuple(column[parent] for column in row) for row in rows]
        rows.append((now[parent], action, following))
        probs, now = probs[parent] * chance[parent, action, following], following
    if not rows:
        raise ValueError("every start is an end; there is no step to take")
    states, actions, next_states = (np.array(columns) for columns in zip(*rows, strict=True))
    return Trajectories(
        probs, states, actions, mdp.r[states, actions] * ~last[states], next_states, last[next_states], ~last[states]
    )


class Moments(NamedTuple):
    """Of an estimate from one episode: ``mean`` (S, A) and ``variance``, the sum over all entries of their variances.

    The mean of N episodes has the same mean and ``variance`` / N.
    """

    mean: np.ndarray
    variance: float


def moments(paths: Trajectories, pi: np.ndarray, weights: np.ndarray) -> Moments:
    """Exact moments of the sum over steps of ``weights`` (T, K) times the score of a softmax policy ``pi`` (S, A).

    Raises ``ValueError`` for weights of another shape, or not finite.

    >>> mdp = with_bell(MDP(np.ones((1, 2, 1)), np.eye(2)[:1], np.ones(1), 1), horizon=1)
    >>> pi = np.full((2, 2), 0.5)
    >>> paths = trajectories(mdp, pi, most_steps=1)
    >>> moments(paths, pi, paths.rewards)
    Moments(mean=array([[ 0.25, -0.25],
           [ 0.  ,  0.  ]]), variance=0.125)
    """
    estimates = per_trajectory(paths, pi, weights)
    mean = np.einsum("k,ksa->sa", paths.probs, estimates)
    return Moments(mean, float(paths.probs @ ((estimates - mean) ** 2).sum((1, 2))))


def per_trajectory(paths: Trajectories, pi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The estimate (K, S, A) that each trajectory gives, with respect to the logits.

    >>> mdp = with_bell(MDP(np.ones((1, 2, 1)), np.eye(2)[:1], np.ones(1), 1), horizon=1)
    >>> pi = np.full((2, 2), 0.5)
    >>> paths = trajectories(mdp, pi, most_steps=1)
    >>> print(per_trajectory(paths, pi, paths.rewards)[:, 0])  # in the first state
    [[ 0.5 -0.5]
     [ 0.   0. ]]
    """
    weights = finite("weights", weights, paths.rewards.shape) * paths.valid
    S, A = pi.shape
    trajectory = np.arange(len(paths.probs))
    estimates = np.zeros((len(paths.probs), S, A))
    for states, actions, weight in zip(paths.states, paths.actions, weights, strict=True):
        np.add.at(estimates, (trajectory, states), weight[:, None] * (np.eye(A)[actions] - pi[states]))
    return estimates


def best_baseline(paths: Trajectories, pi: np.ndarray, to_go: np.ndarray, discounts: np.ndarray) -> np.ndarray:
    """Baseline b (S,) with the smallest variance of sum_t discounts (to_go - b(s_t)) score, by least squares.

    Elementary, derived for this course: the variance is quadratic in b, and the mean does not depend on b.

    >>> mdp = with_bell(MDP(np.ones((1, 2, 1)), np.eye(2)[:1], np.ones(1), 1), horizon=1)
    >>> pi = np.full((2, 2), 0.5)
    >>> paths = trajectories(mdp, pi, most_steps=1)
    >>> print(best_baseline(paths, pi, paths.rewards, np.ones((1, 2))).round(3))
    [0.5 0. ]
    """
    S = pi.shape[0]
    visited = [paths.valid & (paths.states == s) for s in range(S)]
    parts = np.array([per_trajectory(paths, pi, discounts * here) for here in visited])  # (S, K, S, A)
    whole = per_trajectory(paths, pi, discounts * to_go)
    gram = np.einsum("k,ikab,jkab->ij", paths.probs, parts, parts)
    return np.linalg.lstsq(gram, np.einsum("k,ikab,kab->i", paths.probs, parts, whole), rcond=None)[0]
