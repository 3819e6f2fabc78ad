"""Monte Carlo and importance sampling: estimates under one policy from samples of another.

Weights are handled as ``log_ratio`` = log target - log behaviour of what was sampled, so that a product over many
tokens is a sum and cannot overflow on the way; the weight is its exponential. Samples come from the behaviour.
"""

import math
from typing import NamedTuple

from array_api_compat import array_namespace

from rlnotes.estimators.checks import Array, boolean, finite, log_probs, require, same_shape
from rlnotes.exact.checks import SupportError
from rlnotes.exact.precision import at_least_float32


class Estimate(NamedTuple):
    """A mean over samples and the standard error of that mean, both ()."""

    mean: Array
    standard_error: Array


# --- Ratios


@at_least_float32
def require_support(logp_behavior: Array, logp: Array) -> None:
    """Raise :class:`SupportError` unless the behaviour may do all that the target may: 002 Remark 1.2, 000 section 3.3.

    Both are full rows of log-probabilities (..., V). A batch of samples cannot tell: what the behaviour never does is
    not in it.

    >>> import numpy as np
    >>> mu, pi = np.log([0.9, 0.1]), np.log([0.5, 0.5])
    >>> require_support(mu, pi)  # says nothing where all is well
    """
    xp = array_namespace(logp_behavior, logp)
    same_shape(logp_behavior=logp_behavior, logp=logp)
    log_probs("logp_behavior", logp_behavior)
    log_probs("logp", logp)
    advice = (
        "the target gives this outcome positive probability, which no importance weight can make up for: "
        "sample without top-k or top-p, or mix in a policy that covers it"
    )
    covered = (xp.exp(logp_behavior) > 0) | (xp.exp(logp) == 0)
    require("logp_behavior", logp_behavior, covered, advice, SupportError)


@at_least_float32
def sampled_log_ratio(logp_behavior: Array, logp: Array) -> Array:
    """Log importance weights (...,) of sampled actions from their log-probabilities (...,): 002 section 1.3.

    -inf, a weight of 0, where the target never does what was sampled. Raises ``ValueError`` for unequal shapes and for
    what is no log-probability, and :class:`SupportError` where the behaviour has probability 0: it cannot have sampled
    that.

    >>> import numpy as np
    >>> print(np.exp(sampled_log_ratio(np.log([0.5, 0.25]), np.log([0.25, 0.5]))))
    [0.5 2. ]
    """
    same_shape(logp_behavior=logp_behavior, logp=logp)
    log_probs("logp_behavior", logp_behavior)
    log_probs("logp", logp)
    advice = "the behaviour cannot have sampled this; pass the log-probabilities that the sampler recorded"
    require("logp_behavior", logp_behavior, logp_behavior > -math.inf, advice, SupportError)
    return logp - logp_behavior


def _token_log_ratio(logp_behavior: Array, logp: Array, mask: Array) -> Array:
    """Log-ratios (N, T), 0 outside the mask, where the log-probabilities may be anything."""
    xp = array_namespace(logp_behavior, logp, mask)
    same_shape(logp_behavior=logp_behavior, logp=logp, mask=mask)
    boolean("mask", mask)
    if mask.ndim != 2:
        raise ValueError(f"mask has shape {tuple(mask.shape)}; one row per response, (N, T), is needed")
    lengths = xp.sum(xp.astype(mask, logp.dtype), axis=-1)
    require("the length of response", lengths, lengths > 0, "drop responses without tokens")
    behavior, target = (xp.where(mask, values, xp.zeros_like(values)) for values in (logp_behavior, logp))
    return sampled_log_ratio(behavior, target)


@at_least_float32
def sequence_log_ratio(logp_behavior: Array, logp: Array, mask: Array) -> Array:
    """Log importance weights (N,) of whole responses: the sum over tokens, 002 eq. (105), 000 section 3.3.

    ``logp_behavior`` and ``logp`` (N, T) are those of the sampled tokens; ``mask`` (N, T) bool is True on a response's
    own. Raises ``ValueError`` for unequal shapes, a response without tokens and what is no log-probability under the
    mask, and :class:`SupportError` for a token that the behaviour cannot have sampled.

    >>> import numpy as np
    >>> mu, pi = np.log([[0.5, 0.25]]), np.log([[0.25, 0.75]])
    >>> print(np.exp(sequence_log_ratio(mu, pi, np.array([[True, True]]))))  # 1/2 times 3
    [1.5]
    """
    return array_namespace(logp).sum(_token_log_ratio(logp_behavior, logp, mask), axis=-1)


