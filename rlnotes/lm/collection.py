"""The first half of an RL step: sample, score, compare. What comes out does not change during the updates on it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.lm.config import Metrics
from rlnotes.lm.rollout import Rollout
from rlnotes.objectives import Choices, penalised_rewards
from rlnotes.objectives.shaping import informative

Scorer = Callable[[Rollout], Tensor]  # reward (N,) of each response, or a policy's log-probability (N, T) of each token


@dataclass(frozen=True)
class Sampled:
    """Everything that was sampled for a step, rounds of dynamic sampling included, and its ``rewards`` (N,)."""

    rollout: Rollout
    rewards: Tensor
    rounds: int = 1

    def joined(self, rollout: Rollout, rewards: Tensor) -> "Sampled":
        """With one more round."""
        return Sampled(Rollout.joined([self.rollout, rollout]), torch.cat([self.rewards, rewards]), self.rounds + 1)

    def metrics(self, eos: int) -> Metrics:
        """What is reported of it, groups that are not trained on included."""
        return reported(self.rounds, {name: value.item() for name, value in self.means(eos).items()})

    def means(self, eos: int) -> dict[str, Tensor]:
        """The means () of it, on the device; ``length_wrong`` is NaN where no response has reward 0."""
        lengths, wrong = self.rollout.mask.sum(-1).float(), self.rewards == 0
        return dict(
            reward=self.rewards.mean(),
            wasted_groups=(~self.informative).float().mean(),
            length=lengths.mean(),
            truncated=self.rollout.truncated(eos).float().mean(),
            length_wrong=(lengths * wrong).sum() / wrong.sum(),
        )

    @property
    def informative(self) -> Tensor:
        """(B,) bool, by prompt: the task's own rewards differ within the group."""
        return informative(self.rewards, self.rollout.group_size).view(-1, self.rollout.group_size)[:, 0]


@dataclass(frozen=True)
class Collection:
    """What the updates of a step learn from: whole groups, and what was computed before the first update.

    ``advantages`` (N,) come from shaped rewards. ``proximal`` is log pi_k and ``reference`` log pi_ref of the tokens,
    (N, T); None where the objective does not need them.
    """

    rollout: Rollout
    advantages: Tensor
    proximal: Tensor | None = None
    reference: Tensor | None = None

    def groups(self, prompt_rows: Tensor) -> "Collection":
        """The part that belongs to some prompts, ``prompt_rows`` (b,): whole groups, in that order."""

        def own(values: Tensor) -> Tensor:
            return values.unflatten(0, (-1, self.rollout.group_size))[prompt_rows].flatten(0, 1)

        return Collection(
            self.rollout.groups(prompt_rows),
            own(self.advantages),
            None if self.proximal is None else own(self.proximal),
            None if self.reference is None else own(self.reference),
        )


def reported(rounds: int, means: Metrics) -> Metrics:
    """What is reported of :meth:`Sampled.means`: all but a mean of nothing, and the ``rounds``."""
    of_all: Metrics = {name: value for name, value in means.items() if name != "length_wrong"}
    wrong = means["length_wrong"]
    return of_all | dict(rounds=rounds) | ({} if math.isnan(wrong) else dict(length_wrong=wrong))


def kept_groups(sampled: Sampled, prompts: int) -> Tensor:
    """(B,) rows of the ``prompts`` groups to train on: the first informative ones. Where the rounds brought too few of
    them, the first others fill up, so that an update has its size; by the task's reward they teach nothing.
    """
    useful = sampled.informative
    first = torch.argsort((~useful).int(), stable=True)[:prompts]
    return first.sort().values


def collect(sampled: Sampled, prompts: int, choices: Choices, proximal: Scorer, reference: Scorer | None) -> Collection:
    """Choose the groups, shape their rewards, compare them with each other.

    Shaping comes before the advantage: ``choices.overlong`` adds a penalty for length, a KL penalty with
    ``where="reward"`` takes off its estimate, from pi_k, the policy that is about to be updated.
    """
    rollout, rewards = sampled.rollout, sampled.rewards
    if sampled.rounds > 1:
        rows = kept_groups(sampled, prompts)
        rollout, rewards = rollout.groups(rows), rewards.view(-1, rollout.group_size)[rows].flatten()
    in_reward = choices.kl is not None and choices.kl.where == "reward"
    with torch.no_grad():
        logp = proximal(rollout) if choices.needs_proximal or in_reward else None
        logp_reference = reference(rollout) if reference is not None else None
    if choices.overlong is not None:
        rewards = rewards + choices.overlong(rollout.mask.sum(-1))
    if choices.kl is not None and in_reward:
        assert logp is not None and logp_reference is not None  # the trainer has a reference where there is a penalty
        rewards = penalised_rewards(choices.kl, rewards, logp - logp_reference, rollout.mask)
    return Collection(rollout, choices.advantage(rewards, rollout.group_size), logp, logp_reference)
