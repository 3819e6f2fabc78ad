"""The RL steps of many runs as one piece of work: what takes a GPU little longer than the step of one tiny model.

The models stand side by side (:class:`StackedTransformer`), so that sampling and the passes through the model are done
for all at once. Objectives are the existing functions, by ``torch.vmap`` over the runs of one objective. Nothing of one
run reaches another.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.checks import unread
from rlnotes.gpu.cuda_graph import captured
from rlnotes.gpu.recorded import RecordedParts, counted, of_sampled, of_teaching, sizes, varying
from rlnotes.gpu.stacked import StackedAdamW, StackedTransformer, clip, shared_weights
from rlnotes.gpu.static_step import own_parts
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.collection import Collection, Sampled, collect
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.parts import batch_of, minibatches
from rlnotes.lm.report import first_look, gradient_of, update_sums
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import response_logits, taken
from rlnotes.lm.shard import Shard
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.versions import Snapshots
from rlnotes.objectives import Batch, Choices, policy_loss

OWN = ("seed", "start", "recipe", "learning_rate", "gradient_clip")  # settings in which the runs of a batch may differ
Tensors = dict[str, Any]  # by name; what an objective does without is None, or missing


@dataclass(frozen=True, kw_only=True)
class RunsShard(Shard):
    """The rows of R runs, one block each. Each run draws from one of the ``generators``: ``of_run`` (R,) says which.

    Runs of one generator get the same numbers, as they would alone with generators of one seed.
    """

    generators: tuple[torch.Generator, ...]
    of_run: Tensor

    def noise(self, like: Tensor, fill: Callable[..., Tensor], generator: torch.Generator) -> Tensor:
        """See :meth:`Shard.noise`. ``generator`` is not drawn from."""
        size = (len(like) // len(self.of_run), *like.shape[1:])
        drawn = [fill(like.new_empty(size), generator=one) for one in self.generators]
        return torch.stack(drawn)[self.of_run].flatten(0, 1)


class BatchedStep(RecordedParts):
    """One RL step of each of R ``trainers``, called like :meth:`Trainer.rl_step`.

    A run has the prompts, the random numbers, and up to rounding the metrics and the weights that it has alone on the
    same device. A run whose gradient is not finite is lost: its weights stay as they were from there on, and the others
    go on. The trainers are the batch's from now on: they can be looked at, but their own optimisers know nothing, and
    those that stand at the same random numbers share their generators.

    Raises ``ValueError`` for trainers that :func:`unbatched` names a reason for.
    """

    def __init__(self, trainers: Sequence[Trainer]):
        if (reason := unbatched(trainers)) is not None:
            raise ValueError(f"these runs cannot be one batch: {reason}")
        self.trainers, first, r = list(trainers), trainers[0], len(trainers)
        super().__init__(first, runs=r)
        self.objectives = _objectives(trainers)
        weights = shared_weights([trainer.model for trainer in trainers])
        self.models = StackedTransformer(first.model.config, weights)
        (settings,) = first.optimizer.param_groups
        self.limits = torch.tensor([trainer.config.gradient_clip for trainer in trainers], device=first.device)
        self.optimizer = StackedAdamW(weights, settings["betas"], settings["eps"])
        self.writer, self.past = self.models, None
        if first.config.lags:
            self.writer, self.past = deepcopy(self.models).requires_grad_(False), Snapshots(max(first.config.lags))
        behavior = replace(first.sampler.behavior, mixture=None)  # of versions there is one, the writer's
        self.sampler = replace(
            first.sampler, behavior=behavior, top_logp=max(trainer.sampler.top_logp for trainer in trainers)
        )
        self.streams, self.of_run = _streams(trainers)
        generators = tuple(trainer.generator for trainer in self.streams)
        self.shard = RunsShard(generators=generators, of_run=self.of_run.to(first.device))
        self.version = 0
        self.lost = torch.zeros(r, dtype=torch.bool, device=first.device)
        self.going = torch.zeros(r, dtype=torch.bool, device=first.device)  # the updates that follow change this run

    def __call__(self) -> list[Metrics | None]:
        """The step: metrics for each run, None for one that is lost."""
        self.prepare()
        numbers = self.run().tolist()
        self.version += self.n_updates
        lost = self.lost.tolist()
        found: list[Metrics | None] = [None] * len(lost)
        for r, trainer in enumerate(self.trainers):
            if lost[r]:
                continue
            try:
                found[r] = counted(trainer, numbers[r])
            except ValueError:
                self.lost[r] = True
        return found

    def graphed(self) -> "BatchedStep":
        """The same, on a GPU done by a CUDA graph from now on. Raises :class:`WaitsError` if the task waits for it."""
        if self.prompts_buffer.is_cuda:
            self.rehearsing.fill_(True)
            self.run = captured(self.work, *self.shard.generators, rehearsals=1)  # each as long as many steps
            self.rehearsing.fill_(False)
        return self

    def prepare(self) -> None:
        """Draw each run's prompts and minibatches in the order of the usual step, set its learning rates, and take the
        writer's weights from the past.
        """
        config = self.learner.config
        prompts, rows = [], []
        for one in self.streams:
            prompts.append(one.task.sample(config.prompts, one.data_generator).prompts)
            parts = (minibatches(config, epoch, one.data_generator) for epoch in range(config.epochs))
            rows.append(torch.stack([part for of_epoch in parts for part in of_epoch]))
        self.prompts_buffer.copy_(torch.stack(prompts)[self.of_run].flatten(0, 1), non_blocking=True)
        first = config.prompts * torch.arange(len(self.trainers))
        of_runs = torch.stack(rows)[self.of_run] + first[:, None, None]  # (R, n_updates, b)
        self.rows.copy_(of_runs.transpose(0, 1).flatten(1), non_blocking=True)
        rates = [
            [one.config.warmed_up(one.config.learning_rate, self.version + i) for i in range(self.n_updates)]
            for one in self.trainers
        ]
        self.rates.copy_(torch.tensor(rates).T, non_blocking=True)
        if self.past is not None:
            self.past.remember(self.version, self.models)
            old = self.past.model_of(self.version - max(config.lags))
            for own, weight in zip(self.writer.parameters(), old.parameters(), strict=True):
                own.copy_(weight)

    @unread()
    def work(self) -> Tensor:
        """See :meth:`RecordedParts.work`: (R, n)."""
        return super().work()

    # the lines of a step, for all runs at once; what is done for one run is done by existing functions

    def rollout(self, prompts: Tensor) -> Rollout:
        """Everybody's responses."""
        self.going.copy_(~(self.lost | self.rehearsing))
        learner = self.learner
        return self.sampler.sample(self.writer, prompts, learner.config.group_size, learner.generator, shard=self.shard)

    def advantages(self, sampled: Sampled) -> Collection:
        """Each run's by its own objective."""
        rollout, proximal = sampled.rollout, None
        if any(choices.needs_proximal for choices, _ in self.objectives):
            with torch.no_grad():
                proximal = taken(self._log_probs(rollout), rollout.tokens)
        own: Tensors = dict(rewards=sampled.rewards, proximal=proximal)

        def of_one(choices: Choices, rollout: Rollout, own: Tensors) -> tuple[Tensor]:
            of_run = Sampled(rollout, own["rewards"])
            return (collect(of_run, self.learner.config.prompts, choices, lambda _: own["proximal"], None).advantages,)

        def means(rollout: Rollout, own: Tensors) -> Tensor:
            return of_sampled(Sampled(rollout, own["rewards"]), self.sampler.eos)

        self.numbers.append(self._all(means, rollout, own))
        (advantages,) = self._each(of_one, rollout, own)
        return Collection(rollout, advantages.flatten(), proximal)

    def micro_batches(self, learned: Collection, rows: Tensor) -> Iterator[Collection]:
        """The groups of ``rows`` as one part."""
        self.part = learned.groups(rows)
        yield self.part

    def log_probs(self, part: Collection) -> Tensor:
        """Each run's pi's log-probabilities (R * n, T, V) of its rows, with gradients."""
        return self._log_probs(part.rollout)

    def batch(self, part: Collection, log_probs: Tensor) -> Batch:
        """What all runs have in common; the rest is made by :meth:`loss`."""
        self.every_log_probs = log_probs
        logp = taken(log_probs, part.rollout.tokens)
        logp.retain_grad()
        return Batch(logp, part.rollout.mask, part.advantages, part.rollout.logp_behavior, part.proximal)

    def loss(self, batch: Batch) -> Tensor:
        """The sum () of the runs' losses, each by its own objective."""

        def of_one(choices: Choices, rollout: Rollout, own: Tensors) -> tuple[Tensor, Tensor]:
            part = Collection(rollout, own["advantages"], own.get("proximal"))
            batch = batch_of(part, own["log_probs"], choices, sizes(rollout.mask), self.sampler.eos, own["logp"])
            return policy_loss(choices, batch), first_look(batch, own["log_probs"], of_teaching(choices, part))

        own: Tensors = dict(logp=batch.logp, log_probs=self.every_log_probs)
        own |= dict(advantages=batch.advantages, proximal=batch.logp_proximal)
        self.losses, self.looked = self._each(of_one, self.part.rollout, own)
        return self.losses.sum()

    def look(self, part: Collection, batch: Batch, log_probs: Tensor, loss: Tensor) -> None:
        """Numbers (R, 4) of the first look and (R, 5) of each update: what is counted in it, and its tokens."""

        def of_one(rollout: Rollout, own: Tensors) -> Tensor:
            batch = Batch(own["logp"], rollout.mask, own["advantages"], rollout.logp_behavior)
            sums = update_sums(batch, own["gradient"], own["loss"][0])
            return torch.cat([sums, rollout.mask.sum().double()[None]])

        if self.update_number == 0:
            self.numbers.append(self.looked)
        seen = dict(logp=batch.logp.detach(), gradient=gradient_of(batch), advantages=batch.advantages)
        self.numbers.append(self._all(of_one, part.rollout, seen | dict(loss=self.losses.detach())))

    def update(self) -> None:
        """Step all runs that are going."""
        gradients = self.models.taken_gradients()
        norms = clip(gradients, self.limits)
        self.going &= norms.isfinite()
        self.optimizer.step(gradients, self.rates[self.update_number], self.going)
        self.numbers.append(torch.stack([norms.double(), self.going.double()], 1))

    def _log_probs(self, rollout: Rollout) -> Tensor:
        return self.learner.transform.log_probs(response_logits(self.models, rollout, self.learner.dtype))

    def _all(self, work: Callable[[Rollout, Tensors], Any], rollout: Rollout, own: Tensors) -> Any:
        """``work`` of each run on its rows of ``rollout`` and of ``own``, (R * n, ...) each. Its results, (R, ...)."""
        return _of_runs(work, slice(None), len(self.trainers), rollout, own)

    def _each(self, work: Callable[[Choices, Rollout, Tensors], Any], rollout: Rollout, own: Tensors) -> Any:
        """The same for work that depends on the objective and has several results."""
        r = len(self.trainers)
        found = [_of_runs(partial(work, choices), runs, r, rollout, own) for choices, runs in self.objectives]
        return [torch.cat(one) for one in zip(*found, strict=True)]

    @unread()
    def evaluate(self, prompts: int, transform: SamplingTransform | None = None) -> list[float]:
        """What :meth:`Trainer.evaluate` gives for each run: the mean reward of held-out ``prompts``."""
        first, r, device = self.learner, len(self.trainers), self.learner.device
        drawn = first.task.sample(prompts, torch.Generator().manual_seed(0), "heldout").prompts.to(device)
        generator = torch.Generator(device).manual_seed(0)
        shard = RunsShard(generators=(generator,), of_run=torch.zeros(r, dtype=torch.long, device=device))
        sampler = replace(self.sampler, transform=transform or first.transform, behavior=Behavior(), top_logp=0)
        rollout = sampler.sample(self.models, drawn.repeat(r, 1), 1, generator, shard=shard)
        return first.task.reward(rollout).view(r, -1).mean(-1).tolist()