@at_least_float32
def sequence_mean_log_ratio(logp_behavior: Array, logp: Array, mask: Array) -> Array:
    """Log of the length-normalised ratios (N,) of GSPO, the geometric mean over tokens: 002 eqs. (93), (107).

    Not the log of an importance weight: weighting with it does not give means under the target. Arguments and errors
    as in :func:`sequence_log_ratio`.

    >>> import numpy as np
    >>> mu, pi = np.log([[0.5, 0.125]]), np.log([[0.25, 1.0]])
    >>> own = np.array([[True, True]])
    >>> print(np.exp(sequence_mean_log_ratio(mu, pi, own)))  # the root of 1/2 times 8
    [2.]
    """
    xp = array_namespace(logp)
    total = sequence_log_ratio(logp_behavior, logp, mask)
    return total / xp.sum(xp.astype(mask, logp.dtype), axis=-1)


# --- Estimates


def _samples(values: Array, **beside: Array) -> None:
    """Raise ``ValueError`` unless ``values`` (n,) are two finite numbers or more, and ``beside`` has their shape."""
    if values.ndim != 1:
        raise ValueError(f"values has shape {tuple(values.shape)}; one number per sample, (n,), is needed")
    if values.shape[0] < 2:
        raise ValueError(f"values holds {values.shape[0]} samples; a standard error needs at least two")
    same_shape(values=values, **beside)
    finite("values", values)


def _log_weights(log_ratio: Array) -> None:
    """Raise ``ValueError`` for NaN and +inf, and where every weight is 0."""
    xp = array_namespace(log_ratio)
    advice = "a log-ratio is a number or -inf; make it with sampled_log_ratio, which checks the support"
    require("log_ratio", log_ratio, log_ratio < math.inf, advice)
    if not bool(xp.any(log_ratio > -math.inf)):
        raise ValueError(
            f"all {log_ratio.shape[0]} weights are 0: the target never does what was sampled; "
            "sample from a behaviour closer to it"
        )


@at_least_float32
def monte_carlo(values: Array) -> Estimate:
    """Mean of ``values`` (n,) and its standard error, from the sample variance (n - 1): 002 eqs. (2), (3).

    Raises ``ValueError`` for fewer than two samples and for values that are not finite.

    >>> import numpy as np
    >>> mean, standard_error = monte_carlo(np.array([1.0, 0.0, 1.0, 0.0]))
    >>> print(mean, standard_error.round(3))  # sqrt(1/3 / 4)
    0.5 0.289
    """
    xp = array_namespace(values)
    _samples(values)
    n = values.shape[0]
    mean = xp.mean(values)
    return Estimate(mean, xp.sqrt(xp.sum((values - mean) ** 2) / ((n - 1) * n)))


@at_least_float32
def importance_weights(log_ratio: Array) -> Array:
    """Weights (n,) from their logs. Raises ``ValueError`` for a weight beyond the largest float of the dtype.

    >>> import numpy as np
    >>> print(importance_weights(np.log([2.0, 0.5])))
    [2.  0.5]
    """
    xp = array_namespace(log_ratio)
    _log_weights(log_ratio)
    largest = math.log(xp.finfo(log_ratio.dtype).max)
    advice = f"its weight overflows {log_ratio.dtype}; use self_normalized or clipped, which do not need it"
    require("log_ratio", log_ratio, log_ratio < largest, advice)
    return xp.exp(log_ratio)


@at_least_float32
def importance_sampling(log_ratio: Array, values: Array) -> Estimate:
    """Mean under the target of ``values`` (n,), weighted: 002 eq. (5). Unbiased where the behaviour covers the target.

    Raises ``ValueError`` for unequal shapes, fewer than two samples, numbers that are not finite, weights that are all
    0, and a weight too large for the dtype.

    >>> import numpy as np
    >>> print(importance_sampling(np.log([2.0, 0.5]), np.array([1.0, 4.0])).mean)  # (2 + 2) / 2
    2.0
    """
    _samples(values, log_ratio=log_ratio)
    return monte_carlo(importance_weights(log_ratio) * values)


