"""The task of chapter 08, on which the reward says nothing of length: the start, and what a policy is worth."""

from typing import Any

import torch
from torch import Tensor

from rlnotes.lm.enumeration import every_prompt
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Split
from rlnotes.lm.tasks.ramble import Ramble

TASK = Ramble()
SAMPLER = Sampler(TASK.max_response_length, TASK.vocabulary.eos)
HELD_OUT = every_prompt(TASK, "heldout")
RESPONSES = 200  # to each held-out prompt, from which lengths are measured


def accuracy(policy: Transformer, split: Split = "heldout") -> Tensor:
    """J, the chance of a right letter in the mean over all prompts of ``split``, with its gradient.

    It is exact, for only the first token counts.
    """
    prompts = every_prompt(TASK, split)
    right = Rollout.of_responses(prompts, TASK.solve(prompts), TASK.vocabulary.eos)
    return token_logp(policy, right)[:, 0].exp().mean()


@torch.no_grad()
def greedy_accuracy(policy: Transformer) -> float:
    """Share of the held-out prompts to which the likeliest letter is right."""
    likeliest = Sampler(SAMPLER.max_length, SAMPLER.eos, SamplingTransform(temperature=0))
    return TASK.reward(likeliest.sample(policy, HELD_OUT, 1, torch.Generator())).mean().item()


def lengths(rollout: Rollout) -> dict[str, float]:
    """Mean length of the right and of the wrong responses of a rollout, and of all. NaN where there are none."""
    length, right = rollout.mask.sum(-1).float(), TASK.reward(rollout) > 0
    return dict(right=length[right].mean().item(), wrong=length[~right].mean().item(), all=length.mean().item())


def gap_within(rollout: Rollout) -> float:
    """How much longer wrong responses are than right ones of the same group, in the mean over the groups that have
    both. NaN where there are none.
    """
    length, right = rollout.mask.sum(-1).float(), TASK.reward(rollout) > 0
    length, right = (each.view(-1, rollout.group_size) for each in (length, right))
    means = [(length * which).sum(1) / which.sum(1) for which in (~right, right)]  # NaN where a group has none
    return (means[0] - means[1]).nanmean().item()


@torch.no_grad()
def measured(policy: Transformer) -> dict[str, Any]:
    """What a policy is worth on held-out prompts: accuracy, exact, and mean lengths with their standard errors."""
    rollout = SAMPLER.sample(policy, HELD_OUT, RESPONSES, torch.Generator().manual_seed(7))
    length, right = rollout.mask.sum(-1).float(), TASK.reward(rollout) > 0
    found: dict[str, Any] = dict(accuracy=accuracy(policy).item())
    for name, which in (("right", right), ("wrong", ~right)):
        mean, error = length[which].mean().item(), (length[which].std() / which.sum() ** 0.5).item()
        found[f"length, {name}"] = f"{mean:.1f} ± {error:.1f}"
    return found | {"cut off": rollout.truncated(SAMPLER.eos).float().mean().item()}
