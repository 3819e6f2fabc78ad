"""An RL step of fixed shapes that asks the device for nothing on the way, so that it can be a CUDA graph.

It does what :meth:`Trainer.rl_step` does, by the same functions. What differs is what a graph cannot do: groups that
teach nothing stay in and have gradient 0, and a gradient that is not finite is found out about after the step, whose
remaining updates then change nothing.
"""

import time
import warnings
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from rlnotes.lm.collection import Collection, Sampled, collect, reported
from rlnotes.lm.config import PRESETS, Metrics, TrainConfig
from rlnotes.lm.cuda_graph import WaitsError, captured
from rlnotes.lm.gradient import (
    backward,
    first_look,
    look_metrics,
    minibatches,
    not_finite,
    of_updates,
    teaching,
    update_metrics,
    update_sums,
)
from rlnotes.objectives import Choices
from rlnotes.objectives.aggregations import Totals

if TYPE_CHECKING:
    from rlnotes.lm.trainer import Trainer

MEANS = ("reward", "wasted_groups", "length", "truncated", "length_wrong")  # of Sampled.means


@dataclass(frozen=True)
class Drawn:
    """What ``data_generator`` decides of a step: ``prompts`` (B, P) and the ``rows`` (n_updates, b) of each update.

    It has the state ``before`` if nobody else drew from it, and must have the state ``after`` when the step is done.
    """

    prompts: Tensor
    rows: Tensor
    before: Tensor
    after: Tensor


