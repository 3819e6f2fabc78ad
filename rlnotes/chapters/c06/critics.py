"""What a critic sees of a frozen policy, and what a smaller lambda costs with it: the table of critics of chapter 06.

``python -m rlnotes.chapters.c06.critics --out 06_critics.json`` takes a few minutes on one thread.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rlnotes.lm.critic import Critic, exact_values, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Reverse
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

LOOKS = (320, 2080)  # updates of the critic
LAMS = (1.0, 0.95, 0.5, 0.0)
SEEDS = (0, 1, 2)
ROUND = 16  # updates on 256 responses, four passes in four parts, as in the loop


def responses(task: Reverse, policy: Transformer, n: int, data: torch.Generator, split: Any = "train") -> Rollout:
    """One response of ``policy`` to each of ``n`` prompts."""
    prompts = task.sample(n, data, split).prompts
    return Sampler(task.max_response_length, task.vocabulary.eos).sample(policy, prompts, 1, data)


def trained(task: Reverse, policy: Transformer, seed: int) -> Iterator[tuple[int, Critic]]:
    """A critic of the frozen ``policy``, which learns from the rewards alone, after each of ``LOOKS`` updates."""
    data, critic = torch.Generator().manual_seed(seed), Critic(policy)
    optimizer = torch.optim.AdamW(critic.parameters(), 3e-4, (0.9, 0.95), weight_decay=0.0, fused=True)
    for update in range(0, max(LOOKS), ROUND):
        rollout = responses(task, policy, 256, data)
        reward = task.reward(rollout)
        for _ in range(4):
            for rows in torch.randperm(256, generator=data).chunk(4):
                part = rollout.groups(rows)
                error = (critic.values(part) - reward[rows, None])[part.mask]
                optimizer.zero_grad()
                error.square().mean().backward()
                torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
                optimizer.step()
        if update + ROUND in LOOKS:
            yield update + ROUND, critic


def gradient(policy: Transformer, rollout: Rollout, advantages: Tensor) -> Tensor:
    """The policy gradient that these advantages (N, T) give."""
    objective = (token_logp(policy, rollout) * advantages).sum(-1).mean()
    return torch.cat([g.flatten() for g in torch.autograd.grad(objective, list(policy.parameters()))])


def judged(task: Reverse, policy: Transformer, values: Tensor, true: Tensor, rollout: Rollout) -> dict[str, float]:
    """Mean value of prefixes that are right and wrong so far, and for each lambda how far the policy gradient points
    the way of the exact one: the cosine between them.
    """
    reward, right = task.reward(rollout), rollout.mask & (true > 0)
    wrong = rollout.mask & (true == 0)
    aim = gradient(policy, rollout, token_advantages(reward, true, rollout.mask, 0.0))
    found = dict(right=values[right].mean().item(), wrong=values[wrong].mean().item())
    for lam in LAMS:
        ours = gradient(policy, rollout, token_advantages(reward, values, rollout.mask, lam))
        found[f"lam {lam:g}"] = torch.cosine_similarity(ours, aim, dim=0).item()
    return found


def rows() -> Iterator[dict[str, Any]]:
    """The exact critic first, then one that says the mean reward everywhere, then trained ones."""
    task, policy = Reverse(8), shipped_start("reverse", 8)
    rollout = responses(task, policy, 2048, torch.Generator().manual_seed(1000), "heldout")
    with torch.no_grad():
        true = exact_values(policy, task, rollout)
    mean = torch.where(rollout.mask, task.reward(rollout).mean(), 0.0)
    for name, values in (("exact", true), ("mean reward", mean)):
        yield dict(critic=name, updates=0, seed=0) | judged(task, policy, values, true, rollout)
    for seed in SEEDS:
        for updates, critic in trained(task, policy, seed):
            with torch.no_grad():
                values = critic.values(rollout)
            yield dict(critic="trained", updates=updates, seed=seed) | judged(task, policy, values, true, rollout)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c06.critics", str(__doc__), rows)
