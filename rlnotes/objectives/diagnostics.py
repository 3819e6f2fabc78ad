"""Numbers to watch beside the loss, which says little: with centred advantages it is near 0 all along."""

import torch
from torch import Tensor

from rlnotes.objectives.loss import Batch, Choices


def closed_gate_fraction(choices: Choices, batch: Batch) -> Tensor:
    """Share () of the tokens with a non-zero advantage that the gate gives no gradient.

    It looks at the gradient itself, so it tells the two sides of a clip apart: a ratio of 1.5 is held back when
    A > 0 and free when A < 0.
    """
    log_ratio = batch.log_ratio("logp", f"logp_{choices.anchor}").detach()
    with torch.enable_grad():
        ratio = choices.ratio(log_ratio, batch.mask).detach().requires_grad_()
        surrogate = choices.gate(ratio, batch.token_advantages.where(batch.mask, 0.0))
        (gradient,) = torch.autograd.grad(surrogate.sum(), ratio)
    active = batch.mask & (batch.token_advantages != 0)
    return (active & (gradient == 0)).sum() / active.sum().clamp(min=1)
