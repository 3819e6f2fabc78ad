"""Sampling and learning at the same time, in two processes: staleness that is real, and measured.

The actor samples with the newest weights it has seen while the learner updates. Rollouts wait in a queue, and by the
time that one is learned from, the weights have moved on.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from rlnotes.lm.actor import Actor, ActorSettings, Order
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.distributed import launched
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.learner import Learner
from rlnotes.lm.lora import merged
from rlnotes.lm.parts import Parts
from rlnotes.lm.queue import RolloutQueue
from rlnotes.lm.report import Watch
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Task
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import Choices
from rlnotes.processes import ending

RESTARTS = 3  # actors that may die in a row, without one rollout between


class AsyncParts(Parts):
    """The parts of a step whose rollouts come from an actor, which the learner asks for them."""

    def __init__(self, learner: Learner, watches: Sequence[Watch], settings: ActorSettings, window: int, queue: int):
        super().__init__(learner, watches)
        self.queue = queue
        self.waiting = RolloutQueue(window)
        self.lags: list[Tensor] = []  # of this step's tokens
        self.restarts, self.waited = 0, 0.0
        self._settings = settings
        self._orders: deque[Order] = deque()  # not answered yet
        self._actor: Actor | None = None
        self._deaths = 0  # in a row

    def prompts(self) -> Tensor:
        """Those of the last order. The actor gets the newest weights, and work to be ``queue`` rollouts ahead."""
        started = time.perf_counter()
        with self._all_or_new():
            self._running_actor().publish(merged(self.learner.model), self.learner.updates)
            self._fill()
        self.waited += time.perf_counter() - started
        return torch.from_numpy(self._orders[-1].prompts)

    def rollout(self, prompts: Tensor) -> Rollout:
        """The oldest rollout that is not too old. Its prompts are those of an earlier order."""
        started, wasted = time.perf_counter(), self.waiting.wasted_tokens
        with self._all_or_new():
            self.waiting.put(self._receive())
            while (rollout := self.waiting.get(self.learner.updates)) is None:
                self._fill()
                self.waiting.put(self._receive())
        self.waited += time.perf_counter() - started
        self.learner.tokens += self.waiting.wasted_tokens - wasted
        self.lags.append((self.learner.updates - rollout.version)[rollout.mask])
        return rollout

    def metrics(self) -> Metrics:
        """What the step reports, and what the actor did for it."""
        lag = torch.cat(self.lags).double().mean().item()
        of_actor = dict(lag=lag, wasted=self.waiting.wasted, restarts=self.restarts, waited=self.waited)
        return super().metrics() | of_actor

    def forget(self) -> None:
        """Count anew, for a step."""
        self.lags, self.waited = [], 0.0

    @contextmanager
    def _all_or_new(self) -> Iterator[None]:
        """After an error what was sent and what was answered may not agree any more: begin anew next time."""
        try:
            yield
        except BaseException:
            self.end_actor()
            raise

    def _fill(self) -> None:
        while len(self._orders) <= self.queue:
            self._order()

    def _order(self) -> None:
        """Ask for one more rollout, from fresh prompts."""
        prompts = self.learner.task.sample(self.learner.config.prompts, self.learner.data_generator).prompts.numpy()
        seed = torch.randint(2**63 - 1, (), generator=self.learner.generator, device=self.learner.device)
        order = Order(prompts, int(seed))
        self._running_actor().send(order)
        self._orders.append(order)

    def _receive(self) -> Rollout:
        """The next rollout to come from the actor; if it has died, from another one.

        Raises ``RuntimeError`` if it says that it failed, or if several died in a row.
        """
        while True:
            actor = self._running_actor()
            answer = actor.answer()
            if isinstance(answer, Rollout):
                self._orders.popleft()
                self._deaths = 0
                return answer
            if answer is not None:
                raise RuntimeError(
                    f"the actor failed; the learner is as after its last step. The actor said:\n{answer}"
                )
            exitcode = actor.exitcode()
            self.end_actor()
            self._deaths += 1
            if self._deaths > RESTARTS or (exitcode > 0 and not actor.answered):
                times = f", the {self._deaths}th in a row," if self._deaths > 1 else ""
                self._deaths = 0
                raise RuntimeError(f"the actor{times} {ending(exitcode)}")
            self.restarts += 1

    def _running_actor(self) -> Actor:
        """The actor. If there is none, a new one gets the newest weights and all orders that wait for an answer."""
        if self._actor is None:
            self._actor = Actor(self._settings, merged(self.learner.model), self.learner.updates)
            for order in self._orders:
                self._actor.send(order)
        return self._actor

    def end_actor(self) -> None:
        """End the process, if there is one."""
        if self._actor is not None:
            self._actor.close()
            self._actor = None


class AsyncTrainer(Trainer):
    """A :class:`Trainer` whose rollouts come from an actor, a process of its own.

    ``with AsyncTrainer(config) as trainer: for metrics in trainer.run(): ...``

    ``queue`` is how many rollouts the actor may be ahead of the learner. With 0 it samples only while the learner
    waits. With k a rollout is at most k steps old when it is learned from, and just that where the actor is the faster
    of the two; a step makes ``epochs * minibatches`` updates. ``window`` is how many updates old a rollout may be: an
    older one is dropped and counted (None: as old as the queue makes it). The actor takes new weights once per step,
    between its rollouts; with ``partial`` also in the middle of responses, whose tokens then have versions of their
    own, while the keys and values that older weights made are kept: see :class:`rlnotes.lm.actor.UpToDate`. That
    happens where the actor is the slower of the two: long responses, small batches.

    Beside the metrics of :meth:`Trainer.rl_step` there are

    | metric | meaning |
    |---|---|
    | ``lag`` | updates between the weights that sampled and those that the step began with; mean over tokens |
    | ``wasted`` | responses dropped so far because they were too old |
    | ``restarts`` | actors so far that died and were replaced |
    | ``waited`` | seconds of this step that the learner waited for rollouts |

    and with ``config.measure_shift`` what the lag did to the policy. The learner draws prompts and seeds, so neither
    ``task`` nor ``choices`` travels to the actor, and one that is written in a notebook will do. With ``queue=0`` a run
    repeats itself bit for bit; otherwise which weights sample which prompts is a matter of time, and two runs differ.

    An actor that is killed is replaced, and asked again for what it owed; of the learner nothing is lost. An error in
    the actor raises ``RuntimeError`` with its text. Leaving the ``with`` block ends the actor, by an error or an
    interrupt too, and so does the learner's death. The trainer can be used and entered again afterwards. In a script,
    put the block under ``if __name__ == "__main__":``, because the actor imports the script anew.

    Checkpoints are those of :class:`Trainer`; what waits in the queue is not in them. A run goes on from one, but bit
    for bit only with ``queue=0``. ``AsyncTrainer.load`` needs ``window``, ``queue`` and ``partial`` again.
    """

    parts: AsyncParts

    def __init__(
        self,
        config: TrainConfig,
        task: Task | None = None,
        choices: Choices | None = None,
        window: int | None = None,
        queue: int = 2,
        partial: bool = False,
    ):
        if queue < 0:
            raise ValueError(f"queue is {queue}; it is a number of rollouts, 0 or more")
        if launched():
            raise ValueError("torchrun started several processes, and an actor has one learner; start one process only")
        if config.lags:
            raise ValueError(
                f"lags is {config.lags}, old weights on purpose; an actor has real ones, so leave lags out"
            )
        updates_a_step = config.epochs * config.minibatches
        self._window, self._queue, self._partial = queue * updates_a_step if window is None else window, queue, partial
        RolloutQueue(self._window)  # a window that cannot be says so before anything is made
        super().__init__(config, task, choices)
        if partial and self.sampler.behavior != Behavior():
            raise ValueError(
                f"partial takes the newest weights as they are, and the behaviour is {self.sampler.behavior}; "
                "set partial=False, or leave the mismatch out"
            )
        self._entered = False

    def make_parts(self) -> AsyncParts:
        """With an actor."""
        config = self.config
        settings = ActorSettings(
            self.model.config, self.sampler, config.group_size, self.device, config.threads, self._partial
        )
        return AsyncParts(self, self.watches(), settings, self._window, self._queue)

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        held = HeldInterrupts()
        with held:
            self._entered = False
            self.parts.end_actor()
        held.deliver()

    def rl_step(self) -> Metrics:
        """:meth:`Trainer.rl_step` on rollouts of the actor. Raises ``RuntimeError`` outside the ``with`` block."""
        if not self._entered:
            raise RuntimeError("the actor lives in a with block; write: with AsyncTrainer(config) as trainer: ...")
        self.parts.forget()
        return super().rl_step()
