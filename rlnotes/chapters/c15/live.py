"""The loop of chapter 15 on several seeds: what one rollout moves, and how many rollouts the needles take.

``python -m rlnotes.chapters.c15.live --out 15_live.json`` takes some four minutes on one thread.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean
from rlnotes.estimators.divergences import tv
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, response_logits, taken, token_logp
from rlnotes.lm.tasks import Needle
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.contest import STARTS
from rlnotes.studies.store import store_rows

RATE, PARTS, PASSES, SEEDS = 3e-4, 4, 4, range(6)
Keep = Callable[[Tensor, Tensor, Tensor], Tensor]


def clip(mu: Tensor, pi: Tensor, A: Tensor) -> Tensor:
    """Which tokens PPO's clip lets push, at 0.8 and 1.28."""
    return ~((A > 0) & (pi > 1.28 * mu) | (A < 0) & (pi < 0.8 * mu))


def dppo(mu: Tensor, pi: Tensor, A: Tensor) -> Tensor:
    """Which tokens DPPO lets push, at a change of 0.15."""
    return ~((A > 0) & (pi > mu + 0.15) | (A < 0) & (pi < mu - 0.15))


def unclipped(mu: Tensor, pi: Tensor, A: Tensor) -> Tensor:
    """All."""
    return torch.ones_like(pi, dtype=torch.bool)


def good_only(keep: Keep) -> Keep:
    """What ``keep`` lets push up; nothing is pushed down."""
    return lambda mu, pi, A: keep(mu, pi, A) & (A > 0)


SLOWER = 10
GOOD, TINY = ", good tokens only", ", tiny steps"
# Of each mask how many rollouts are made, and how many times the updates on one are as many and their rate as small.
ARMS: dict[str, tuple[Keep, int, int]] = {
    "clip": (clip, 10, 1),
    "dppo": (dppo, 10, 1),
    "unclipped": (unclipped, 5, 1),
    f"clip{GOOD}": (good_only(clip), 1, 1),
    f"dppo{GOOD}": (good_only(dppo), 1, 1),
    f"clip{TINY}": (clip, 1, SLOWER),
    f"dppo{TINY}": (dppo, 1, SLOWER),
    f"clip{GOOD}{TINY}": (good_only(clip), 1, SLOWER),
    f"dppo{GOOD}{TINY}": (good_only(dppo), 1, SLOWER),
}


def needle_start(seed: int) -> tuple[Needle, Transformer, Sampler, torch.Generator]:
    """The task, a policy that comes with the package, what samples from it, and the draws."""
    task, policy = Needle(), shipped_start("needle", start=seed % STARTS)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    return task, policy, sampler, torch.Generator().manual_seed(seed)


@torch.no_grad()
def needles(task: Needle, policy: Transformer) -> Tensor:
    """Log-probabilities (256, 4, tokens) at the four positions of right answers to 256 fixed prompts, of 10,000."""
    prompts = task.sample(256, torch.Generator().manual_seed(10**6), "train").prompts
    answers = Rollout.of_responses(prompts, task.solve(prompts), task.vocabulary.eos)
    return response_logits(policy, answers)[:, :-1].log_softmax(-1)


def right(task: Needle, policy: Transformer) -> float:
    """The mean probability of the right letter there."""
    prompts = task.sample(256, torch.Generator().manual_seed(10**6), "train").prompts
    return taken(needles(task, policy), task.solve(prompts)[:, :-1]).exp().mean().item()


def run(
    name: str, seed: int, rate: float = RATE, rounds: int | None = None, parts: int = PARTS, memory: float = 0.9
) -> dict[str, Any]:
    """The chapter's loop with a mask of ``ARMS``: ``right`` after each rollout, and sixteen times on the first.

    ``memory`` is the share of past gradients that Adam keeps, its first beta.
    """
    task, policy, sampler, draws = needle_start(seed)
    keep, usual, slower = ARMS[name]
    before, optimizer = deepcopy(policy), torch.optim.Adam(policy.parameters(), rate / slower, betas=(memory, 0.999))
    by_rollout = [right(task, policy)]
    by_update, far, passes = by_rollout[:], 0.0, (PASSES if parts > 1 else 1) * slower
    for done in range(rounds or usual):
        rollout = sampler.sample(policy, task.sample(16, draws).prompts, 16, draws)
        advantages = group_mean(task.reward(rollout), 16).view(16, 16)
        for update, own in enumerate(torch.arange(16).view(parts, -1).repeat(passes, 1)):
            part, A = rollout.groups(own), advantages[own].view(-1, 1)
            logp = token_logp(policy, part)
            kept = keep(part.logp_behavior.exp(), logp.detach().exp(), A) * part.mask
            loss = -(kept * (logp - part.logp_behavior).exp() * A).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            if done == 0 and (update + 1) % slower == 0:
                by_update.append(right(task, policy))
        by_rollout.append(right(task, policy))
        if done == 0:
            far = float(tv(needles(task, before), needles(task, policy)).mean())
    return {"arm": name, "seed": seed, "by rollout": by_rollout, "by update": by_update, "TV of the first": far}


def rows() -> Iterator[dict[str, Any]]:
    """All masks on all seeds."""
    for seed in SEEDS:
        for name in ARMS:
            yield run(name, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c15.live", str(__doc__), rows)
