"""The live run of chapter 07 on six seeds, step by step: loss, what it reads as a mean over tokens, gradient, and the
exact chance of a right answer.

``python -m rlnotes.chapters.c07.live --out 07_live.json`` takes about a minute on one thread.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from rlnotes.chapters.c07.rounds import chances, held_out
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import GRPO, Batch, policy_loss
from rlnotes.objectives.aggregations import token_mean
from rlnotes.studies.store import store_rows

SEEDS = range(6)
STEPS, RATE, GROUP, PROMPTS = 50, 1e-3, 16, 32
READ = ("loss", "token mean", "gradient norm", "equal groups", "J")


def live_run(seed: int, steps: int = STEPS) -> Iterator[dict[str, Any]]:
    """The chapter's loop by the package's functions: the numbers of each step, ``J`` after it."""
    task, policy = Misled(), shipped_start("misled")
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    data, tokens = (torch.Generator().manual_seed(2 * seed + i) for i in (0, 1))
    optimizer = torch.optim.Adam(policy.parameters(), RATE)
    asked = held_out(task)
    for step in range(1, steps + 1):
        rollout = sampler.sample(policy, task.sample(PROMPTS, data).prompts, GROUP, tokens)
        rewards = task.reward(rollout)
        advantages = group_mean_std(rewards, GROUP)
        batch = Batch(token_logp(policy, rollout), rollout.mask, advantages, rollout.logp_behavior)
        loss = policy_loss(GRPO, batch)
        with torch.no_grad():
            by_tokens = policy_loss(replace(GRPO, aggregation=token_mean), batch)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        equal = (advantages.view(-1, GROUP) == 0).all(1).float().mean()
        J = chances(policy, task, asked).mean()
        yield {"step": step} | dict(zip(READ, (x.item() for x in (loss, by_tokens, norm, equal, J)), strict=True))


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run, a list for each number."""
    task, policy = Misled(), shipped_start("misled")
    start = chances(policy, task, held_out(task)).mean().item()
    for seed in SEEDS:
        found = list(live_run(seed))
        yield dict(seed=seed, start=start) | {name: [one[name] for one in found] for name in READ}


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c07.live", str(__doc__), rows)
