"""Divergences between two policies on a token model: at every context, at worst, on average, and of whole answers."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from rlnotes.exact.divergences import chi2, kl, log_probs, tv
from rlnotes.exact.tokens import Policy, TokenModel, check_policy, prefix_probs, require_support, sequence_probs

Contexts = Literal["behavior", "either", "all"]


def _by_context(divergence: Callable, model: TokenModel, p: Policy, q: Policy) -> list[np.ndarray]:
    p, q = check_policy(model, p, "p"), check_policy(model, q, "q")
    return [divergence(log_probs(of_p), log_probs(of_q)) for of_p, of_q in zip(p, q, strict=True)]


def context_tv(model: TokenModel, p: Policy, q: Policy) -> list[np.ndarray]:
    """By t, the total variation (B, V**t) of the next token: half the L1 distance, in [0, 1].

    >>> from rlnotes.exact.token_families import two_steps
    >>> half, more = (0.5, 0.5), (0.25, 0.75)
    >>> model, target, behavior = two_steps([half, half, more], [half] * 3, [0, 0, 0, 1])
    >>> print(*context_tv(model, behavior, target))  # they differ after token 1 only
    [[0.]] [[0.   0.25]]
    """
    return _by_context(tv, model, p, q)


def context_kl(model: TokenModel, p: Policy, q: Policy) -> list[np.ndarray]:
    """By t, KL(p || q) (B, V**t) of the next token in nats; infinite where q lacks a token of p.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, target, behavior = one_step([0.25, 0.75], [0.5, 0.5], reward=[0, 1])
    >>> print(context_kl(model, behavior, target)[0].round(3))  # log(4 / 3) / 2
    [[0.144]]
    """
    return [np.maximum(numbers, 0.0) for numbers in _by_context(kl, model, p, q)]  # rounding can leave -1e-17


def context_chi2(model: TokenModel, p: Policy, q: Policy) -> list[np.ndarray]:
    """By t, chi2(p || q) (B, V**t) of the next token: the variance of p/q under q; infinite where q lacks p's token.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, target, behavior = one_step([0.25, 0.75], [0.5, 0.5], reward=[0, 1])
    >>> print(context_chi2(model, target, behavior)[0])  # ratios 1/2 and 3/2
    [[0.25]]
    """
    return _by_context(chi2, model, p, q)


def _reached(model: TokenModel, target: Policy, behavior: Policy, contexts: Contexts) -> list[np.ndarray]:
    """By t, which contexts (B, V**t) count."""
    sampled = [probs > 0 for probs in prefix_probs(model, behavior)[:-1]]
    if contexts == "behavior":
        return sampled
    if contexts == "either":
        return [old | (new > 0) for old, new in zip(sampled, prefix_probs(model, target)[:-1], strict=True)]
    if contexts == "all":
        return [np.ones_like(old) for old in sampled]
    raise ValueError(f"contexts is {contexts!r}; choose behavior, either or all")


def largest(
    model: TokenModel,
    divergences: Sequence[np.ndarray],
    target: Policy,
    behavior: Policy,
    *,
    contexts: Contexts,
    kept: np.ndarray | None = None,
) -> float:
    """The largest divergence over contexts that the behavior reaches, that either policy reaches, or over all.

    ``kept`` (B, V**T), bool, leaves only contexts on answers that are kept: what a mask over answers looks at. It is
    no bound for the policies, which still pass through the other contexts (001 4.1.2 takes it for one).

    >>> from rlnotes.exact.token_families import two_steps
    >>> half, more = (0.5, 0.5), (0.25, 0.75)
    >>> model, target, behavior = two_steps([half, half, more], [half] * 3, [0, 0, 0, 1])
    >>> found = context_tv(model, behavior, target)
    >>> largest(model, found, target, behavior, contexts="behavior")
    0.25
    """
    counted = _reached(model, target, behavior, contexts)
    if kept is not None:
        kept = np.broadcast_to(kept, model.reward.shape).astype(bool)
        counted = [on & kept.reshape(*on.shape, -1).any(-1) for on in counted]
    return float(max(numbers[on].max(initial=0.0) for numbers, on in zip(divergences, counted, strict=True)))


def mean_by_position(model: TokenModel, divergences: Sequence[np.ndarray], policy: Policy) -> np.ndarray:
    """(T,) the mean divergence at every position, over prompts and the policy's prefixes.

    >>> from rlnotes.exact.token_families import two_steps
    >>> half, more = (0.5, 0.5), (0.25, 0.75)
    >>> model, target, behavior = two_steps([half, half, more], [half] * 3, [0, 0, 0, 1])
    >>> print(mean_by_position(model, context_tv(model, behavior, target), behavior))
    [0.    0.125]
    """
    pairs = zip(prefix_probs(model, policy)[:-1], divergences, strict=True)
    return np.array([(probs[probs > 0] * numbers[probs > 0]).sum() for probs, numbers in pairs])


def sequence_tv(model: TokenModel, p: Policy, q: Policy) -> float:
    """The total variation of whole answers, prompts included.

    >>> from rlnotes.exact.token_families import two_steps
    >>> half, more = (0.5, 0.5), (0.25, 0.75)
    >>> model, target, behavior = two_steps([half, half, more], [half] * 3, [0, 0, 0, 1])
    >>> sequence_tv(model, behavior, target)  # half of the answers begin with token 1
    0.125
    """
    return float(np.abs(sequence_probs(model, p) - sequence_probs(model, q)).sum() / 2)


def sequence_kl(model: TokenModel, p: Policy, q: Policy) -> float:
    """KL(p || q) of whole answers in nats, by the chain rule: the sum of mean token KLs, 001 A.7.

    >>> from rlnotes.exact.token_families import two_steps
    >>> half, more = (0.5, 0.5), (0.25, 0.75)
    >>> model, target, behavior = two_steps([half, half, more], [half] * 3, [0, 0, 0, 1])
    >>> round(sequence_kl(model, behavior, target), 3)  # half of log(4 / 3) / 2
    0.072
    """
    return float(mean_by_position(model, context_kl(model, p, q), p).sum())


def second_moment(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """E_mu[w^2] of the sequence ratio w, which is 1 plus its variance. Raises ``SupportError``.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, target, behavior = one_step([0.25, 0.75], [0.5, 0.5], reward=[0, 1])
    >>> second_moment(model, target, behavior)  # (1/4 + 9/4) / 2
    1.25
    """
    require_support(model, target, behavior)
    new, old = sequence_probs(model, target), sequence_probs(model, behavior)
    return float((new[old > 0] ** 2 / old[old > 0]).sum())
