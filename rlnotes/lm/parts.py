"""The lines of :func:`rlnotes.lm.step.step`, one method each, as a run on one or several processes does them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlnotes.estimators.divergences import entropy
from rlnotes.lm.collection import Collection, Sampled, collect
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.learner import Learner
from rlnotes.lm.lora import merged
from rlnotes.lm.report import Watch, first_look, gradient_of, look_metrics, of_updates, update_metrics, update_sums
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import taken
from rlnotes.objectives import Batch, Choices, policy_loss
from rlnotes.objectives.aggregations import Totals


class Parts:
    """The parts of ``learner``'s step. Optional ones are ``watches``, and numbers that are 1 in most runs."""

    def __init__(self, learner: Learner, watches: Sequence[Watch] = ()):
        self.learner, self.watches = learner, watches
        self.most_rounds = learner.config.most_rounds if learner.choices.dynamic_sampling else 1

    def prompts(self) -> Tensor:
        """Fresh prompts (B, P), for all processes."""
        learner = self.learner
        return learner.task.sample(learner.config.prompts, learner.data_generator).prompts.to(learner.device)

    def rollout(self, prompts: Tensor) -> Rollout:
        """mu's responses to them, everybody's."""
        learner, shard, model = self.learner, self.learner.shard, merged(self.learner.model)
        if learner.past is not None:
            learner.past.remember(learner.updates, model)
        own = learner.sampler.sample(
            *(model, shard.of(prompts), learner.config.group_size, learner.generator, learner.updates),
            past=learner.past,
            shard=shard,
        )
        return shard.whole(own)

    def draw(self) -> Rollout:
        """Both: a rollout from fresh prompts."""
        return self.rollout(self.prompts())

    def rewards(self, rollout: Rollout) -> Tensor:
        """What the task gives to each response, (N,)."""
        return self.learner.shard.by_groups(self.learner.task.reward)(rollout)

    def filled(self, rollout: Rollout, rewards: Tensor) -> Sampled:
        """What was sampled. With dynamic sampling more rounds of it, until B groups hold rewards that differ: 002
        section 5.4.2.
        """
        sampled, prompts = Sampled(rollout, rewards), len(rollout.prompts)
        while sampled.rounds < self.most_rounds and int(sampled.informative.sum()) < prompts:
            more = self.draw()
            sampled = sampled.joined(more, self.rewards(more))
        return sampled

    def advantages(self, sampled: Sampled) -> Collection:
        """What is learned from, and what was computed before the first update."""
        learner = self.learner
        self.sampled, self.updates = sampled, list[Metrics]()
        for watch in self.watches:
            watch.begin(sampled)
        return collect(sampled, learner.config.prompts, learner.choices, learner.logp, learner.logp_reference)

    def minibatches(self) -> Iterator[Tensor]:
        """Prompt rows (b,) of each update."""
        config, generator = self.learner.config, self.learner.data_generator
        for epoch in range(config.epochs):
            yield from (rows.to(self.learner.device) for rows in minibatches(config, epoch, generator))

    def micro_batches(self, learned: Collection, rows: Tensor) -> Iterator[Collection]:
        """The groups of prompts ``rows`` in parts, which need less memory and give the gradient of the whole: each is
        divided by the sizes of the whole. Groups that teach nothing are left out. Of several processes each has its
        own.
        """
        choices, g = self.learner.choices, learned.rollout.group_size
        mask = learned.rollout.mask.unflatten(0, (-1, g))[rows]
        self.size = int(mask.sum())
        self.totals = Totals(len(rows) * g, self.size, mask.shape[-1])
        if choices.needs_whole_batch:
            self.totals = None  # what is kept, or weighs, is known only on the way: the whole is one part, and says it
        else:
            rows = rows[teaching(choices, learned.advantages.view(-1, g)[rows])]
        self.sums, self.first_sums, self.deviation = torch.zeros(4).double(), torch.zeros(3).double(), 0.0
        rows = self.learner.shard.of(rows)
        for part in rows.chunk(self.learner.config.micro_batches) if len(rows) else ():
            yield learned.groups(part)

    def log_probs(self, part: Collection) -> Tensor:
        """pi's log-probabilities (n, T, V), with gradients."""
        return self.learner.log_probs(part.rollout)

    def batch(self, part: Collection, log_probs: Tensor) -> Batch:
        """What the loss is computed from."""
        batch = batch_of(part, log_probs, self.learner.choices, self.totals, self.learner.sampler.eos)
        batch.logp.retain_grad()
        return batch

    def loss(self, batch: Batch) -> Tensor:
        """The loss ()."""
        return policy_loss(self.learner.choices, batch)

    def look(self, part: Collection, batch: Batch, log_probs: Tensor, loss: Tensor) -> None:
        """Count what metrics are made of."""
        self.sums += update_sums(batch, gradient_of(batch), loss.detach()).cpu()
        for watch in self.watches:
            watch.look(part, batch, log_probs)
        if not self.updates:
            *looked, largest = first_look(batch, log_probs, batch.mask).tolist()
            self.first_sums += torch.tensor(looked, dtype=torch.float64)
            self.deviation = max(self.deviation, largest)

    def update(self) -> None:
        """Step the optimiser."""
        learner, shard = self.learner, self.learner.shard
        *sums, tokens, width, distance = shard.total(torch.cat([self.sums, self.first_sums])).tolist()
        seen = update_metrics(sums, self.size)
        if not self.updates:
            largest = max(shard.parts(torch.tensor(self.deviation, dtype=torch.float64))).item()
            seen |= look_metrics((tokens, width, distance, largest))
        seen["gradient_norm"] = learner.update(learner.config.learning_rate, learner.updates)
        learner.updates += 1
        self.updates.append(seen)

    def metrics(self) -> Metrics:
        """What the step reports, see :meth:`rlnotes.lm.trainer.Trainer.rl_step`."""
        learner = self.learner
        learner.step += 1
        learner.tokens += int(self.sampled.rollout.mask.sum())
        metrics: Metrics = dict(phase=1, step=learner.step) | self.sampled.metrics(learner.sampler.eos)
        metrics |= of_updates(self.updates)
        for watch in self.watches:
            metrics |= watch.metrics()
        return metrics | dict(tokens=learner.tokens)