def alone(config: TrainConfig, choices: Choices) -> str | None:
    """Why a run cannot be part of a batch, whatever the others are: the first reason there is, or None."""
    reasons = varying(config, choices) | {
        "kl, a penalty of the objective, keeps a reference model for each run": choices.kl is not None,
        f"lags is {config.lags}, and a batch samples from one version": len(config.lags) > 1,
        f"rollout_blocks is {config.rollout_blocks}, and stacked layers have no blocks": config.rollout_blocks > 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def in_common(config: TrainConfig) -> dict[str, Any]:
    """The settings that are one in a batch."""
    return {name: value for name, value in asdict(config).items() if name not in OWN}


def unbatched(trainers: Sequence[Trainer]) -> str | None:
    """Why ``trainers`` cannot be one batch, the first reason there is, or None."""
    first = trainers[0]
    for one in trainers:
        differing = [name for name, value in in_common(one.config).items() if value != in_common(first.config)[name]]
        if differing or one.task != first.task:
            name = (*differing, "task")[0]
            return f"they differ in {name}, and may differ in {', '.join(OWN)} alone"
        if own_parts(one):
            return f"{type(one).__name__} has a step in parts of its own"
        if not one.warm or one.step > 0:
            return "one of them does not stand at the start of RL"
        if (reason := alone(one.config, one.choices)) is not None:
            return reason
    return None


def _objectives(trainers: Sequence[Trainer]) -> list[tuple[Choices, slice]]:
    """Each objective, and the neighbours that have it."""
    found, first = [], 0
    for choices, runs in groupby(trainer.choices for trainer in trainers):
        after = first + len(list(runs))
        found.append((choices, slice(first, after)))
        first = after
    return found


def _streams(trainers: Sequence[Trainer]) -> tuple[list[Trainer], Tensor]:
    """Trainers whose generators stand at different numbers, and for each trainer (R,) which one stands at its own. It
    then has that one's generators.
    """
    streams: dict[bytes, int] = {}
    firsts, numbers = [], []
    for trainer in trainers:
        states = (trainer.generator.get_state(), trainer.data_generator.get_state())
        number = streams.setdefault(torch.cat(states).numpy().tobytes(), len(firsts))
        if number == len(firsts):
            firsts.append(trainer)
        trainer.generator, trainer.data_generator = firsts[number].generator, firsts[number].data_generator
        numbers.append(number)
    return firsts, torch.tensor(numbers)


def _of_runs(work: Callable[[Rollout, Tensors], Any], runs: slice, r: int, rollout: Rollout, own: Tensors) -> Any:
    """``work`` of some ``runs`` out of ``r``, vectorised. ``work`` sees the rows of one run and must read no value."""

    def blocks(values: Tensors) -> Tensors:
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        return {name: value.unflatten(0, (r, -1))[runs] for name, value in tensors.items()}

    def of_one(read: Tensors, values: Tensors) -> Any:
        (b, _), (n, _) = read["prompts"].shape, read["tokens"].shape
        group = torch.arange(b, device=rollout.group.device).repeat_interleave(n // b)
        return work(replace(rollout, **read, group=group), values)

    read = {field.name: getattr(rollout, field.name) for field in fields(rollout) if field.name != "group"}
    return torch.vmap(of_one)(blocks(read), blocks(own))
