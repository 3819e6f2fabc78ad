"""The training loop: a supervised warm start, then RL, one step at a time."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import torch

from rlnotes.files import sole_writer
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.checkpoint import (
    check_goes_on,
    load_latest,
    load_optimizer,
    optimizer_tensors,
    part,
    save_checkpoint,
)
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.learner import COUNTS, Learner
from rlnotes.lm.lora import merged
from rlnotes.lm.operations import operations
from rlnotes.lm.parts import Parts
from rlnotes.lm.report import ClippedTokens, Watch, WatchClipped, WatchShift
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.step import step
from rlnotes.lm.tasks import Split, Task
from rlnotes.lm.warm_start import has_weights, load_weights, warm_loss, warm_schedule
from rlnotes.objectives import Choices


class Trainer(Learner):
    """Trains a tiny transformer on a token task. ``for metrics in Trainer(config).run(): ...``

    ``task`` and ``choices`` replace what ``config`` names, for a task or an objective of your own.

    pi, the policy that learns, is the model's distribution at ``config.temperature``. mu, which samples, is the same
    unless the config makes it differ: by top-k or top-p, by rounded weights, by noise, by older weights. Its
    log-probabilities are recorded as sampled, and the metrics ``mismatch`` and ``ratio_deviation`` say how far apart
    the two are.

    Every random number comes from two generators made from ``config.seed``: ``data_generator`` draws prompts, and
    ``generator`` draws tokens. An interrupt (Ctrl-C, or the stop button) takes effect between steps, so the trainer
    is always in the state after a whole step and can go on, be saved, or be used. A second one stops at once.
    """

    def __init__(self, config: TrainConfig, task: Task | None = None, choices: Choices | None = None):
        super().__init__(config, task, choices)
        self.run_id = uuid.uuid4().hex  # of its checkpoints, and of trainers that go on from them
        self.parts = self.make_parts()
        if config.warm_start == "shipped" and task is None and has_weights(config.task, config.size, config.preset):
            load_weights(self.model, config.task, config.size, config.preset)
            self.warm = True
        if self.warm or config.warm_start == "none":
            self.begin_rl()

    def make_parts(self) -> Parts:
        """Those of its step."""
        return Parts(self, self.watches())

    def watches(self) -> list[Watch]:
        """What looks on, as the config says."""
        possible = ((self.config.measure_shift, WatchShift), (self.config.count_clipped, WatchClipped))
        return [watch(self) for wanted, watch in possible if wanted]

    # the loop

    def run(self, steps: int | None = None) -> Iterator[Metrics]:
        """Warm start if still due, then RL until ``steps`` (default ``config.steps``) in all. Yields metrics.

        Metrics of a warm-start update: ``phase`` 0, ``loss``, and now and then ``accuracy``. Of an RL step: see
        :meth:`rl_step`.
        """
        interrupts = HeldInterrupts()
        while not self.warm:
            with interrupts:
                metrics = self.warm_step()
            yield metrics
            interrupts.deliver()
        while self.step < (self.config.steps if steps is None else steps):
            with interrupts:
                metrics = self.rl_step()
            yield metrics
            interrupts.deliver()

    def warm_step(self) -> Metrics:
        """One supervised update on right answers; every second one measures sampled accuracy on training prompts.

        For a :class:`DistilledTask` one towards its base policy; ``loss`` is then a KL in nats, and accuracy is
        measured at the end only.
        """
        config = self.config
        loss = warm_loss(self.model, self.task, config.warm_batch, self.data_generator, self.dtype, self.shard)
        limit, every, learning_rate = warm_schedule(self.task, config, self.warm_updates)
        loss.backward()
        gradient_norm = self.update(learning_rate, self.warm_updates)
        self.warm_updates += 1
        whole = self.shard.total(loss.detach()).item()
        metrics: Metrics = dict(phase=0, step=self.warm_updates, loss=whole, gradient_norm=gradient_norm)
        if self.warm_updates % every == 0 or self.warm_updates >= limit:
            metrics["accuracy"] = self.shard.first(self.evaluate(256, "train"))
            if metrics["accuracy"] >= config.warm_target or self.warm_updates >= limit:
                self.begin_rl()
        return metrics

    def rl_step(self) -> Metrics:
        """One rollout and the updates on it.

        | metric | meaning |
        |---|---|
        | ``reward`` | mean reward of all that was sampled, by the task alone, before the updates |
        | ``loss``, ``gradient_norm`` | of the last update; the loss of centred advantages is near 0 and means little |
        | ``entropy`` | of pi's next token, in nats; mean over the tokens of the first update's groups that teach |
        | ``mismatch`` | mean abs(pi - mu) of those tokens' probabilities, before the first update |
        | ``ratio_deviation`` | largest abs(pi / mu - 1) among them: 0 up to rounding, unless mu differs on purpose |
        | ``no_gradient`` | share of tokens with an advantage that got no gradient (a closed gate), over all updates |
        | ``bad_updates`` | share of tokens with A < 0 and mu - pi >= 0.5, over all updates: 004 section 5.3 |
        | ``clipped_probability``, | with ``count_clipped``: mean mu of the tokens without gradient, and mean |
        | ``clipped_entropy`` | entropy of pi's next token there; left out where there are none |
        | ``wasted_groups`` | share of the sampled groups whose rewards are all equal, so that they teach nothing |
        | ``length``, ``truncated`` | mean response length; share that hit the limit |
        | ``length_wrong`` | mean length of the responses with reward 0; left out where there are none |
        | ``rounds`` | rollouts sampled for this step: 1, or more with dynamic sampling |
        | ``staleness`` to ``ratio_tail`` | with ``measure_shift``: see :func:`off_policy_metrics` |
        | ``tokens``, ``seconds`` | response tokens sampled so far, unused ones too; wall time of this step |
        """
        started = time.perf_counter()
        return self.step_in_use() | dict(seconds=time.perf_counter() - started)

    @cached_property
    def step_in_use(self) -> Callable[[], Metrics]:
        """What takes a step: with ``cuda_graph`` a recorded one, where there can be."""
        recorded = operations().recorded_step(self) if self.config.cuda_graph else None
        return recorded or partial(step, self.parts)

    @property
    def clipped(self) -> ClippedTokens | None:
        """With ``count_clipped`` what was counted in the last step."""
        return next((watch.tokens for watch in self.parts.watches if isinstance(watch, WatchClipped)), None)

    # looking at it

    def sample(
        self,
        prompts: int = 8,
        group_size: int = 1,
        split: Split = "heldout",
        seed: int = 0,
        transform: SamplingTransform | None = None,
    ) -> Rollout:
        """pi's responses to fresh prompts, drawn from generators of their own, so that training is not disturbed.

        ``transform`` replaces pi's own; ``SamplingTransform(temperature=0)`` is greedy. What makes mu differ from pi in
        training is off.
        """
        drawn = self.task.sample(prompts, torch.Generator().manual_seed(seed), split).prompts.to(self.device)
        generator = torch.Generator(self.device).manual_seed(seed)
        sampler = replace(self.sampler, transform=transform or self.transform, behavior=Behavior())
        return sampler.sample(merged(self.model), drawn, group_size, generator, version=self.updates)

    def evaluate(
        self,
        prompts: int = 512,
        split: Split = "heldout",
        seed: int = 0,
        transform: SamplingTransform | None = None,
    ) -> float:
        """Mean reward of one response to each of ``prompts`` fresh prompts, drawn as :meth:`sample` does."""
        return self.task.reward(self.sample(prompts, 1, split, seed, transform)).mean().item()

    # keeping it

    def save(self, folder: Path) -> Path:
        """Write everything that an exact continuation needs, atomically, into ``folder``. Returns the path.

        Raises ``ValueError``, before anything is changed, for a folder that something else writes to, or that holds
        another run, or this one further on.
        """
        with sole_writer(folder):
            self.check_goes_on(folder)
            return self.write_checkpoint(folder)

    def check_goes_on(self, folder: Path) -> None:
        """Raise ``ValueError`` if ``folder`` holds another run, or this one further on."""
        check_goes_on(folder, self.run_id, self.warm_updates + self.step, asdict(self.config))

    def write_checkpoint(self, folder: Path) -> Path:
        """:meth:`save` for who is :func:`sole_writer` of ``folder``, and has checked it."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.reference is not None:
            tensors |= {f"reference.{name}": value for name, value in self.reference.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        if self.past is not None:
            tensors |= self.past.tensors()
        tensors["rng.data"] = self.data_generator.get_state()
        tensors["rng.sample"] = self.generator.get_state()
        state: dict[str, Any] = dict(run_id=self.run_id, config=asdict(self.config), warm=self.warm) | self.counts()
        return save_checkpoint(folder, self.warm_updates + self.step, tensors, state)

    @classmethod
    def load(
        cls,
        folder: Path,
        task: Task | None = None,
        choices: Choices | None = None,
        steps: int | None = None,
        **settings: Any,
    ) -> Self:
        """The trainer of the newest checkpoint in ``folder``. On a CPU it goes on bit for bit.

        ``steps`` replaces the number of RL steps in all. An objective or a task of your own must be passed again, and
        so must ``settings``, which a subclass may have besides.
        Raises ``FileNotFoundError`` without a checkpoint, ``ValueError`` naming a missing part.
        """
        tensors, state = load_latest(folder)
        config = TrainConfig(**state["config"])
        if config.recipe == "custom" and choices is None:
            raise ValueError("this run used an objective of its own; pass it again as choices=Choices(...)")
        steps = config.steps if steps is None else steps
        start = "none" if state["warm"] else "train"  # where the run was: in RL, or before it
        trainer = cls(replace(config, warm_start=start, steps=steps), task, choices, **settings)
        trainer.config = replace(trainer.config, warm_start=config.warm_start)
        trainer.run_id = state.get("run_id", "")  # of a run that is older than these names
        for name in COUNTS:
            setattr(trainer, name, state[name])
        trainer.model.load_state_dict(part(tensors, "model"))
        if trainer.reference is not None:
            trainer.reference.load_state_dict(part(tensors, "reference"))
        if (trainer.updates if trainer.warm else trainer.warm_updates) > 0:  # a fresh optimiser has no moments yet
            load_optimizer(trainer.optimizer, tensors)
        if trainer.past is not None:
            trainer.past.restore(tensors, merged(trainer.model))
        rng = part(tensors, "rng")
        trainer.data_generator.set_state(rng["data"].cpu())
        trainer.generator.set_state(rng["sample"].cpu())
        return trainer
