"""Gradients on token models, exact: of J, of the surrogate, and the moments of what one sampled answer estimates.

The parameters are logits, one row per prompt and prefix; a gradient is a list like a policy, and a policy is given by
its probabilities. A one-sample estimator is a sum over an answer's tokens of a weight times grad log pi(y_t | c_t), so
it is described by its weights (B, V**T, T) alone. Rows after ``eos`` are fixed, and their gradient is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from rlnotes.exact.tokens import (
    MEMORY_LIMIT,
    Policy,
    TokenModel,
    check_policy,
    force_eos,
    on_answers,
    prefix_probs,
    require_support,
    sequence_probs,
    token_ratios,
    values,
)

Gradient = list[np.ndarray]


def softmax_policy(model: TokenModel, logits: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The policy of ``logits[t]`` (B, V**t, V), rows after eos forced.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> softmax_policy(single_prompt([1, 0], 2, horizon=1), logits=[np.zeros((1, 1, 2))])
    [array([[[0.5, 0.5]]])]
    """
    return force_eos(model, [softmax(np.asarray(rows, dtype=np.float64), axis=-1) for rows in logits])


def _through_softmax(reach: Sequence[np.ndarray], policy: Policy, slopes: Sequence[np.ndarray]) -> Gradient:
    """Slopes by probability, as slopes by logit: reach times pi times (slope less its mean under pi)."""
    return [
        probs[..., None] * rows * (slope - (rows * slope).sum(-1, keepdims=True))
        for probs, rows, slope in zip(reach, policy, slopes, strict=True)
    ]


def reward_gradient(model: TokenModel, policy: Policy) -> Gradient:
    """The gradient of J, at the policy: 003 5.2.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, target, _ = one_step([0.75, 0.25], [0.5, 0.5], reward=[1, 0])
    >>> print(flat(reward_gradient(model, target)))  # 3/4 * 1/4
    [ 0.1875 -0.1875]
    """
    policy = check_policy(model, policy)
    return _through_softmax(prefix_probs(model, policy)[:-1], policy, values(model, policy).q)


def surrogate_gradient(model: TokenModel, target: Policy, behavior: Policy) -> Gradient:
    """The gradient of L at the target: 003 5.2, the mean of token-level importance sampling. Needs no common support.

    It differs from that of J twice: prefixes come from the behavior, and advantages are the behavior's.

    >>> from rlnotes.exact.token_families import parity
    >>> model, target, behavior = parity(horizon=2, old=0.5, shift=0.25)
    >>> print(flat(reward_gradient(model, target)).round(3)[:2])  # of the first token
    [ 0.094 -0.094]
    >>> print(flat(surrogate_gradient(model, target, behavior)).round(3)[:2] + 0.0)
    [0. 0.]
    """
    target = check_policy(model, target, "target")
    return _through_softmax(prefix_probs(model, behavior)[:-1], target, values(model, behavior).q)


class BiasParts(NamedTuple):
    """Three gradients that add up to the bias of token-level importance sampling."""

    states: Gradient  # prefixes of mu, advantages of pi
    advantages: Gradient  # prefixes of pi, advantages of mu
    both: Gradient  # what neither explains alone


def bias_parts(model: TokenModel, target: Policy, behavior: Policy) -> BiasParts:
    """The gradient of L less that of J at the target, by its causes. 003 5.2 names the first alone.

    With d the prefixes and A the advantages, d' A' - d A = (d' - d) A + d (A' - A) + (d' - d)(A' - A). Needs no common
    support.

    >>> from rlnotes.exact.token_families import parity
    >>> states, advantages, both = bias_parts(*parity(horizon=2, old=0.5, shift=0.25))
    >>> print(states[0].round(3) + 0.0, advantages[0].round(3))  # of the first token
    [[[0. 0.]]] [[[-0.094  0.094]]]
    """
    target = check_policy(model, target, "target")
    sampled, own = (prefix_probs(model, policy)[:-1] for policy in (behavior, target))
    q_behavior, q_target = values(model, behavior).q, values(model, target).q
    moved = [old - new for old, new in zip(sampled, own, strict=True)]
    other = [old - new for old, new in zip(q_behavior, q_target, strict=True)]
    return BiasParts(
        _through_softmax(moved, target, q_target),
        _through_softmax(own, target, other),
        _through_softmax(moved, target, other),
    )


def reinforce_weights(model: TokenModel, baseline: float | np.ndarray = 0.0) -> np.ndarray:
    """R - b for every token of an answer: 001 2.2.3.

    ``baseline`` is a number, (B, 1) for one by prompt, or (B, V**T, T) for one by token (``on_answers`` of a V).

    >>> from rlnotes.exact.tokens import single_prompt
    >>> model = single_prompt(reward=[1, 0], vocab_size=2, horizon=1)
    >>> print(reinforce_weights(model, baseline=0.5))
    [[[ 0.5]
      [-0.5]]]
    """
    return np.zeros((*model.reward.shape, model.horizon)) + model.reward[..., None] - _by_token(baseline)


def token_weights(
    model: TokenModel,
    target: Policy,
    behavior: Policy,
    baseline: float | np.ndarray = 0.0,
    cap: float = np.inf,
) -> np.ndarray:
    """min(rho_t, cap) (R - b): token-level importance sampling, 003 5.2. Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import parity
    >>> print(token_weights(*parity(horizon=2, old=0.5, shift=0.25))[0])
    [[0.  0. ]
     [0.5 1.5]
     [1.5 0.5]
     [0.  0. ]]
    """
    require_support(model, target, behavior)
    return np.minimum(token_ratios(model, target, behavior), cap) * reinforce_weights(model, baseline)


