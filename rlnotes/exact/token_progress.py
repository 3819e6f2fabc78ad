"""What one step along an estimated gradient does to J on token models, exactly, and how curved J is: 003 section 2.

The parameters are logits (``logits[t]`` (B, V**t, V)), as in :mod:`rlnotes.exact.token_gradients`, and an estimator is
given by its weights (B, V**T, T). One sampled answer makes one step.
"""

from collections.abc import Sequence

import numpy as np

from rlnotes.exact.token_gradients import estimates_by_answer, softmax_policy
from rlnotes.exact.tokens import (
    MEMORY_LIMIT,
    Policy,
    TokenModel,
    check_policy,
    expected_reward,
    prefix_probs,
    sequence_probs,
    values,
)


def hessian(model: TokenModel, policy: Policy) -> np.ndarray:
    """The second derivatives (D, D) of J by logits, exactly: E[R (s s^T + grad s)], s the score of an answer.

    Raises ``MemoryError`` where D logits and all answers do not fit.
    """
    policy = check_policy(model, policy)
    size = sum(rows.size for rows in policy)
    needed = 8 * size * (3 * model.reward.size + 3 * size)
    if needed > MEMORY_LIMIT:
        raise MemoryError(
            f"the Hessian of {size} logits over {model.reward.size} answers needs {needed / 2**30:.3g} GiB; the limit "
            f"is {MEMORY_LIMIT / 2**30:.3g} GiB (MEMORY_LIMIT). Take a smaller horizon or vocab_size"
        )
    scores = estimates_by_answer(model, policy, np.ones((*model.reward.shape, model.horizon)))
    weights = (sequence_probs(model, policy) * model.reward).reshape(-1, 1)
    found = (weights * scores).T @ scores
    start = 0
    for reach, rows, v in zip(prefix_probs(model, policy)[:-1], policy, values(model, policy).v, strict=True):
        for mass, probs in zip((reach * v).reshape(-1), rows.reshape(-1, model.vocab_size), strict=True):
            block = slice(start, start := start + model.vocab_size)
            found[block, block] -= mass * (np.diag(probs) - np.outer(probs, probs))
    return found


def curvature(model: TokenModel, policy: Policy) -> float:
    """The length of the Hessian at one policy, its largest absolute eigenvalue. L of 003 is at least that.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, policy, _ = one_step([0.75, 0.25], [0.5, 0.5], reward=[1, 0])
    >>> round(curvature(model, policy), 4), smoothness_bound(model)
    (0.1875, 0.5)
    """
    return float(np.abs(np.linalg.eigvalsh(hessian(model, policy))).max())


def smoothness_bound(model: TokenModel) -> float:
    """A number that L does not exceed, at whatever logits: half the range of a prompt's rewards times its weight.

    Elementary, derived for this course. With a baseline b in the middle of the range, a direction u has second
    derivative E[(R - b)((s u)^2 - sum_t Var u)], at most range / 2 times 2 E sum_t Var u; and Var u <= |u|^2 / 2.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> smoothness_bound(single_prompt(reward=[1, 0], vocab_size=2, horizon=1))
    0.5
    """
    return float((model.prompt_weights * np.ptp(model.reward, axis=1)).max() / 2)


def _moves(model: TokenModel, logits: Sequence[np.ndarray], weights: np.ndarray) -> list[list[np.ndarray]]:
    """The estimate from every answer, each as a list like the logits."""
    found = estimates_by_answer(model, softmax_policy(model, logits), weights)
    ends = np.cumsum([np.size(rows) for rows in logits])[:-1]
    parts = [np.split(estimate, ends) for estimate in found]
    return [[part.reshape(np.shape(rows)) for part, rows in zip(one, logits, strict=True)] for one in parts]


def returns_after_step(model: TokenModel, logits: Sequence[np.ndarray], weights: np.ndarray, step: float) -> np.ndarray:
    """(B, V**T) J at logits + step times the estimate, for each answer that may be the sampled one."""
    after = [
        expected_reward(
            model, softmax_policy(model, [rows + step * part for rows, part in zip(logits, move, strict=True)])
        )
        for move in _moves(model, logits, weights)
    ]
    return np.array(after).reshape(model.reward.shape)


def expected_progress(
    model: TokenModel, logits: Sequence[np.ndarray], behavior: Policy, weights: np.ndarray, step: float
) -> float:
    """E J(theta + step g) - J(theta), over the answer of the behavior that g is made of: the left side of 003 2."""
    after = (sequence_probs(model, behavior) * returns_after_step(model, logits, weights, step)).sum()
    return float(after - expected_reward(model, softmax_policy(model, logits)))


def curvature_on_the_way(
    model: TokenModel, logits: Sequence[np.ndarray], weights: np.ndarray, step: float, points: int = 5
) -> float:
    """The largest curvature seen at ``points`` places of the way of each answer's step, its ends among them.

    An estimate from below of the L that the lemma needs for this step; :func:`smoothness_bound` is a bound.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> model, logits = single_prompt([1, 0], 2, horizon=1), [np.zeros((1, 1, 2))]
    >>> weights = np.array([[[1.0], [0.0]]])
    >>> round(curvature_on_the_way(model, logits, weights, step=1.0), 3)
    0.182
    """
    if points < 2:
        raise ValueError(f"points is {points}; the two ends of a step are the least")
    return max(
        curvature(
            model, softmax_policy(model, [rows + share * step * part for rows, part in zip(logits, move, strict=True)])
        )
        for move in _moves(model, logits, weights)
        for share in np.linspace(0, 1, points)
    )
