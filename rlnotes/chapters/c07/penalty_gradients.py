"""Exact mean gradients of a KL penalty on responses of two tokens out of 0 and 1, against a reference that is even."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rlnotes.exact import tokens
from rlnotes.objectives import VANILLA_PG, Batch, KLPenalty, penalised_rewards, policy_loss

RESPONSES = tokens.sequences(2, 2)  # 00, 01, 10, 11


def logp_of(theta: Tensor) -> Tensor:
    """Log-probabilities (4, 2) of the tokens of each response; ``theta`` (3, 2) are logits of the first token, of the
    second after 0, and after 1.
    """
    rows = theta.log_softmax(-1)
    return torch.stack([rows[0, RESPONSES[:, 0]], rows[1 + RESPONSES[:, 0], RESPONSES[:, 1]]], dim=1)


def policy_of(theta: Tensor) -> list[np.ndarray]:
    """The same as a policy of :mod:`rlnotes.exact.tokens`."""
    rows = theta.softmax(-1).numpy()
    return [rows[None, :1], rows[None, 1:]]


def mean_gradient(theta: Tensor, kl: KLPenalty, rewards: Tensor) -> Tensor:
    """Gradient (3, 2) of the plain policy gradient's loss with a penalty: its mean over the policy's own responses,
    which are held fixed. ``rewards`` (4,) are those of the responses.
    """
    theta = theta.clone().requires_grad_()
    logp, logp_ref = logp_of(theta), logp_of(torch.zeros_like(theta))
    own = torch.ones(4, 2, dtype=torch.bool)
    if kl.where == "reward":
        rewards = penalised_rewards(kl, rewards, logp - logp_ref, own)
    loss = torch.zeros((), dtype=theta.dtype)
    for i, chance in enumerate(logp.sum(1).exp().detach()):
        batch = Batch(logp[[i]], own[[i]], rewards[[i]], logp_reference=logp_ref[[i]])
        loss = loss + chance * policy_loss(replace(VANILLA_PG, kl=kl), batch)
    return torch.autograd.grad(loss, theta)[0]
