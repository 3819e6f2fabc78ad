"""What the cells of chapter 07 start from, and the exact chance of a right answer."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean, group_mean_std
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import GRPO, Batch, policy_loss
from rlnotes.studies.contest import STARTS


@torch.no_grad()
def chances(policy: Transformer, task: Misled, prompts: Tensor) -> Tensor:
    """Probability (B,) of the one right answer to each of ``prompts`` (B, P): exact, their mean is J."""
    answers = Rollout.of_responses(prompts, task.solve(prompts), task.vocabulary.eos)
    return (token_logp(policy, answers) * answers.mask).sum(-1).exp()


def start_chances(prompts: int = 512) -> list[np.ndarray]:
    """:func:`chances` of each of the three starts, (prompts,) each."""
    task = Misled()
    asked = held_out(task, prompts)
    return [chances(shipped_start("misled", start=i), task, asked).double().numpy() for i in range(STARTS)]


def held_out(task: Misled, n: int = 256) -> Tensor:
    """Prompts (n, P) that no run trains on, always the same."""
    return task.sample(n, torch.Generator().manual_seed(0), "heldout").prompts


def gradient_norm(policy: Transformer, rollout: Rollout, advantages: Tensor) -> float:
    """Norm of the gradient of GRPO's loss with ``advantages`` (N,), before any clip of it."""
    batch = Batch(token_logp(policy, rollout), rollout.mask, advantages, rollout.logp_behavior)
    found = torch.autograd.grad(policy_loss(GRPO, batch), list(policy.parameters()))
    return torch.cat([part.flatten() for part in found]).norm().item()


def factors_of_a_scale(scale: float = 100.0) -> tuple[float, float]:
    """By what factor that norm grows with the rewards times ``scale``, on one rollout: with the group's mean and
    standard deviation, and with its mean only.
    """
    task, policy = Misled(), shipped_start("misled")
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    prompts = task.sample(32, torch.Generator().manual_seed(0)).prompts
    rollout = sampler.sample(policy, prompts, 16, torch.Generator().manual_seed(1))
    rewards = task.reward(rollout)

    def factor(advantage: Callable[[Tensor, int], Tensor]) -> float:
        small, large = (gradient_norm(policy, rollout, advantage(size * rewards, 16)) for size in (1.0, scale))
        return large / small

    return factor(group_mean_std), factor(group_mean)
