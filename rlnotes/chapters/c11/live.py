"""The loop of chapter 11 on several seeds: weights for samples that are four rollouts old, each at its own best rate.

``python -m rlnotes.chapters.c11.live --out 11_live.json`` takes some five minutes on one thread.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean
from rlnotes.estimators.importance import balanced_cap
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.warm_start import shipped_start

TASK = Misled()
SAMPLER = Sampler(TASK.max_response_length, TASK.vocabulary.eos)
AGE, ROUNDS, CAP = 4, 24, 2.0

# From the log-ratios h (n, T) of tokens, 0 outside the mask: what multiplies each push
WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "uncorrected": torch.ones_like,
    "token": lambda h: h.exp(),
    "response": lambda h: h.sum(1, keepdim=True).exp(),
    "response, C = 2": lambda h: h.sum(1, keepdim=True).exp().clamp(max=CAP),
    "response, C of the log": lambda h: h.sum(1, keepdim=True).exp().clamp(max=float(balanced_cap(h.sum(1)))),
}
RATES = {"uncorrected": 1e-4, "token": 2e-4, "response": 8e-4, "response, C = 2": 4e-4}
"""the best ones of the contest 11_corrections on misled with data that are 64 updates old"""


@torch.no_grad()
def accuracy(policy: Transformer, prompts: int = 256) -> float:
    """J on prompts that no run trains on: the mean chance of the one right answer, exact."""
    asked = TASK.sample(prompts, torch.Generator().manual_seed(0), "heldout").prompts
    answers = Rollout.of_responses(asked, TASK.solve(asked), TASK.vocabulary.eos)
    return (token_logp(policy, answers) * answers.mask).sum(-1).exp().mean().item()


class Trained(NamedTuple):
    """What a run leaves: the learner, the weights that sampled last, and J after each round."""

    policy: Transformer
    sampler: Transformer
    J: list[float]


def train(weight: Callable[[Tensor], Tensor], rate: float, seed: int, rounds: int = ROUNDS, age: int = AGE) -> Trained:
    """The loop as the chapter has it: four passes of four minibatches over each rollout of 512 responses."""
    policy, draws = shipped_start("misled"), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(policy.parameters(), rate, weight_decay=0.0)
    versions, J = [deepcopy(policy)] * age, []
    for _ in range(rounds):
        versions.append(deepcopy(policy))
        rollout = SAMPLER.sample(versions[-1 - age], TASK.sample(32, draws).prompts, 16, draws)
        advantages = group_mean(TASK.reward(rollout), 16).view(32, 16)
        for _ in range(4):
            for picked in torch.randperm(32, generator=draws).split(8):
                part, A = rollout.groups(picked), advantages[picked].reshape(-1, 1)
                logp = token_logp(policy, part)
                h = ((logp - part.logp_behavior) * part.mask).detach()
                objective = (weight(h) * A * logp)[part.mask].sum() / len(logp)
                optimizer.zero_grad()
                (-objective).backward()
                torch.nn.utils.clip_grad_norm_(policy.parameters(), 6.0)
                optimizer.step()
        J.append(accuracy(policy))
    return Trained(policy, versions[-1 - age], J)
