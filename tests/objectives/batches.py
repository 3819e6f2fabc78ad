"""Random batches for every recipe, with all that one may ask for."""

from typing import Any

import numpy as np
import torch

from rlnotes.objectives import Batch, Choices, policy_loss
from rlnotes.objectives.aggregations import Totals

Tensors = dict[str, Any]  # tensors by the names of Batch's fields


def tensors(seed: int = 0, responses: int = 8, width: int = 6, spread: float = 0.3) -> Tensors:
    """Responses of every length from 1 to ``width``, log ratios of about ``spread``, NaN outside the mask.

    The divergence is what the token drawn has of the TV of mu and pi, and as much again.
    """
    rng = np.random.default_rng(seed)
    lengths = 1 + np.arange(responses) % width
    mask = torch.from_numpy(np.arange(width) < lengths[:, None])
    logp = torch.from_numpy(-rng.exponential(size=(responses, width)) - 0.1)
    made = dict(logp=logp, entropy=torch.from_numpy(rng.uniform(0, 2, size=(responses, width))))
    for name in ("logp_behavior", "logp_proximal", "logp_reference"):
        made[name] = logp + spread * torch.from_numpy(rng.normal(size=(responses, width)))
    made["divergence"] = (logp.exp() - made["logp_behavior"].exp()).abs()
    made = {name: torch.where(mask, value, torch.nan) for name, value in made.items()}
    advantages = torch.from_numpy(rng.normal(size=responses))
    return made | dict(mask=mask, advantages=advantages, truncated=torch.from_numpy(lengths == width))


def loss_and_gradient(choices: Choices, given: Tensors, totals: Totals | None = None) -> tuple[float, np.ndarray]:
    """The loss and its gradient by ``logp``."""
    fields: dict[str, Any] = given | dict(logp=given["logp"].detach().clone().requires_grad_(), totals=totals)
    loss = policy_loss(choices, Batch(**fields))
    (gradient,) = torch.autograd.grad(loss, fields["logp"])
    return float(loss.detach()), gradient.numpy()
