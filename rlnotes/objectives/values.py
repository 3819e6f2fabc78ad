"""What a critic is trained on: the distance of its values from their targets."""

import torch
from torch import Tensor

from rlnotes.estimators.checks import same_shape
from rlnotes.exact.precision import at_least_float32


@at_least_float32
def clipped_value_loss(values: Tensor, targets: Tensor, old_values: Tensor, limit: float | None) -> Tensor:
    """Mean squared error (), 002 eq. (82), of ``values`` (m,); with a ``limit``, the larger of two errors.

    The second error is that of V kept within ``limit`` of its old value. So a value that has gone farther than that
    towards its target gets no gradient; one that has gone away from it does. The sources do not have this option.
    Stable-Baselines3 takes the second error alone, which also lets go of a value that has gone away.

    >>> values, targets, old = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([0.0])
    >>> [clipped_value_loss(values, targets, old, limit).item() for limit in (0.5, None)]
    [2.25, 1.0]
    """
    same_shape(values=values, targets=targets, old_values=old_values)
    errors = (values - targets).square()
    if limit is not None:
        kept = old_values + (values - old_values).clamp(-limit, limit)
        errors = torch.maximum(errors, (kept - targets).square())
    return errors.mean()
