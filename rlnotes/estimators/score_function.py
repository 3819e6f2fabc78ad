"""The log-derivative trick: a scalar whose gradient is the policy gradient, and the score itself. 002 section 1.4."""

from array_api_compat import array_namespace

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.checks import TOLERANCE, Array, actions, finite, log_probs, require, same_shape
from rlnotes.exact.precision import at_least_float32


def _constant(values: Array) -> Array:
    """``values`` without a gradient."""
    return values.detach() if hasattr(values, "detach") else values


@at_least_float32
def score_function(logp: Array, weights: Array, baseline: Array | None = None) -> Array:
    """Mean () of logp * (weights - baseline), to be *maximised*; its gradient estimates E[weights]'s, 002 eq. (7).

    ``logp`` (...,) are log-probabilities of samples, ``weights`` their returns or advantages, ``baseline`` a number per
    sample that does not depend on the action, which changes the variance and not the mean: 002 Remark 1.4, eq. (42).
    All have one shape, and the last two are held constant. Only the gradient means anything: the value does not.

    Raises ``ValueError`` naming both shapes where they differ, (N, 1) against (N,) among them; for no samples, for
    weights that are not finite and for a ``logp`` that is -inf: the policy cannot have sampled that.

    >>> import torch
    >>> logits = torch.zeros(2, requires_grad=True)  # pi = (1/2, 1/2), and action 0 earned 2
    >>> score_function(logits.log_softmax(-1)[:1], torch.tensor([2.0])).backward()
    >>> print(logits.grad)
    tensor([ 1., -1.])
    """
    xp = array_namespace(logp, weights)
    same_shape(logp=logp, weights=weights)
    log_probs("logp", logp)
    finite("logp", logp)
    finite("weights", weights)
    if 0 in logp.shape:
        raise ValueError(f"logp has shape {tuple(logp.shape)}; a mean needs at least one sample")
    if baseline is not None:
        same_shape(weights=weights, baseline=baseline)
        finite("baseline", baseline)
        weights = weights - baseline
    return xp.mean(logp * _constant(weights))


@at_least_float32
def softmax_score(probs: Array, action: Array) -> Array:
    """Gradient (..., V) of log pi(action) on the logits of a softmax: one-hot minus ``probs``, 002 Example 1.8.

    ``probs`` (..., V) are probabilities and ``action`` (...,) integers. Raises ``ValueError`` for what is neither.

    >>> import numpy as np
    >>> print(softmax_score(np.array([0.5, 0.25, 0.25]), np.array(0)))
    [ 0.5  -0.25 -0.25]
    """
    xp = array_namespace(probs, action)
    require("probs", probs, probs >= 0, "a probability is at least 0; pass probabilities, not logits")
    sums = xp.sum(probs, axis=-1)
    require("the sum of probs", sums, xp.abs(sums - 1) <= TOLERANCE, "divide each row by its sum")
    actions("action", action, probs)
    return xp.astype(xp.arange(probs.shape[-1], device=probs.device) == action[..., None], probs.dtype) - probs


@at_least_float32
def normalize_advantages(advantages: Array, eps: float = 1e-8) -> Array:
    """Advantages minus their mean, over their sample standard deviation (divisor n - 1) plus ``eps``, as in PPO.

    All entries of ``advantages``, of any shape, are one batch. A batch of one gets 0.0, for it has nothing to be
    compared with; so do equal advantages. Raises ``ValueError`` for numbers that are not finite.

    >>> import numpy as np
    >>> print(normalize_advantages(np.array([1.0, 2.0, 3.0])).round(3))
    [-1.  0.  1.]
    """
    xp = array_namespace(advantages)
    finite("advantages", advantages)
    flat = xp.reshape(advantages, (-1,))
    if flat.shape[0] < 2:  # the sample standard deviation of one number is 0 / 0
        return xp.zeros_like(advantages)
    return xp.reshape(group_mean_std(flat, flat.shape[0], ddof=1, eps=eps, eps_inside=False), advantages.shape)
