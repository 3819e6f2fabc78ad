"""Surrogates of the improvement on token models, and what they miss.

With rho_t the token ratios, every answer has X = sum_t (rho_t - 1) and N = prod_t rho_t - 1 - X. Both have mean 0 under
the behavior, and J(target) - J(behavior) = L + Error with L = E[R X] and Error = E[R N]: 001 2.2.7 and 004 Theorem 3.1,
whose Delta is -Error. A constant added to the rewards changes neither.
"""

from typing import NamedTuple

import numpy as np

from rlnotes.exact.tokens import (
    Policy,
    TokenModel,
    check_policy,
    context_ratios,
    own_tokens,
    prefix_probs,
    require_support,
    sequence_probs,
    token_ratios,
    values,
)


class Excess(NamedTuple):
    """Of every answer (B, V**T): ``x`` = sum_t (rho_t - 1), ``n`` = prod_t rho_t - 1 - x."""

    x: np.ndarray
    n: np.ndarray


def excess(model: TokenModel, target: Policy, behavior: Policy) -> Excess:
    """X and N of every answer; their means under the behavior are 0 only where it supports the target."""
    x, n, w = (np.full((model.prompts, 1), start) for start in (0.0, 0.0, 1.0))
    for ratio in context_ratios(model, target, behavior):
        n = (n[..., None] + (ratio - 1) * (w - 1)[..., None]).reshape(model.prompts, -1)  # summed: exact at small n
        x = (x[..., None] + (ratio - 1)).reshape(model.prompts, -1)
        w = (w[..., None] * ratio).reshape(model.prompts, -1)
    return Excess(x, n)


def surrogate(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """L = E_mu[R sum_t (rho_t - 1)]: 004 eq. (5). Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import parity
    >>> from rlnotes.exact.tokens import improvement
    >>> case = parity(horizon=2, old=0.25, shift=0.25)
    >>> print(f"{improvement(*case):.3f} = {surrogate(*case):.3f} + {error(*case):.3f}")
    0.125 = 0.250 + -0.125
    """
    require_support(model, target, behavior)
    return sampled_surrogate(model, target, behavior)


def sampled_surrogate(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """E_mu[R sum_t (rho_t - 1)] over what the behavior can sample, also where it lacks tokens of the target.

    Equal to :func:`surrogate` under common support; without it a constant added to the rewards changes the number.

    >>> from rlnotes.exact.token_families import no_common_token
    >>> sampled_surrogate(*no_common_token(reward_of_new=-1))  # the improvement is -1
    0.0
    """
    return float((sequence_probs(model, behavior) * model.reward * excess(model, target, behavior).x).sum())


def surrogate_by_position(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """(T,) means of g_t over prefixes of the behavior: 001 2.3.1. They sum to L. With any support.

    >>> from rlnotes.exact.token_families import parity
    >>> print(surrogate_by_position(*parity(2, old=0.25, shift=0.25)))  # L is 0.25
    [0.125 0.125]
    """
    return _mean_gain(model, target, behavior, prefix_probs(model, behavior))


def improvement_by_position(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """(T,) means of g_t over prefixes of the target: 001 2.3.1. They sum to the improvement, with any support.

    >>> from rlnotes.exact.token_families import parity
    >>> print(improvement_by_position(*parity(2, old=0.25, shift=0.25)).round(3) + 0.0)
    [0.125 0.   ]
    """
    return _mean_gain(model, target, behavior, prefix_probs(model, target))


def gains(model: TokenModel, target: Policy, behavior: Policy) -> list[np.ndarray]:
    """By t, g_t (B, V**t): the mean of the behavior's advantage under the target's next token, 001 2.3.1.

    >>> from rlnotes.exact.token_families import parity
    >>> print(gains(*parity(horizon=2, old=0.25, shift=0.25))[1])  # after 0 and after 1
    [[ 0.25 -0.25]]
    """
    target = check_policy(model, target, "target")
    return [(new * a).sum(-1) for new, a in zip(target, values(model, behavior).a, strict=True)]


def _mean_gain(model: TokenModel, target: Policy, behavior: Policy, reach: list[np.ndarray]) -> np.ndarray:
    pairs = zip(reach[:-1], gains(model, target, behavior), strict=True)
    return np.array([(probs * gain).sum() for probs, gain in pairs])


def printed_surrogate(
    model: TokenModel, target: Policy, behavior: Policy, baseline: float, mask: np.ndarray | None = None
) -> float:
    """E_mu[M (R - b) sum_t rho_t] over an answer's own tokens, as 001 2.2.4 and (with ``mask``) 4.1.1 print it.

    ``mask`` (B, V**T) is 1 on answers that are kept; without it all are. It is L only for answers of one length T and
    b = J(behavior): else it is off by T (J - b), or by more where lengths vary. Raises ``SupportError``.
    """
    require_support(model, target, behavior)
    kept = np.ones_like(model.reward) if mask is None else np.broadcast_to(mask, model.reward.shape)
    ratio_sum = excess(model, target, behavior).x + own_tokens(model).sum(-1)
    return float((sequence_probs(model, behavior) * kept * (model.reward - baseline) * ratio_sum).sum())


def error(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """Error = E_mu[R N], the improvement less L: 001 2.2.7. Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import parity
    >>> error(*parity(horizon=2, old=0.25, shift=0.25))  # -2 D^2
    -0.125
    """
    require_support(model, target, behavior)
    return float((sequence_probs(model, behavior) * model.reward * excess(model, target, behavior).n).sum())


def delta(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """Delta = E_mu[R sum_t (rho_t - 1)(1 - prod_{j>t} rho_j)]: 004 eq. (6). Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import parity
    >>> delta(*parity(horizon=2, old=0.25, shift=0.25))  # -Error
    0.125
    """
    require_support(model, target, behavior)
    ratios = token_ratios(model, target, behavior)
    later = np.ones_like(ratios)
    later[..., :-1] = np.cumprod(ratios[..., :0:-1], axis=-1)[..., ::-1]
    missed = ((ratios - 1) * (1 - later)).sum(-1)
    return float((sequence_probs(model, behavior) * model.reward * missed).sum())


def worst_error(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The largest |Error| that any rewards in [0, 1] could give: E_mu|N| / 2. Raises ``SupportError``.

    Of the model only its sizes, prompts and eos count. Elementary, derived for this course.

    >>> from rlnotes.exact.token_families import parity
    >>> worst_error(*parity(horizon=2, old=0.5, shift=0.25))
    0.125
    """
    require_support(model, target, behavior)
    return float((sequence_probs(model, behavior) * np.abs(excess(model, target, behavior).n)).sum() / 2)


def worst_surrogate(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The largest |L| that any rewards in [0, 1] could give: E_mu|X| / 2 = E_mu[X^-]. Raises ``SupportError``.

    Of the model only its sizes, prompts and eos count. Elementary, derived for this course.
    """
    require_support(model, target, behavior)
    return float((sequence_probs(model, behavior) * np.abs(excess(model, target, behavior).x)).sum() / 2)
