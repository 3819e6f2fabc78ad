"""Conservative policy iteration on tables, exactly and from walks in an environment: 002 section 4.5.

All that a step needs is one :class:`Look`: the policy to step towards, g, and epsilon. It is computed from a process:
the true one, or one that was counted on walks. An exact run and its sampled twin differ in nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rlnotes.bounds.cpi import kakade_langford_penalty, policy_advantage, step
from rlnotes.bounds.mdp import largest_gain
from rlnotes.control.walks import walks
from rlnotes.exact.mdp import MDP, expected_return, values

TIE = 1e-10  # an advantage below it is rounding


class Look(NamedTuple):
    """What a step knows: ``other`` (S, A), the policy to step towards; g and epsilon of 002 eq. (58)."""

    other: np.ndarray
    g: float
    epsilon: float


class Update(NamedTuple):
    """One step. ``look``: what it knew; ``g``: the true policy advantage. ``alpha``: its size. ``promised``: the least
    change of J, if the look is right; ``true``: the change. ``J``: the return after it. ``pi`` (S, A): the new policy.
    """

    step: int
    look: Look
    g: float
    alpha: float
    promised: float
    true: float
    J: float
    pi: np.ndarray


def iterate(
    mdp: MDP, pi: np.ndarray, steps: int, look: Callable[[np.ndarray], Look], size: Callable[..., float]
) -> Iterator[Update]:
    """Conservative policy iteration from ``pi`` (S, A); ``mdp`` only says what is true.

    ``look`` studies a policy. ``size(gamma, g, epsilon)`` is the step in [0, 1]: ``step_size`` (002 eq. (63)) and
    ``kakade_langford_step_size`` of :mod:`rlnotes.bounds.cpi`, or a rule of one's own. Promises are those of Kakade and
    Langford, the larger ones.
    """
    before = expected_return(mdp, pi)
    for k in range(1, steps + 1):
        seen = look(pi)
        alpha = size(mdp.gamma, seen.g, seen.epsilon)
        promised = alpha * seen.g - float(kakade_langford_penalty(mdp.gamma, seen.epsilon, alpha))
        g = policy_advantage(mdp, pi, seen.other)
        pi = step(pi, seen.other, alpha)
        after = expected_return(mdp, pi)
        yield Update(k, seen, g, alpha, promised, after - before, after, pi)
        before = after


def greedy(advantages: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """The policy (S, A) that takes the action with the largest of ``advantages`` (S, A): 002 eqs. (54), (62).

    Where no action has more than 0 the row of ``pi`` stays: nothing is to be gained there.
    """
    best = np.eye(pi.shape[1])[advantages.argmax(-1)]
    return np.where(advantages.max(-1, keepdims=True) > TIE, best, pi)


def look_at(choosers: MDP, judges: MDP, pi: np.ndarray) -> Look:
    """The greedy policy in the eyes of one process, its g and epsilon in the eyes of another.

    With the true process twice it is exact. Walks that chose a policy praise it too much, so two sets of them are
    wanted: 002 section 4.5, steps 2 and 3.
    """
    other = greedy(values(choosers, pi).a, pi)
    return Look(other, policy_advantage(judges, pi, other), largest_gain(judges, other, pi))


def counted(env: Any, pi: np.ndarray, gamma: float, episodes: int, rng: np.random.Generator) -> MDP:
    """The process as :func:`rlnotes.control.walks.walks` of ``pi`` (S, A) saw it: shares and mean rewards.

    An action that was never tried stays where it is and pays nothing. Raises ``ValueError`` where a walk ends in a
    state from which another goes on, for then its end would need a state of its own.
    """
    S, A = pi.shape
    moves, paid, first, last = np.zeros((S, A, S)), np.zeros((S, A)), np.zeros(S), np.zeros(S, bool)
    found = walks(env, pi, episodes, rng)
    for (state, action, following, reward, terminated), times in Counter(chain.from_iterable(found)).items():
        moves[state, action, following] += times
        paid[state, action] += times * reward
        last[following] |= terminated
    for walk in found:
        first[walk[0].state] += 1
    tries = moves.sum(-1)
    if (both := last & (tries.sum(-1) > 0)).any():
        raise ValueError(f"walks end in state {both.argmax()} and go on from it; take an environment with ends")
    P = np.where(tries[..., None] > 0, moves / np.maximum(tries, 1)[..., None], np.eye(S)[:, None])
    return MDP(P, paid / np.maximum(tries, 1), first / episodes, gamma)
