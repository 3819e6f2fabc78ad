"""Policy gradient ascent on a table of logits, exact and from episodes, with what each update promised and what it did.

All that an update needs is one table, the *weighted returns* W (S, A): the mean over episodes of the sum of gamma^t G_t
over the times t at which action a was taken in state s. It can be computed, or estimated by an average. The gradient
and the surrogate follow from it by the same two formulas, so an exact run and its sampled twin differ in nothing else.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rlnotes.control.walks import walks
from rlnotes.exact.mdp import MDP, expected_return, softmax, surrogate, values, visits


def weighted_returns(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """W (S, A), exactly: visits times pi times Q."""
    return visits(mdp, pi)[:, None] * mdp.policy(pi) * values(mdp, pi).q


class Sample(NamedTuple):
    """What some episodes say: ``table``, an unbiased estimate of W (S, A); ``mean_return``, of J; ``steps`` in all."""

    table: np.ndarray
    mean_return: float
    steps: int


def sample(env: Any, pi: np.ndarray, gamma: float, episodes: int, rng: np.random.Generator) -> Sample:
    """What :func:`rlnotes.control.walks.walks` of ``pi`` say. What a time limit cuts off is not counted, so give the
    environment a long one.
    """
    table, total, steps = np.zeros(pi.shape), 0.0, 0
    for walk in walks(env, pi, episodes, rng):
        to_go = 0.0
        for t, move in reversed(list(enumerate(walk))):
            to_go = move.reward + gamma * to_go
            table[move.state, move.action] += gamma**t * to_go
        total, steps = total + to_go, steps + len(walk)
    return Sample(table / episodes, total / episodes, steps)


def logit_gradient(table: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """Gradient (S, A) of J with respect to the logits of ``pi``, from W: the score of an action is one-hot minus pi."""
    return table - pi * table.sum(-1, keepdims=True)


def predicted_change(table: np.ndarray, new: np.ndarray, old: np.ndarray) -> float:
    """The surrogate L of ``new``, without J(old), from W of ``old``: the sum of W times (ratio - 1), 002 eq. (51).

    An action that the old policy never takes has W = 0, and counts 0 as in any sample.
    """
    taken = table != 0
    return float((table[taken] * (new[taken] / old[taken] - 1)).sum())


class Update(NamedTuple):
    """One update. ``promised``: its surrogate according to the table that made it, without J(old). ``predicted``: the
    exact one. ``true``: the change of J. ``J``: the return after it. ``pi``: the new policy (S, A).
    """

    step: int
    promised: float
    predicted: float
    true: float
    J: float
    pi: np.ndarray


def ascend(mdp: MDP, rate: float, steps: int, look: Callable[[np.ndarray], np.ndarray]) -> Iterator[Update]:
    """Gradient ascent from equal logits; ``look`` gives W of a policy, exact or estimated."""
    logits = np.zeros((mdp.states, mdp.actions))
    old, before = softmax(logits), expected_return(mdp, softmax(logits))
    for step in range(1, steps + 1):
        table = look(old)
        logits = logits + rate * logit_gradient(table, old)
        new = softmax(logits)
        after = expected_return(mdp, new)
        yield Update(step, predicted_change(table, new, old), surrogate(mdp, new, old), after - before, after, new)
        old, before = new, after