class StaticStep:
    """One RL step of ``trainer``, called like :meth:`Trainer.rl_step`: the same metrics, and the same state after it.

    Three parts: :meth:`prepare` puts what the host decides (prompts, minibatches, learning rates) into buffers on the
    device, ``run``, which is :meth:`work` or a graph of it, does the rest there, and its numbers are read once.

    Raises ``ValueError`` for a trainer that :func:`unsupported` names a reason for.
    """

    def __init__(self, trainer: "Trainer"):
        if (reason := unsupported(trainer)) is not None:
            raise ValueError(f"this step cannot be static: {reason}")
        config, device = trainer.config, trainer.device
        self.trainer = trainer
        self.n_updates = config.epochs * config.minibatches
        size = (config.prompts, trainer.task.prompt_length)
        self.prompts = torch.zeros(size, dtype=torch.long, device=device)
        rows = (self.n_updates, config.prompts // config.minibatches)
        self.rows = torch.zeros(rows, dtype=torch.long, device=device)
        self.rates = torch.zeros(self.n_updates, device=device)
        self.stopped = torch.zeros((), device=device)  # 1: the updates that follow change nothing
        self.rehearsing = torch.zeros((), device=device)  # 1: none changes anything
        self.doing = ""  # which part of the work is being done
        self.drawn: Drawn | None = None
        self.run = self.work

    def __call__(self) -> Metrics:
        """The step. Raises ``ValueError`` after a gradient that is not finite, which left the weights as they were."""
        started = time.perf_counter()
        self.prepare()
        numbers = self.run()
        self.drawn = self._draw()  # the next step's, while the device works
        return counted(self.trainer, numbers.tolist()) | dict(seconds=time.perf_counter() - started)

    def prepare(self) -> None:
        """Put prompts, minibatches, and learning rates where the work finds them."""
        trainer, config = self.trainer, self.trainer.config
        if self.drawn is None or not torch.equal(self.drawn.before, trainer.data_generator.get_state()):
            self.drawn = self._draw()
        trainer.data_generator.set_state(self.drawn.after)
        self.prompts.copy_(self.drawn.prompts, non_blocking=True)
        if self.n_updates > 1:
            self.rows.copy_(self.drawn.rows, non_blocking=True)
        rates = [config.warmed_up(config.learning_rate, trainer.updates + i) for i in range(self.n_updates)]
        self.rates.copy_(torch.tensor(rates), non_blocking=True)

    def _draw(self) -> Drawn:
        """Prompts and minibatches of a step, in the order of :meth:`Trainer.rl_step`. The generator stays as it is."""
        config, generator = self.trainer.config, self.trainer.data_generator
        before = generator.get_state()
        prompts = self.trainer.task.sample(config.prompts, generator).prompts
        rows = [rows for epoch in range(config.epochs) for rows in minibatches(config, epoch, generator)]
        drawn = Drawn(prompts, torch.stack(rows), before, generator.get_state())
        generator.set_state(before)
        return drawn

    def work(self) -> Tensor:
        """Rollout, rewards, advantages, and all updates. Returns numbers (n,), float64, for :func:`counted`."""
        trainer, choices = self.trainer, self.trainer.choices
        self.stopped.copy_(self.rehearsing)
        self.doing = "the sampler"
        # the version that a rollout is told is a number of its recording: nothing in the step reads it
        rollout = trainer.sampler.sample(trainer.model, self.prompts, trainer.config.group_size, trainer.generator)
        self.doing = f"the score of {type(trainer.task).__name__}"
        sampled = Sampled(rollout, trainer.task.score(rollout), 1)
        self.doing = "the advantage, or what is compared with before the updates,"
        scorers = trainer._scorer(trainer.model), trainer._reference_scorer()
        collected = collect(sampled, trainer.config.prompts, choices, *scorers)
        self.doing = "the loss, or the optimiser,"
        updates = [self._update(collected, i) for i in range(self.n_updates)]
        return torch.cat([of_sampled(sampled, trainer.sampler.eos), *updates])

    def _update(self, collected: Collection, i: int) -> Tensor:
        """Update number ``i`` of the step. Returns (7,) float64: :func:`update_sums`, the tokens, the norm of the
        gradient, and 1 if the weights were changed; and before them, for the first, (4,) of :func:`first_look`.
        """
        trainer, g = self.trainer, collected.rollout.group_size
        part = collected if self.n_updates == 1 else collected.groups(self.rows[i])  # one update takes all, in order
        mask, advantages = part.rollout.mask, part.advantages
        tokens = mask.sum()
        totals = Totals(mask.shape[0], tokens, mask.shape[1])
        every = trainer._log_probs(part.rollout)
        batch, gradient, loss = backward(part, every, trainer.choices, totals, trainer.sampler.eos)
        norm = clip_grad_norm_(trainer.model.parameters(), trainer.config.gradient_clip)
        self.stopped.copy_(torch.maximum(self.stopped, (~norm.isfinite()).float()))
        self._step_optimizer(self.rates[i])
        others = torch.stack([tokens.double(), norm.double(), 1 - self.stopped.double()])
        numbers = torch.cat([update_sums(batch, gradient, loss), others])
        if i > 0:
            return numbers
        return torch.cat([first_look(batch, every, of_teaching(trainer.choices, advantages, g, mask)), numbers])

    def _step_optimizer(self, rate: Tensor) -> None:
        """Step, unless stopped, and clear the gradient."""
        optimizer, on_gpu = self.trainer.optimizer, self.trainer.device.type == "cuda"
        for group in optimizer.param_groups:
            group["lr"] = rate
            group["capturable"] = on_gpu and torch.cuda.is_current_stream_capturing()
        vars(optimizer)["found_inf"] = self.stopped  # as gradient scalers say it: 1 keeps weights, moments and count
        try:
            optimizer.step()
        finally:
            del vars(optimizer)["found_inf"]
        for group in optimizer.param_groups:
            group["capturable"] = False
        optimizer.zero_grad()


def of_sampled(sampled: Sampled, eos: int) -> Tensor:
    """(6,) float64: the ``MEANS`` of what was sampled, and its tokens."""
    means = sampled.means(eos)
    return torch.stack([one.double() for one in (*(means[name] for name in MEANS), sampled.rollout.mask.sum())])


def of_teaching(choices: Choices, advantages: Tensor, group_size: int, mask: Tensor) -> Tensor:
    """``mask`` (N, T) without the groups that :func:`teaching` leaves out. ``advantages`` (N,)."""
    teach = teaching(choices, advantages.view(-1, group_size)).repeat_interleave(group_size)
    return mask & teach[:, None]


def counted(trainer: "Trainer", numbers: list[float]) -> Metrics:
    """What ``trainer`` reports of a step, from the ``numbers`` (n,) of its work; the trainer counts it.

    They are: :func:`of_sampled` (6), the first look (4), and for each update 7 numbers. Raises ``ValueError`` if the
    gradient of one was not finite.
    """
    rest = iter(numbers)
    means = {name: next(rest) for name in MEANS}
    tokens, looked = int(next(rest)), list(islice(rest, 4))
    metrics: Metrics = dict(phase=1, step=trainer.step + 1) | reported(1, means)
    seen: list[Metrics] = []
    while update := list(islice(rest, 7)):
        *sums, size, norm, done = update
        if not done:
            raise not_finite(norm)
        look = {} if seen else look_metrics(looked)
        seen.append(update_metrics(sums, size) | look | dict(gradient_norm=norm))
        trainer.updates += 1
    trainer.step += 1
    trainer.tokens += tokens
    return metrics | of_updates(seen) | dict(tokens=trainer.tokens)


def unsupported(trainer: "Trainer") -> str | None:
    """Why a step of ``trainer`` cannot be static, on any device: the first reason there is, or None."""
    from rlnotes.lm.trainer import Trainer  # not before: trainer imports this module

    config, behavior = trainer.config, trainer.sampler.behavior
    copied = behavior.weights != "float32" or behavior.blocks > 1
    reasons = varying(config, trainer.choices) | {
        f"{type(trainer).__name__} draws its rollouts in a way of its own": type(trainer)._draw is not Trainer._draw,
        f"lags is {config.lags}, and older weights are copied between steps": bool(config.lags),
        "rollout_weights or rollout_blocks make a copy of the model for each rollout": copied,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def varying(config: TrainConfig, choices: Choices) -> dict[str, bool]:
    """Reasons why a step has shapes that vary, or reads numbers on its way, and whether each holds."""
    return {
        "the objective samples until groups have advantages (dynamic_sampling)": choices.dynamic_sampling,
        "the objective divides by what it keeps, or by its mean weight": choices.needs_whole_batch,
        f"preset {config.preset!r} sends each expert another number of tokens": "experts" in PRESETS[config.preset],
        f"lora_rank is {config.lora_rank}, and adapters are merged for each rollout": config.lora_rank > 0,
        f"micro_batches is {config.micro_batches}, and a static step has one part": config.micro_batches > 1,
        "count_clipped counts on the CPU": config.count_clipped,
        "measure_shift reads numbers in the middle of a step": config.measure_shift,
    }


def graphed_step(trainer: "Trainer") -> StaticStep | None:
    """The step of ``trainer`` as a CUDA graph. None, and a warning that says why, if it cannot be one.

    Rehearsal and recording leave everything as it was: weights, optimiser, generators.
    """
    reason = unsupported(trainer)
    if trainer.device.type != "cuda":
        reason = f"device is {trainer.config.device!r}, and a CUDA graph needs a GPU"
    if reason is None:
        step = StaticStep(trainer)
        step.rehearsing.fill_(1.0)
        try:
            step.run = captured(step.work, trainer.generator)
            step.rehearsing.fill_(0.0)
            return step
        except WaitsError:
            trainer.optimizer.zero_grad()
            reason = f"{step.doing} waits for the GPU"
    warnings.warn(f"cuda_graph does nothing here: {reason}", stacklevel=5)
    return None
