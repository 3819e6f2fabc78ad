"""The live run of chapter 00 on ten seeds, at three learning rates, without a clip and with one: what its surrogate
promises after each round of updates, and what has happened.

``python -m rlnotes.chapters.c00.promises --out 00_promises.json`` takes about ten minutes on one thread.
"""

from collections.abc import Iterator
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rlnotes.chapters.c07.rounds import chances, held_out
from rlnotes.estimators.baselines import group_mean
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

SEEDS = range(10)
RATES, CLIP = (3e-4, 1e-3, 3e-3), 0.2
ROUNDS, UPDATES, GROUP, PROMPTS = 20, 8, 16, 32


def surrogate(policy: Transformer, rollout: Rollout, A: Tensor, epsilon: float = inf) -> Tensor:
    """Of each response (N,) the sum over its tokens of A (r - 1), with advantages ``A`` (N, 1), and PPO's clip if
    ``epsilon`` is finite.
    """
    ratio = (token_logp(policy, rollout) - rollout.logp_behavior).exp()
    terms = torch.minimum((ratio - 1) * A, (ratio.clamp(1 - epsilon, 1 + epsilon) - 1) * A)
    return (terms * rollout.mask).sum(1)


def updates(policy: Transformer, optimizer: Optimizer, rollout: Rollout, A: Tensor, epsilon: float = inf) -> None:
    """Eight steps up the surrogate of one rollout."""
    for _ in range(UPDATES):
        optimizer.zero_grad()
        (-surrogate(policy, rollout, A, epsilon).mean()).backward()
        optimizer.step()


class Run:
    """The chapter's loop, round by round; with a clip if ``epsilon`` is finite."""

    def __init__(self, rate: float, seed: int, epsilon: float = inf):
        self.task, self.policy, self.epsilon = Misled(), shipped_start("misled"), epsilon
        self.sampler = Sampler(self.task.max_response_length, self.task.vocabulary.eos)
        self.data, self.tokens = (torch.Generator().manual_seed(2 * seed + i) for i in (0, 1))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), rate)
        self.asked = held_out(self.task)

    def round(self) -> tuple[Rollout, Tensor, float]:
        """One round: its rollout, the advantages (N, 1), and the change of J that is promised after its updates."""
        prompts = self.task.sample(PROMPTS, self.data).prompts
        rollout = self.sampler.sample(self.policy, prompts, GROUP, self.tokens)
        A = group_mean(self.task.reward(rollout), GROUP)[:, None]
        updates(self.policy, self.optimizer, rollout, A, self.epsilon)
        with torch.no_grad():
            return rollout, A, surrogate(self.policy, rollout, A).mean().item()

    def J(self) -> float:
        """The exact chance of a right answer, the mean over held-out prompts."""
        return chances(self.policy, self.task, self.asked).mean().item()


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run, a list for each number: the mean reward of a round's rollout, the promise, and J after it."""
    for clip in (None, CLIP):
        for rate in RATES:
            for seed in SEEDS:
                run = Run(rate, seed, clip or inf)
                row: dict[str, Any] = dict(clip=clip, rate=rate, seed=seed, start=run.J(), reward=[], promised=[], J=[])
                for _ in range(ROUNDS):
                    rollout, _, promised = run.round()
                    found = dict(reward=run.task.reward(rollout).mean().item(), promised=promised, J=run.J())
                    for name, value in found.items():
                        row[name].append(round(value, 5))
                yield row


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c00.promises", str(__doc__), rows)
