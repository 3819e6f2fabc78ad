"""Exact mean and variance of group estimators on token models, whatever a group makes of its rewards.

A group is G answers of the behavior to one prompt; its estimate is the mean over the group of the advantage times the
answer's weighted score. Groups are listed by how many answers earn each reward, which is all an advantage sees, so
the V**(T G) groups shrink to a few hundred wherever few rewards occur.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rlnotes.exact.token_gradients import Gradient, flat, mean_gradient, squared_norms
from rlnotes.exact.tokens import Policy, TokenModel, sequence_probs

MAX_GROUPS = 200_000  # different groups of rewards that one prompt may give


class GroupMoments(NamedTuple):
    """``mean`` of a group's estimate, a gradient, and its total ``variance`` E|g|^2 - |E g|^2."""

    mean: Gradient
    variance: float


def group_moments(
    model: TokenModel,
    target: Policy,
    behavior: Policy,
    weights: np.ndarray,
    advantage: Callable[[np.ndarray, int], np.ndarray],
    group_size: int,
) -> GroupMoments:
    """Moments of mean_i advantage_i sum_t weights_{i,t} grad log pi(y_{i,t} | c_{i,t}) over groups of one prompt.

    ``weights`` (B, V**T, T) hold no rewards: ones for REINFORCE, token ratios for token-level importance sampling.
    ``advantage`` takes rewards (N,) and G: a function of :mod:`rlnotes.estimators.baselines`, whose value may depend
    on its own group only. Raises ``MemoryError`` where a prompt's rewards make more than ``MAX_GROUPS`` groups.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, pi, _ = one_step([0.5, 0.5], [0.5, 0.5], reward=[1, 0])
    >>> found = group_moments(model, pi, pi, np.ones((1, 2, 1)), lambda r, size: r, 4)
    >>> print(found.mean[0].round(3), round(found.variance, 5))  # 1/8 over 4
    [[[ 0.25 -0.25]]] 0.03125
    """
    probs = sequence_probs(model, behavior)
    norms = squared_norms(model, target, weights)
    coefficients, second = np.zeros_like(model.reward), 0.0
    for prompt, weight in enumerate(model.prompt_weights):
        if weight == 0:
            continue
        answers = probs[prompt] / weight
        rewards, kind = np.unique(np.where(answers > 0, model.reward[prompt], np.nan), return_inverse=True)
        levels = int(np.isfinite(rewards).sum())
        shares = np.bincount(kind, answers, minlength=len(rewards))[:levels]
        single, square, product = _advantage_moments(rewards[:levels], shares, advantage, group_size)
        sums = []
        for level in range(levels):
            chosen = np.zeros_like(model.reward)
            chosen[prompt] = (kind == level) / weight
            sums.append(flat(mean_gradient(model, target, behavior, weights * chosen[..., None])))
            coefficients[prompt, kind == level] = single[level]
        own = sum(square[level] * (answers * norms[prompt])[kind == level].sum() for level in range(levels))
        pairs = (product * (np.array(sums) @ np.array(sums).T)).sum()
        second += weight * (own / group_size + pairs * (group_size - 1) / group_size)
    mean = mean_gradient(model, target, behavior, weights * coefficients[..., None])
    return GroupMoments(mean, float(second - flat(mean) @ flat(mean)))


def _advantage_moments(
    rewards: np.ndarray, shares: np.ndarray, advantage: Callable[[np.ndarray, int], np.ndarray], group_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[A_1 | R_1], E[A_1^2 | R_1] (m,) and E[A_1 A_2 | R_1, R_2] (m, m) for m rewards with these probabilities."""
    levels = len(rewards)
    count = math.comb(group_size + levels - 1, group_size)
    if count > MAX_GROUPS:
        raise MemoryError(
            f"{levels} different rewards in groups of {group_size} make {count} different groups; the limit is "
            f"{MAX_GROUPS} (MAX_GROUPS). Take fewer different rewards or a smaller group_size"
        )
    groups = np.array(list(itertools.combinations_with_replacement(range(levels), group_size)))
    advantages = np.asarray(advantage(rewards[groups].reshape(-1), group_size)).reshape(groups.shape)
    counts = (groups[..., None] == np.arange(levels)).sum(1)
    by_level = np.zeros(counts.shape)  # the advantage of an answer with this reward, 0 where the group has none
    np.put_along_axis(by_level, groups, advantages, axis=1)
    log_orders = [math.lgamma(group_size + 1) - sum(math.lgamma(n + 1) for n in row) for row in counts.tolist()]
    chance = np.exp(np.array(log_orders) + counts @ np.log(shares))
    first = counts / group_size  # chance that answer 1 has this reward, given the counts
    both = counts[:, :, None] * (counts[:, None, :] - np.eye(levels)) / max(group_size * (group_size - 1), 1)
    single = (chance[:, None] * first * by_level).sum(0) / shares
    square = (chance[:, None] * first * by_level**2).sum(0) / shares
    product = np.einsum("g,gij,gi,gj->ij", chance, both, by_level, by_level) / np.outer(shares, shares)
    return single, square, product
