"""The step of one trainer, recorded as a CUDA graph."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from rlnotes.gpu.cuda_graph import WaitsError, captured
from rlnotes.gpu.recorded import RecordedParts, counted, of_sampled, of_teaching, sizes, varying
from rlnotes.lm.collection import Collection, Sampled
from rlnotes.lm.config import Metrics
from rlnotes.lm.parts import Parts, minibatches
from rlnotes.lm.report import first_look, gradient_of, update_sums
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import Batch


@dataclass(frozen=True)
class Drawn:
    """What ``data_generator`` decides of a step: ``prompts`` (B, P) and the ``rows`` (n_updates, b) of each update.

    It has the state ``before`` if nobody else drew from it, and must have the state ``after`` when the step is done.
    """

    prompts: Tensor
    rows: Tensor
    before: Tensor
    after: Tensor


class StaticStep(RecordedParts):
    """One RL step of ``trainer``, called like :meth:`Trainer.rl_step`: the same metrics, and the same state after it.

    :meth:`prepare` puts what the host decides into buffers on the device, ``run``, which is :meth:`work` or a graph of
    it, does the rest there, and its numbers are read once.

    Raises ``ValueError`` for a trainer that :func:`unsupported` names a reason for.
    """

    def __init__(self, trainer: Trainer):
        if (reason := unsupported(trainer)) is not None:
            raise ValueError(f"this step cannot be static: {reason}")
        super().__init__(trainer, runs=1)
        self.stopped = torch.zeros((), device=trainer.device)  # 1: the updates that follow change nothing
        self.drawn: Drawn | None = None

    def __call__(self) -> Metrics:
        """The step. Raises ``ValueError`` after a gradient that is not finite, which left the weights as they were."""
        started = time.perf_counter()
        self.prepare()
        numbers = self.run()
        self.drawn = self._draw()  # the next step's, while the device works
        return counted(self.learner, numbers.tolist()) | dict(seconds=time.perf_counter() - started)

    def prepare(self) -> None:
        """Put prompts, minibatches, and learning rates where the work finds them."""
        learner, config = self.learner, self.learner.config
        if self.drawn is None or not torch.equal(self.drawn.before, learner.data_generator.get_state()):
            self.drawn = self._draw()
        learner.data_generator.set_state(self.drawn.after)
        self.prompts_buffer.copy_(self.drawn.prompts, non_blocking=True)
        if self.n_updates > 1:
            self.rows.copy_(self.drawn.rows, non_blocking=True)
        rates = [[config.warmed_up(config.learning_rate, learner.updates + i)] for i in range(self.n_updates)]
        self.rates.copy_(torch.tensor(rates), non_blocking=True)

    def _draw(self) -> Drawn:
        """Prompts and minibatches of a step, in the order of the usual one. The generator stays as it is."""
        config, generator = self.learner.config, self.learner.data_generator
        before = generator.get_state()
        prompts = self.learner.task.sample(config.prompts, generator).prompts
        rows = [rows for epoch in range(config.epochs) for rows in minibatches(config, epoch, generator)]
        drawn = Drawn(prompts, torch.stack(rows), before, generator.get_state())
        generator.set_state(before)
        return drawn

    def advantages(self, sampled: Sampled) -> Collection:
        """See :meth:`Parts.advantages`."""
        self.doing = "the advantage, or what is compared with before the updates,"
        self.stopped.copy_(self.rehearsing)
        self.numbers.append(of_sampled(sampled, self.learner.sampler.eos))
        return super().advantages(sampled)

    def micro_batches(self, learned: Collection, rows: Tensor) -> Iterator[Collection]:
        """The groups of ``rows`` as one part, those that teach nothing too."""
        part = learned if self.n_updates == 1 else learned.groups(rows)  # one update takes all, in order
        self.totals = sizes(part.rollout.mask)
        yield part

    def look(self, part: Collection, batch: Batch, log_probs: Tensor, loss: Tensor) -> None:
        """Numbers of the first look, and of the update."""
        if self.update_number == 0:
            self.numbers.append(first_look(batch, log_probs, of_teaching(self.learner.choices, part)))
        self.numbers.append(update_sums(batch, gradient_of(batch), loss.detach()))

    def update(self) -> None:
        """Step, unless stopped, and clear the gradient."""
        assert self.totals is not None
        learner, tokens = self.learner, torch.as_tensor(self.totals.tokens)
        norm = clip_grad_norm_(learner.model.parameters(), learner.config.gradient_clip)
        self.stopped.copy_(torch.maximum(self.stopped, (~norm.isfinite()).float()))
        step_unless(self.stopped, learner.optimizer, self.rates[self.update_number, 0])
        self.numbers.append(torch.stack([tokens.double(), norm.double(), 1 - self.stopped.double()]))


def step_unless(stopped: Tensor, optimizer: torch.optim.Optimizer, rate: Tensor) -> None:
    """Step with learning rate ``rate`` (), if ``stopped`` () is 0, and clear the gradient; nobody reads either.

    ``found_inf`` is how PyTorch's gradient scalers tell a fused optimiser: 1 keeps weights, moments and count.
    """
    recording = rate.is_cuda and torch.cuda.is_current_stream_capturing()
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, recording
    vars(optimizer)["found_inf"] = stopped
    try:
        optimizer.step()
    finally:
        del vars(optimizer)["found_inf"]
    for group in optimizer.param_groups:
        group["capturable"] = False
    optimizer.zero_grad()


def unsupported(trainer: Trainer) -> str | None:
    """Why a step of ``trainer`` cannot be static, on any device: the first reason there is, or None."""
    config, behavior = trainer.config, trainer.sampler.behavior
    copied = behavior.weights != "float32" or behavior.blocks > 1
    reasons = varying(config, trainer.choices) | {
        f"{type(trainer).__name__} has a step in parts of its own": own_parts(trainer),
        f"lags is {config.lags}, and older weights are copied between steps": bool(config.lags),
        "rollout_weights or rollout_blocks make a copy of the model for each rollout": copied,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def own_parts(trainer: Trainer) -> bool:
    """Whether its step is another than the usual one: of several processes, or with an actor."""
    return type(trainer.parts) is not Parts or trainer.shard.size > 1


def graphed_step(trainer: Trainer) -> StaticStep | None:
    """The step of ``trainer`` as a CUDA graph. None, and a warning that says why, if it cannot be one.

    Rehearsal and recording leave everything as it was: weights, optimiser, generators.
    """
    reason = unsupported(trainer)
    if trainer.device.type != "cuda":
        reason = f"device is {trainer.config.device!r}, and a CUDA graph needs a GPU"
    if reason is None:
        step = StaticStep(trainer)
        step.rehearsing.fill_(True)
        try:
            step.run = captured(step.work, trainer.generator)
            step.rehearsing.fill_(False)
            return step
        except WaitsError:
            trainer.optimizer.zero_grad()
            reason = f"{step.doing} waits for the GPU"
    warnings.warn(f"cuda_graph does nothing here: {reason}", stacklevel=5)
    return None
