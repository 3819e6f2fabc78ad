"""DPPO's cheap divergences: all tokens but a few are thrown into one bucket, "other". 004 section 4.4.

Each is a lower bound on the divergence of the full rows, for merging outcomes can only hide a difference. A small
value is therefore no proof that the policies are close.

``logp_behavior`` and ``logp`` are log-probabilities of mu and pi. KL is KL(mu || pi), in nats. All functions raise
``ValueError`` for unequal shapes, what is no log-probability, tokens that are no indices, and k outside 0..V.
"""

import math

from array_api_compat import array_namespace

from rlnotes.estimators.checks import Array, actions, log_probs, same_shape
from rlnotes.estimators.divergences import kl, tv
from rlnotes.exact.precision import at_least_float32


def _checked(logp_behavior: Array, logp: Array) -> None:
    same_shape(logp_behavior=logp_behavior, logp=logp)
    log_probs("logp_behavior", logp_behavior)
    log_probs("logp", logp)


def _log(probs: Array) -> Array:
    """Logarithm, with -inf and gradient 0 where ``probs`` is 0 or, by rounding, below."""
    xp = array_namespace(probs)
    positive = probs > 0
    return xp.where(positive, xp.log(xp.where(positive, probs, xp.ones_like(probs))), xp.full_like(probs, -xp.inf))


# --- Binary: the sampled token and the rest


@at_least_float32
def binary_tv(logp_behavior: Array, logp: Array) -> Array:
    """|mu(a) - pi(a)| (...,) from the sampled token's log-probabilities (...,): 004 eq. (13).

    Equal to the full TV if the other tokens all move the other way.

    >>> import numpy as np
    >>> print(binary_tv(np.log(0.5), np.log(0.75)))
    0.25
    """
    _checked(logp_behavior, logp)
    xp = array_namespace(logp_behavior, logp)
    return xp.abs(xp.exp(logp_behavior) - xp.exp(logp))


@at_least_float32
def binary_kl(logp_behavior: Array, logp: Array) -> Array:
    """KL (...,) between "this token or not" of mu and of pi, from log-probabilities (...,): 004 eq. (14).

    Equal to the full KL if the other tokens all change by one factor.

    >>> import numpy as np
    >>> print(binary_kl(np.log(0.5), np.log(0.75)).round(3))  # log(4 / 3) / 2
    0.144
    """
    _checked(logp_behavior, logp)
    xp = array_namespace(logp_behavior, logp)
    rows = (xp.stack([values, _log(-xp.expm1(values))], axis=-1) for values in (logp_behavior, logp))
    return kl(*rows)


# --- Top-k: mu's k most probable tokens, the sampled token, and the rest


def kept_tokens(logp_behavior: Array, tokens: Array, k: int) -> Array:
    """004's A': bool (..., V), True on the ``k`` most probable tokens of ``logp_behavior`` (..., V) and on ``tokens``.

    Of equally probable tokens the lower index is kept. ``tokens`` (...,) are the sampled ones; ``k`` = 0 keeps them
    alone, the binary case.

    >>> import numpy as np
    >>> mu = np.log([0.5, 0.2, 0.2, 0.1])
    >>> print(kept_tokens(mu, np.array(3), k=1))
    [ True False False  True]
    """
    xp = array_namespace(logp_behavior, tokens)
    actions("tokens", tokens, logp_behavior)
    size = logp_behavior.shape[-1]
    if not 0 <= k <= size:
        raise ValueError(f"k is {k}; choose from 0 to the {size} tokens of a row")
    order = xp.argsort(logp_behavior, axis=-1, descending=True, stable=True)
    rank = xp.argsort(order, axis=-1)
    vocabulary = xp.arange(size, device=tokens.device)
    return (rank < k) | (vocabulary == tokens[..., None])


def _rest(logp: Array, kept: Array) -> Array:
    """Probability (...,) of the tokens that are not kept."""
    xp = array_namespace(logp)
    probs = xp.exp(logp)
    return xp.sum(xp.where(kept, xp.zeros_like(probs), probs), axis=-1)


