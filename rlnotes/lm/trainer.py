"""The training loop: a supervised warm start, then RL, one step at a time."""

import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from rlnotes.files import sole_writer
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.checkpoint import (
    STATE,
    TENSORS,
    BrokenCheckpoint,
    check_fields,
    check_goes_on,
    check_tensors,
    find_checkpoint,
    load_checkpoint,
    load_optimizer,
    moments_of,
    optimizer_tensors,
    part,
    save_checkpoint,
)
from rlnotes.lm.config import MANY, Metrics, TrainConfig
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
        self.left_generators: dict[str, Tensor] = {}  # their states, of other kinds of device
        self.parts = self.make_parts()
        which = config.task, config.size, config.preset, config.start
        if config.warm_start == "shipped" and task is None and has_weights(*which):
            load_weights(self.model, *which)
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
        task, learning_rate, limit, every = warm_schedule(self.task, config, self.warm_updates)
        loss = warm_loss(self.model, task, config.warm_batch, self.data_generator, self.dtype, self.shard)
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
        | ``no_gradient`` | share of tokens with an advantage that got no gradient (a closed gate): mean over the |
        | | updates, where one without any such token counts as 0; so it is low where few groups teach |
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
        for name, value in (("prompts", prompts), ("group_size", group_size)):
            if not 1 <= value <= MANY:
                raise ValueError(f"{name} is {value}; it must be in [1, {MANY}]")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed is {seed}; it must be in [0, {2**63 - 1}]")
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
        state: dict[str, Any] = dict(run_id=self.run_id, config=asdict(self.config), warm=self.warm) | self.counts()
        return save_checkpoint(folder, self.warm_updates + self.step, self.tensors(), state)

    def tensors(self) -> dict[str, Tensor]:
        """All numbers of a checkpoint, by name. ``rng.sample.cpu`` and ``rng.sample.cuda`` are the states of the
        generators of tokens, each of the kinds of device that the run was on.
        """
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.reference is not None:
            tensors |= {f"reference.{name}": value for name, value in self.reference.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        if self.past is not None:
            tensors |= self.past.tensors()
        tensors["rng.data"] = self.data_generator.get_state()
        return tensors | self.left_generators | {f"rng.sample.{self.device.type}": self.generator.get_state()}

    @classmethod
    def load(
        cls,
        folder: Path,
        task: Task | None = None,
        choices: Choices | None = None,
        steps: int | None = None,
        device: str | None = None,
        checkpoint: str | None = None,
        **settings: Any,
    ) -> Self:
        """The trainer of the newest checkpoint in ``folder``, or of the one called ``checkpoint``.

        On the CPU where it was it goes on bit for bit. ``device`` moves it to another: weights, optimiser and prompts
        are the same there, but sums are rounded otherwise, and tokens are drawn from the random numbers of that kind of
        device, where the run left them, or from their beginning; one line on stderr says so. On a CPU ``precision``
        becomes float32. ``steps`` replaces the number of RL steps in all. An objective or a task of your own must be
        passed again, and so must ``settings``, which a subclass may have besides.

        Raises ``FileNotFoundError`` without a checkpoint, :class:`rlnotes.lm.checkpoint.BrokenCheckpoint`, a
        ``ValueError``, naming the file, what is wrong with it and the older checkpoint, and ``ValueError`` for a device
        that is not here. Nothing is half loaded.
        """
        path = find_checkpoint(folder, checkpoint)
        tensors, state = load_checkpoint(path)
        saved = config_of(state, path / STATE)
        if saved.recipe == "custom" and choices is None:
            raise ValueError("this run used an objective of its own; pass it again as choices=Choices(...)")
        config = moved(saved, device)
        start = "none" if state["warm"] else "train"  # where the run was: in RL, or before it
        trainer = cls(
            replace(config, warm_start=start, steps=config.steps if steps is None else steps), task, choices, **settings
        )
        trainer.config = replace(trainer.config, warm_start=config.warm_start)
        for name in ("run_id", *COUNTS):
            setattr(trainer, name, state[name])
        trainer.take(tensors, path / TENSORS)
        before, here = torch.device(saved.device).type, trainer.device.type
        if before != here and trainer.shard.rank == 0:
            again = f"rng.sample.{here}" in tensors
            print(
                f"rlnotes: a run of device {saved.device} goes on with device {config.device}, not bit for bit: sums "
                f"are rounded otherwise, and the random numbers of tokens {'go on there' if again else 'begin there'}"
                + (f"; precision {saved.precision} becomes {config.precision}" * (config.precision != saved.precision)),
                file=sys.stderr,
            )
        return trainer

    def take(self, tensors: dict[str, Tensor], file: Path) -> None:
        """Put the numbers of a checkpoint, of ``file``, in their places. Raises :class:`BrokenCheckpoint` before any is
        changed if they do not fit.
        """
        own = f"rng.sample.{self.device.type}"
        expected = self.tensors()
        if (self.updates if self.warm else self.warm_updates) > 0:  # a fresh optimiser has no moments yet
            expected |= moments_of(self.optimizer)
        if self.past is not None:
            weights = merged(self.model).state_dict()
            versions = {name.split(".")[1] for name in tensors if re.match(r"past\.\d+\.", name)}
            expected |= {f"past.{version}.{name}": one for version in versions for name, one in weights.items()}
        elsewhere = {name: one for name, one in tensors.items() if name.startswith("rng.sample.") and name != own}
        if elsewhere and own not in tensors:  # this kind of device is new to the run
            tensors = tensors | {own: expected[own]}
        check_tensors(file, tensors, expected | elsewhere)
        try:
            self.data_generator.set_state(tensors["rng.data"])
            self.generator.set_state(tensors[own])
        except RuntimeError as error:
            raise BrokenCheckpoint(file, f"has no state of a generator in rng ({error})") from error
        self.left_generators = elsewhere
        self.model.load_state_dict(part(tensors, "model"))
        if self.reference is not None:
            self.reference.load_state_dict(part(tensors, "reference"))
        if "optimizer.0.step" in expected:
            load_optimizer(self.optimizer, tensors)
        if self.past is not None:
            self.past.restore(tensors, merged(self.model))


def config_of(state: dict[str, Any], file: Path) -> TrainConfig:
    """The settings in the ``state`` of a checkpoint, of ``file``. Raises :class:`BrokenCheckpoint` if it is not all
    there, or makes no sense.
    """
    check_fields(file, state, ("run_id", "config", "warm", *COUNTS), "field")
    for name in COUNTS:
        if type(state[name]) is not int or state[name] < 0:
            raise BrokenCheckpoint(file, f"has {name} {state[name]!r}, which must be a whole number, 0 or more")
    if type(state["warm"]) is not bool:
        raise BrokenCheckpoint(file, f"has warm {state['warm']!r}, which must be true or false")
    if not isinstance(state["config"], dict):
        raise BrokenCheckpoint(file, "has a config that is no list of settings by name")
    check_fields(file, state["config"], (one.name for one in fields(TrainConfig)), "setting")
    try:
        return TrainConfig(**state["config"])
    except (TypeError, ValueError) as error:
        raise BrokenCheckpoint(file, f"has a setting that cannot be: {error}") from error


def moved(config: TrainConfig, device: str | None) -> TrainConfig:
    """The settings for ``device``; None is the one that they name. Raises ``ValueError`` if that is a GPU, and there is
    none.
    """
    if device is None:
        if config.device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(
                f"this run was on device {config.device}, and torch finds no GPU here; load it with device='cpu', on "
                "the command line --device cpu"
            )
        return config
    return replace(config, device=device, precision=config.precision if device.startswith("cuda") else "float32")
