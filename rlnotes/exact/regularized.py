"""The best policy where it costs to leave a reference: the maximum of 002 eq. (87), J - beta KL(pi || ref)."""

from typing import NamedTuple

import numpy as np

from rlnotes.exact.tokens import Policy, TokenModel, check_policy


class RegularizedOptimum(NamedTuple):
    """``policy``, and the ``value`` of the objective there: beta E_x log sum_y ref(y | x) exp(R / beta)."""

    policy: list[np.ndarray]
    value: float


def regularized_optimum(model: TokenModel, reference: Policy, beta: float) -> RegularizedOptimum:
    """The maximiser of J - beta KL(pi || reference) of whole answers: ref(y | x) exp(R / beta), normalised.

    Token by token, from the last one back: with the soft value V(c) = beta log sum_a ref(a | c) exp(V(c, a) / beta),
    the policy is ref(a | c) exp((V(c, a) - V(c)) / beta). No exponent exceeds 0, so a small beta does not overflow.
    Raises ``ValueError`` unless ``beta`` is positive.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, reference, _ = one_step([0.5, 0.5], [0.5, 0.5], reward=[np.log(3), 0])
    >>> policy, value = regularized_optimum(model, reference, beta=1.0)
    >>> print(policy[0].round(3), round(value, 3))  # odds of 3 to 1, and log 2
    [[[0.75 0.25]]] 0.693
    """
    if not (beta > 0 and np.isfinite(beta)):
        raise ValueError(f"beta is {beta}; it must be positive and finite: without a penalty the best answer is all")
    policy, soft = [], model.reward
    for t, rows in reversed(list(enumerate(check_policy(model, reference, "reference")))):
        after = soft.reshape(model.prompts, model.vocab_size**t, model.vocab_size)
        most = _largest_possible(after, rows)
        weights = rows * np.exp(np.where(rows > 0, after - most, 0.0) / beta)
        total = weights.sum(-1, keepdims=True)
        policy.insert(0, weights / total)
        soft = (most + beta * np.log(total))[..., 0]
    return RegularizedOptimum(policy, float(model.prompt_weights @ soft[:, 0]))


def _largest_possible(after: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The largest value (..., 1) among tokens that the reference gives."""
    return np.where(rows > 0, after, -np.inf).max(-1, keepdims=True)
