"""Choice 1: the probability ratio that stands before an advantage.

Each function takes ``log_ratio`` (N, T), log pi - log anchor and 0 outside the ``mask`` (N, T), and returns ratios
(N, T). A response's own ratio is repeated at each of its tokens.

A ratio is always finite and positive: its logarithm is kept within the range of its precision (about 80 either way in
float32, 700 in float64), and the gradient of what lies beyond is still ratio times grad log ratio. From log-ratios in
float16 or bfloat16 come float32 ratios.
"""

from torch import Tensor

from rlnotes.estimators.exponents import kept_exponent
from rlnotes.exact.precision import at_least_float32


def _exp(log_ratio: Tensor) -> Tensor:
    """exp, finite and positive whatever the argument. Its gradient is its value, as that of exp is."""
    return kept_exponent(log_ratio, positive=True).exp()


@at_least_float32
def token(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """One ratio per token: 002 eqs. (92), (95).

    >>> import torch
    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> token(log_ratio, mask)
    tensor([[2., 8.]])
    """
    return _exp(log_ratio)


@at_least_float32
def sequence(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The product over the response, the importance weight of the whole: 002 eq. (105).

    Every token carries it, so its gradient counts T times in a sum over tokens: go with ``response_mean``.

    >>> import torch
    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> sequence(log_ratio, mask)
    tensor([[16., 16.]])
    """
    return _exp(log_ratio.sum(-1, keepdim=True)).expand_as(log_ratio)


@at_least_float32
def sequence_mean(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The geometric mean over the response (GSPO): 002 eqs. (93), (107).

    >>> import torch
    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> sequence_mean(log_ratio, mask)
    tensor([[4., 4.]])
    """
    return _exp(log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)).expand_as(log_ratio)