def minibatches(config: TrainConfig, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
    """Prompt rows of each update of a pass: all in order on the first one, shuffled by ``generator`` on later ones."""
    rows = torch.arange(config.prompts) if epoch == 0 else torch.randperm(config.prompts, generator=generator)
    return rows.chunk(config.minibatches)


def batch_of(
    part: Collection, log_probs: Tensor, choices: Choices, totals: Totals | None, eos: int, logp: Tensor | None = None
) -> Batch:
    """What the loss on ``part`` is computed from. ``log_probs`` (N, T, V) are pi's of all tokens, with gradients;
    ``logp`` (N, T) in it the tokens' own, if they were taken from it before.
    """
    rollout, divergence = part.rollout, choices.needs_divergence
    return Batch(
        logp=taken(log_probs, rollout.tokens) if logp is None else logp,
        mask=rollout.mask,
        advantages=part.advantages,
        logp_behavior=rollout.logp_behavior,
        logp_proximal=part.proximal,
        logp_reference=part.reference,
        totals=totals,
        entropy=entropy(log_probs) if choices.entropy else None,
        truncated=rollout.truncated(eos),
        divergence=None
        if divergence is None
        else divergence(log_probs, rollout.tokens, rollout.logp_behavior, rollout.topk_ids, rollout.topk_logp),
    )


def teaching(choices: Choices, advantages: Tensor) -> Tensor:
    """(b,) bool: groups with a gradient, by their advantages (b, G). The others can be left out.

    That is where an advantage is not 0, or all where a penalty or a bonus in the loss moves any response. One group
    stays in any case: the metrics need something to look at.
    """
    if choices.entropy > 0 or (choices.kl is not None and choices.kl.where == "loss"):
        return torch.ones_like(advantages[:, 0], dtype=torch.bool)
    some = (advantages != 0).any(-1)
    first = torch.arange(len(some), device=some.device) == 0
    return some | (first & ~some.any())
