"""Exponents whose exponentials are numbers: for ratios of probabilities, which have no largest value."""

import math

from array_api_compat import array_namespace

from rlnotes.estimators.checks import Array

SPARE = 8.0  # of the logarithm of the largest float: room for advantages and sums


def kept_exponent(exponent: Array, positive: bool = False) -> Array:
    """``exponent``, not above the logarithm of the dtype's largest float less 8: 80.7 in float32, 701.8 in float64.

    So its exponential is finite, and with ``positive`` also above 0: the exponent is kept as far from below. Within the
    range nothing changes. Beyond it the gradient is that of ``exponent`` all the same: what is too far from home is
    still pulled back, where a plain clip would let go of it.

    >>> import torch
    >>> x = torch.tensor([2.0, 89.0], requires_grad=True)
    >>> kept_exponent(x)
    tensor([ 2.0000, 80.7228], grad_fn=<AddBackward0>)
    >>> torch.autograd.grad(kept_exponent(x).sum(), x)
    (tensor([1., 1.]),)
    """
    xp = array_namespace(exponent)
    limit = math.log(float(xp.finfo(exponent.dtype).max)) - SPARE
    kept = xp.clip(exponent, -limit if positive else None, limit)
    if not hasattr(exponent, "detach"):
        return kept
    # 0, with the gradient of the exponent; infinity less itself would be NaN
    slope = xp.where(xp.isfinite(exponent), exponent - exponent.detach(), xp.zeros_like(exponent))
    return kept.detach() + slope
