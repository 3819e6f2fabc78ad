"""The loop of chapter 10: its start, and what it logs of its gates."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives.gates import Clip, Gate, Soft

SIZES = {"sort": 8}  # of a task; the others have their own
ASTRAY = ("bad, above 1.2", "good, below 0.8")  # tokens that went the wrong way, as far as the clip's edge
PARTS, HELD_OUT, LARGE = 4, 512, 10**6  # parts of a pass, prompts of a measurement, from one seed to the next


@torch.enable_grad()
def openness(gate: Gate, r: Tensor, A: Tensor) -> Tensor:
    """How far a gate is open for each token, M: the slope of its surrogate by the ratio, over that of r A. Of A only
    the sign counts, and 0 is not positive.

    >>> openness(Clip(), torch.tensor([2.0, 2.0]), torch.tensor([0.5, -0.5]))
    tensor([0., 1.])
    """
    sign, ratio = torch.where(A > 0, 1.0, -1.0).to(r), r.detach().requires_grad_()
    (slope,) = torch.autograd.grad(gate(ratio, sign).sum(), ratio)
    return slope * sign


def start(task: str, seed: int = 0) -> Trainer:
    """The policy that comes with the package, and its task. Rounds are drawn by ``seed``."""
    return Trainer(TrainConfig(task=task, size=SIZES.get(task), seed=seed))


def measured(run: Trainer) -> dict[str, float]:
    """Share of held-out answers that are right, sampled and greedy."""
    greedy = run.evaluate(HELD_OUT, transform=SamplingTransform(temperature=0))
    return {"greedy": greedy, "sampled": run.evaluate(HELD_OUT)}


def shares(r: Tensor, A: Tensor, signal: Tensor) -> dict[str, float | None]:
    """Of the tokens with a ``signal``: the mean of SAPO's gate, the shares that a clip at 0.2 holds, by the sign of A,
    and those that are ``ASTRAY``. None where no token has one.
    """
    held = Clip().closed(r, A)
    found = {"mean_gate": openness(Soft(), r, A), "good": held & (A > 0), "bad": held & (A < 0)}
    found |= dict(zip(ASTRAY, ((A < 0) & (r > 1.2), (A > 0) & (r < 0.8)), strict=True))
    return {name: each[signal].float().mean().item() if signal.any() else None for name, each in found.items()}


def train(
    run: Trainer, gate: Gate, rate: float, rounds: int, prompts: int = 32, group: int = 16, passes: int = 4
) -> Iterator[dict[str, Any]]:
    """The chapter's loop. Yields after each round its mean reward and the :func:`shares` of its tokens."""
    optimizer = torch.optim.AdamW(run.model.parameters(), rate, weight_decay=0.0)
    for step in range(rounds):
        rollout = run.sample(prompts, group, "train", seed=run.config.seed * LARGE + step)
        rewards = run.task.reward(rollout)
        advantages = group_mean_std(rewards, group).view(prompts, group)
        for update in range(passes * PARTS):
            rows = torch.arange(prompts).chunk(PARTS)[update % PARTS]
            part, A = rollout.groups(rows), advantages[rows].view(-1, 1)
            r = (token_logp(run.model, part) - part.logp_behavior).exp()
            terms = gate(r, A) * part.mask  # their gradient is M r A that of log pi
            objective = (terms.sum(1) / part.mask.sum(1)).mean()
            optimizer.zero_grad()
            (-objective).backward()
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            r = (token_logp(run.model, rollout) - rollout.logp_behavior).exp()
        A = advantages.view(-1, 1).expand_as(r)
        yield {"reward": rewards.mean().item()} | shares(r, A, rollout.mask & (A != 0))
