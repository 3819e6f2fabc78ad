"""Choice 1: the probability ratio that stands before an advantage.

Each function takes ``log_ratio`` (N, T), log pi - log anchor and 0 outside the ``mask`` (N, T), and returns ratios
(N, T). A response's own ratio is repeated at each of its tokens.

A ratio is always finite and positive: its logarithm is kept within the range of its precision (about 80 either way in
float32, 700 in float64), and the gradient of what lies beyond is still ratio times grad log ratio.
"""

import math

import torch
from torch import Tensor

SPARE = 8.0  # of the logarithm of the largest float: room for advantages and sums


def _exp(log_ratio: Tensor) -> Tensor:
    """exp, finite and positive whatever the argument. Its gradient is its value, as that of exp is."""
    limit = math.log(torch.finfo(log_ratio.dtype).max) - SPARE
    beyond = (log_ratio - log_ratio.clamp(-limit, limit)).detach()
    return (log_ratio - beyond).exp()


def token(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """One ratio per token: 002 eqs. (92), (95).

    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> token(log_ratio, mask)
    tensor([[2., 8.]])
    """
    return _exp(log_ratio)


def sequence(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The product over the response, the importance weight of the whole: 002 eq. (105).

    Every token carries it, so its gradient counts T times in a sum over tokens: go with ``response_mean``.

    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> sequence(log_ratio, mask)
    tensor([[16., 16.]])
    """
    return _exp(log_ratio.sum(-1, keepdim=True)).expand_as(log_ratio)


def sequence_mean(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The geometric mean over the response (GSPO): 002 eqs. (93), (107).

    >>> log_ratio = torch.tensor([[2.0, 8.0]]).log()
    >>> mask = torch.ones(1, 2) > 0
    >>> sequence_mean(log_ratio, mask)
    tensor([[4., 4.]])
    """
    return _exp(log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)).expand_as(log_ratio)