@at_least_float32
def clipped(log_ratio: Array, values: Array, cap: float) -> Estimate:
    """Importance sampling with weights of at most ``cap``: 002 Remark 1.3.

    Biased by E[(min(w, cap) - w) value]; every weighted value is then at most ``cap`` times the largest value. Raises
    as :func:`importance_sampling` does, save that no weight is too large, and for a ``cap`` that is not positive.

    >>> import numpy as np
    >>> print(clipped(np.log([8.0, 0.5]), np.array([1.0, 2.0]), cap=2.0).mean)  # (2 + 1) / 2
    1.5
    """
    if not cap > 0:
        raise ValueError(f"cap is {cap}; the largest weight must be positive")
    xp = array_namespace(log_ratio, values)
    _samples(values, log_ratio=log_ratio)
    _log_weights(log_ratio)
    limit = xp.full_like(log_ratio, math.log(cap))
    return monte_carlo(xp.exp(xp.minimum(log_ratio, limit)) * values)


@at_least_float32
def balanced_cap(log_ratio: Array) -> Array:
    """The cap C () of n weights that is as large as what it cuts off all of them together, C = sum (w - C)^+.

    It minimises E[(w - C)^+]^2 + E[min(w, C)^2] / n with means over the n samples: the largest bias that a cap can
    bring into the mean of a function between -1 and 1, squared, and the noise of that mean. Elementary, derived for
    this course. Any cap below the smallest weight only shortens the step, and so may this one. Raises ``ValueError``
    for weights that overflow and for none.

    >>> import numpy as np
    >>> print(balanced_cap(np.log([0.5, 1.0, 6.0])).round(3))  # 6 - 3 is cut off
    3.0
    """
    xp = array_namespace(log_ratio)
    if log_ratio.shape[0] < 1:
        raise ValueError("log_ratio is empty; a cap needs at least one weight")
    largest_first = xp.sort(importance_weights(log_ratio), descending=True)
    return xp.max(xp.cumulative_sum(largest_first) / xp.arange(2, log_ratio.shape[0] + 2))


def _normalized(log_ratio: Array) -> Array:
    """Weights (n,) over their sum. The largest is taken out first, so that none overflows."""
    xp = array_namespace(log_ratio)
    _log_weights(log_ratio)
    weights = xp.exp(log_ratio - xp.max(log_ratio))
    return weights / xp.sum(weights)


@at_least_float32
def self_normalized(log_ratio: Array, values: Array) -> Estimate:
    """Mean under the target with weights over their sum: 002 Remark 1.3.

    Biased for finite n, and blind to a constant in ``log_ratio``. The standard error is the delta method's, right for
    large n. Raises as :func:`importance_sampling` does, save that no weight is too large.

    >>> import numpy as np
    >>> print(self_normalized(np.log([3.0, 1.0]), np.array([1.0, 0.0])).mean.round(3))
    0.75
    """
    xp = array_namespace(log_ratio, values)
    _samples(values, log_ratio=log_ratio)
    weights = _normalized(log_ratio)
    mean = xp.sum(weights * values)
    return Estimate(mean, xp.sqrt(xp.sum((weights * (values - mean)) ** 2)))


@at_least_float32
def effective_sample_size(log_ratio: Array) -> Array:
    """(sum w)^2 / sum w^2 of the weights w of n samples: between 1 and n, and n if they are equal.

    An estimate from these very samples: a batch that missed the large weights reports too much.

    >>> import numpy as np
    >>> print(effective_sample_size(np.log([3.0, 1.0])).round(3))  # 4^2 / (9 + 1)
    1.6
    """
    return 1 / array_namespace(log_ratio).sum(_normalized(log_ratio) ** 2)


@at_least_float32
def expected_effective_sample_size(n: int, chi2: Array) -> Array:
    """n / (1 + chi2), with ``chi2`` = chi2(target, behaviour): what :func:`effective_sample_size` tends to in n.

    1 + chi2 is the mean of the squared weight: 003 section 4.2.

    >>> expected_effective_sample_size(100, chi2=3.0)
    25.0
    """
    return n / (1 + chi2)
