"""Numbers to watch beside the loss, which says little: with centred advantages it is near 0 all along."""

from torch import Tensor

from rlnotes.objectives.batch import Batch


def active(batch: Batch) -> Tensor:
    """(N, T) bool: the tokens with an advantage other than 0, which a loss without KL or entropy can push.

    >>> active(Batch.of_ratios([[1.0], [1.0]], [1, 0]))
    tensor([[ True],
            [False]])
    """
    return batch.mask & (batch.token_advantages != 0)


def no_gradient_fraction(batch: Batch, gradient: Tensor) -> Tensor:
    """Share () of the tokens with a non-zero advantage whose entry of ``gradient`` (N, T), d loss / d logp, is 0.

    Without a KL penalty and an entropy bonus these are the tokens whose gate is closed, or that a mask drops. It looks
    at the gradient itself, so it tells the two sides of a clip apart: a ratio of 1.5 is held back when A > 0 and free
    when A < 0.

    >>> import torch
    >>> batch = Batch.of_ratios([[1.0, 1.5, 0.5, 1.0]], [1])
    >>> no_gradient_fraction(batch, torch.tensor([[-1.0, 0.0, -0.5, -1.0]]))
    tensor(0.2500)
    """
    could = active(batch)
    return (could & (gradient == 0)).sum() / could.sum().clamp(min=1)
