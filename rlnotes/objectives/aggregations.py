"""Choice 5: what one token weighs in the batch.

Each function takes the ``mask`` (N, T), as ones and zeros, and :class:`Totals`, and returns weights (N, T): the loss is
the weighted sum of the token losses. Totals are those of the whole batch, so the losses of its parts add up to the
loss of the whole.
"""

from dataclasses import dataclass

from torch import Tensor

from rlnotes.exact.precision import at_least_float32


@dataclass(frozen=True)
class Totals:
    """Sizes of the whole batch that a loss is a part of: responses, tokens, and the longest response allowed.

    ``weight`` is the mean weight of the whole batch, for a :class:`~rlnotes.objectives.gates.Correction` that is
    ``normalised``: its method ``mean`` computes it.

    >>> import torch
    >>> mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> Totals.of(mask)
    Totals(responses=2, tokens=3, max_length=2, weight=None)
    """

    responses: int
    tokens: int | Tensor
    max_length: int
    weight: float | None = None

    @staticmethod
    def of(mask: Tensor, max_length: int | None = None) -> "Totals":
        """Sizes of a batch that is whole. ``max_length`` defaults to the width of ``mask``.

        A row without tokens is no response. An empty batch counts as one token, so that its loss is 0.
        """
        responses, tokens = int((mask != 0).any(-1).sum()), int(mask.sum())
        return Totals(max(responses, 1), max(tokens, 1), max_length or mask.shape[1])


@at_least_float32
def response_mean(mask: Tensor, totals: Totals) -> Tensor:
    """Mean over the response, then over responses (GRPO): 002 eq. (97). Short responses weigh more per token.

    >>> import torch
    >>> mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> response_mean(mask, Totals.of(mask))
    tensor([[0.2500, 0.2500],
            [0.5000, 0.0000]])
    """
    return mask / mask.sum(-1, keepdim=True).clamp(min=1) / totals.responses


@at_least_float32
def constant(mask: Tensor, totals: Totals) -> Tensor:
    """Sum over tokens, divided by T_max and by the number of responses (Dr. GRPO): 002 eq. (100).

    >>> import torch
    >>> mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> constant(mask, Totals.of(mask, max_length=5))
    tensor([[0.1000, 0.1000],
            [0.1000, 0.0000]])
    """
    return mask / (totals.max_length * totals.responses)


@at_least_float32
def token_mean(mask: Tensor, totals: Totals) -> Tensor:
    """Mean over all tokens of the batch (DAPO): 002 eq. (102). Long responses weigh more.

    >>> import torch
    >>> mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> token_mean(mask, Totals(responses=2, tokens=4, max_length=2))  # part of four tokens
    tensor([[0.2500, 0.2500],
            [0.2500, 0.0000]])
    """
    return mask / totals.tokens


@at_least_float32
def response_sum(mask: Tensor, totals: Totals) -> Tensor:
    """Sum over tokens, divided by the number of responses: the policy gradient itself, and 001 section 4.5.

    >>> import torch
    >>> mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> response_sum(mask, Totals.of(mask))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.0000]])
    """
    return mask / totals.responses