def sequence_weights(
    model: TokenModel,
    target: Policy,
    behavior: Policy,
    baseline: float | np.ndarray = 0.0,
    cap: float = np.inf,
) -> np.ndarray:
    """min(prod_t rho_t, cap) (R - b): importance sampling of whole answers, 001 2.2.2. Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import parity
    >>> print(sequence_weights(*parity(horizon=2, old=0.5, shift=0.25))[0])  # 0.5 * 1.5
    [[0.   0.  ]
     [0.75 0.75]
     [0.75 0.75]
     [0.   0.  ]]
    """
    require_support(model, target, behavior)
    w = token_ratios(model, target, behavior).prod(-1, keepdims=True)
    return np.minimum(w, cap) * reinforce_weights(model, baseline)


def _by_token(baseline: float | np.ndarray) -> np.ndarray:
    numbers = np.asarray(baseline, dtype=np.float64)
    return numbers[..., None] if numbers.ndim == 2 else numbers


def mean_gradient(model: TokenModel, target: Policy, behavior: Policy, weights: np.ndarray) -> Gradient:
    """The mean, over the behavior's answers, of the estimator with these weights.

    >>> from rlnotes.exact.token_families import parity
    >>> model, target, behavior = parity(horizon=2, old=0.5, shift=0.25)
    >>> weights = sequence_weights(model, target, behavior)  # unbiased
    >>> print(flat(mean_gradient(model, target, behavior, weights)).round(3)[:2])
    [ 0.094 -0.094]
    >>> print(flat(reward_gradient(model, target)).round(3)[:2])
    [ 0.094 -0.094]
    """
    target, size = check_policy(model, target, "target"), model.vocab_size
    weighted = sequence_probs(model, behavior)[..., None] * weights
    gradient = []
    for t, rows in enumerate(target):
        by_token = weighted[..., t].reshape(model.prompts, size**t, size, -1).sum(-1)
        gradient.append(by_token - rows * by_token.sum(-1, keepdims=True))
    return gradient


def squared_norms(model: TokenModel, target: Policy, weights: np.ndarray) -> np.ndarray:
    """(B, V**T) the squared length of the estimate from every answer."""
    scores = [1 - 2 * rows + (rows**2).sum(-1, keepdims=True) for rows in check_policy(model, target, "target")]
    return (weights**2 * on_answers(model, scores)).sum(-1)


def total_variance(model: TokenModel, target: Policy, behavior: Policy, weights: np.ndarray) -> float:
    """E|g|^2 - |E g|^2 of one answer's estimate: 003 section 2, the trace of its covariance.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, pi, _ = one_step([0.5, 0.5], [0.5, 0.5], reward=[1, 0])
    >>> round(total_variance(model, pi, pi, reinforce_weights(model)), 3)
    0.125
    >>> round(total_variance(model, pi, pi, reinforce_weights(model, 0.5)), 3) + 0.0
    0.0
    """
    mean = flat(mean_gradient(model, target, behavior, weights))
    second = (sequence_probs(model, behavior) * squared_norms(model, target, weights)).sum()
    return float(second - mean @ mean)


def flat(gradient: Gradient) -> np.ndarray:
    """All its numbers in one row: position by position, then prompt, prefix, token.

    A model whose logits are ``features @ parameters`` has the gradient ``flat(gradient) @ features``.

    >>> from rlnotes.exact.token_families import parity
    >>> model, target, _ = parity(horizon=2, old=0.5, shift=0.25)
    >>> flat(reward_gradient(model, target)).shape  # 2 logits for each prefix
    (6,)
    """
    return np.concatenate([rows.reshape(-1) for rows in gradient])


class Moments(NamedTuple):
    """Of one answer's estimate, over D flat logits: ``mean`` (D,), ``bias`` (D,), ``covariance`` (D, D)."""

    mean: np.ndarray
    bias: np.ndarray
    covariance: np.ndarray


def moments(model: TokenModel, target: Policy, behavior: Policy, weights: np.ndarray) -> Moments:
    """Mean, bias (mean less the gradient of J at the target) and covariance of one answer's estimate.

    Raises ``MemoryError`` where the estimates of all answers do not fit; then take :func:`total_variance`.
    """
    mean = flat(mean_gradient(model, target, behavior, weights))
    needed = 8 * len(mean) * (3 * model.reward.size + len(mean))
    if needed > MEMORY_LIMIT:
        raise MemoryError(
            f"the covariance of {len(mean)} logits over {model.reward.size} answers needs {needed / 2**30:.3g} GiB; "
            f"the limit is {MEMORY_LIMIT / 2**30:.3g} GiB. Take a smaller model, or total_variance"
        )
    centred = estimates_by_answer(model, target, weights) - mean
    covariance = (sequence_probs(model, behavior).reshape(-1, 1) * centred).T @ centred
    return Moments(mean, mean - flat(reward_gradient(model, target)), covariance)


def estimates_by_answer(model: TokenModel, target: Policy, weights: np.ndarray) -> np.ndarray:
    """(B V**T, D) the estimate from every answer: weights times one-hot less pi, at the contexts it passes."""
    parts = []
    for t, rows in enumerate(check_policy(model, target, "target")):
        contexts, size = model.prompts * model.vocab_size**t, model.vocab_size
        scores = np.eye(size) - rows[..., None, :]
        block = np.zeros((contexts, size, model.reward.size // contexts // size, contexts, size))
        each = np.arange(contexts)
        by_answer = weights[..., t].reshape(contexts, size, -1)
        block[each, :, :, each] = by_answer[..., None] * scores.reshape(contexts, size, 1, size)
        parts.append(block.reshape(model.reward.size, -1))
    return np.concatenate(parts, axis=1)
