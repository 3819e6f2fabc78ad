"""Choice 1: the probability ratio that stands before an advantage.

Each function takes ``log_ratio`` (N, T), log pi - log anchor and 0 outside the ``mask`` (N, T), and returns ratios
(N, T). A response's own ratio is repeated at each of its tokens.
"""

from torch import Tensor


def token(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """One ratio per token: 002 eqs. (92), (95)."""
    return log_ratio.exp()


def sequence(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The product over the response, the importance weight of the whole: 002 eq. (105)."""
    return log_ratio.sum(-1, keepdim=True).exp().expand_as(log_ratio)


def sequence_mean(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The geometric mean over the response (GSPO): 002 eqs. (93), (107)."""
    return (log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)).exp().expand_as(log_ratio)