@at_least_float32
def with_other(logp_kept: Array, other: Array) -> Array:
    """Log-probabilities (..., n + 1) over 004's A'': those of the kept tokens (..., n), and last that of "other", whose
    probability is ``other`` (...,). TV and KL of two such rows are 004 eqs. (15), summed over A'', and (16).
    """
    return array_namespace(logp_kept, other).concat([logp_kept, _log(other)[..., None]], axis=-1)


def _reduced(logp: Array, kept: Array) -> Array:
    """The same from full rows (..., V), with -inf on tokens not kept."""
    own = array_namespace(logp).where(kept, logp, array_namespace(logp).full_like(logp, -math.inf))
    return with_other(own, _rest(logp, kept))


@at_least_float32
def topk_tv(logp_behavior: Array, logp: Array, tokens: Array, k: int) -> Array:
    """TV (...,) over the kept tokens *and* "other", from full rows (..., V): 004 eq. (15), summed over A''.

    Never below :func:`binary_tv`. Equal to the full TV if the tokens in the bucket all move one way.

    >>> import numpy as np
    >>> mu, pi = np.log([0.5, 0.2, 0.2, 0.1]), np.log([0.5, 0.1, 0.2, 0.2])
    >>> print([float(topk_tv(mu, pi, np.array(0), k).round(3)) for k in (1, 2)])
    [0.0, 0.1]
    """
    _checked(logp_behavior, logp)
    kept = kept_tokens(logp_behavior, tokens, k)
    return tv(_reduced(logp_behavior, kept), _reduced(logp, kept))


@at_least_float32
def topk_tv_as_printed(logp_behavior: Array, logp: Array, tokens: Array, k: int) -> Array:
    """004 eq. (15) as printed, summed over A', without "other". It can be half of :func:`binary_tv`.

    >>> import numpy as np
    >>> mu, pi = np.log([0.5, 0.3, 0.2]), np.log([0.7, 0.2, 0.1])
    >>> args = (mu, pi, np.array(0), 1)
    >>> print(topk_tv_as_printed(*args).round(3), topk_tv(*args).round(3))
    0.1 0.2
    """
    _checked(logp_behavior, logp)
    xp = array_namespace(logp_behavior, logp)
    kept = kept_tokens(logp_behavior, tokens, k)
    change = xp.abs(xp.exp(logp_behavior) - xp.exp(logp))
    return xp.sum(xp.where(kept, change, xp.zeros_like(change)), axis=-1) / 2


@at_least_float32
def topk_kl(logp_behavior: Array, logp: Array, tokens: Array, k: int) -> Array:
    """KL (...,) over the kept tokens and "other", from full rows (..., V): 004 eq. (16).

    Equal to the full KL if the tokens in the bucket all change by one factor.

    >>> import numpy as np
    >>> mu, pi = np.log([0.5, 0.3, 0.2]), np.log([0.75, 0.1, 0.15])
    >>> print(topk_kl(mu, pi, np.array(0), k=1).round(3), binary_kl(mu[0], pi[0]).round(3))
    0.144 0.144
    """
    _checked(logp_behavior, logp)
    kept = kept_tokens(logp_behavior, tokens, k)
    return kl(_reduced(logp_behavior, kept), _reduced(logp, kept))


@at_least_float32
def topk_tv_gap_bound(logp_behavior: Array, logp: Array, tokens: Array, k: int) -> Array:
    """The most (...,) by which the full TV can exceed :func:`topk_tv`: min(mu(C), pi(C)), C the tokens in the bucket.

    Attained if mu and pi share no token of C. Elementary; at most half of 004 appendix C.1's mu(C) + pi(C).

    >>> import numpy as np
    >>> mu, pi = np.log([0.5, 0.3, 0.2]), np.log([0.5, 0.2, 0.3])
    >>> args = (mu, pi, np.array(0), 1)  # told apart is token 0, which did not move
    >>> print(topk_tv(*args).round(3), topk_tv_gap_bound(*args).round(3), tv(mu, pi).round(3))
    0.0 0.5 0.1
    """
    _checked(logp_behavior, logp)
    kept = kept_tokens(logp_behavior, tokens, k)
    return array_namespace(logp).minimum(_rest(logp_behavior, kept), _rest(logp, kept))
