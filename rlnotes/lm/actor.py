"""A process that samples: it is sent prompts, reads the newest weights from shared memory, and sends rollouts back."""

import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from rlnotes.lm.config import ModelConfig
from rlnotes.lm.experts import Routes
from rlnotes.lm.kv_cache import KeysValues, KVCache
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler
from rlnotes.processes import ignored_interrupts

Packed = dict[str, Any]  # the fields of a Rollout, arrays for tensors


@dataclass(frozen=True)
class Order:
    """What a rollout is made from, besides the weights: ``prompts`` (B, P) and the seed of its random numbers."""

    prompts: np.ndarray
    seed: int


@dataclass(frozen=True)
class ActorSettings:
    """How an actor samples. ``partial``: it takes new weights in the middle of a response, too."""

    sizes: ModelConfig
    sampler: Sampler
    group_size: int
    device: torch.device
    threads: int
    partial: bool


class SharedWeights:
    """The weights of ``model`` and their version, in memory that processes share. A reader gets one version whole."""

    def __init__(self, context: SpawnContext, model: Transformer, version: int):
        self._flat = torch.empty(sum(p.numel() for p in model.parameters())).share_memory_()
        self._version = context.Value("q", -1)  # its lock guards the weights as well
        self.write(model, version)

    @torch.no_grad()
    def write(self, model: Transformer, version: int, timeout: float | None = None) -> bool:
        """Put the weights of ``model`` there. False if a reader has the lock longer than ``timeout`` seconds."""
        lock = self._version.get_lock()
        if not lock.acquire(timeout=timeout):
            return False
        try:
            self._flat.copy_(torch.cat([p.flatten() for p in model.parameters()]))
            self._version.value = version
        finally:
            lock.release()
        return True

    @torch.no_grad()
    def read(self, model: Transformer, known: int | None = None) -> int:
        """Bring ``model``, which has version ``known``, up to date. Returns the version it has then.

        Raises ``EOFError`` if the process that writes is gone, and has taken the lock along.
        """
        lock, writer = self._version.get_lock(), multiprocessing.parent_process()
        while not lock.acquire(timeout=0.5):
            if writer is not None and not writer.is_alive():
                raise EOFError("the learner ended while it wrote weights")
        try:
            version = self._version.value
            if version != known:
                parts = self._flat.split([p.numel() for p in model.parameters()])
                for parameter, values in zip(model.parameters(), parts, strict=True):
                    parameter.copy_(values.view_as(parameter))
        finally:
            lock.release()
        return version


class UpToDate(Transformer):
    """A model that looks for new weights before every token that it samples.

    The keys and values of what it read before are kept, so a token's distribution belongs to several versions: the
    newest of them computed it, from what the older ones saw. That is mu, and its log-probability is recorded as such.
    """

    def __init__(self, sizes: ModelConfig, weights: SharedWeights):
        super().__init__(sizes)
        self._weights = weights
        self.version: int | None = None
        self._used: list[int] = []  # by token of the responses

    def hidden(
        self,
        tokens: Tensor,
        position: Tensor,
        key_mask: Tensor | None = None,
        kv_cache: KeysValues | None = None,
        routes: Routes | None = None,
    ) -> Tensor:
        """As :meth:`Transformer.hidden`, with the newest weights. A pass that is not over a cache begins a response."""
        self.version = self._weights.read(self, self.version)
        if not isinstance(kv_cache, KVCache):
            self._used = []
        self._used.append(self.version)
        return super().hidden(tokens, position, key_mask, kv_cache, routes)

    def dated(self, rollout: Rollout) -> Rollout:
        """``rollout``, the last one sampled, with the version that computed each token's distribution."""
        missing = rollout.tokens.shape[1] - len(self._used)  # nothing was sampled there: all responses had ended
        versions = self._used + self._used[-1:] * missing
        return replace(rollout, version=torch.tensor(versions, device=rollout.tokens.device).expand_as(rollout.tokens))


class Actor:
    """ ""The learner's side of an actor process, which starts at once.

    Answers come in the order of the orders. Each is a :class:`Rollout`, or the text of an error, and the last is None:
    the process has ended. A thread takes them in as they come, so that the actor never waits for the learner and what
    it had finished outlives it.
    """

    def __init__(self, settings: ActorSettings, model: Transformer, version: int):
        context = multiprocessing.get_context("spawn")
        self._weights = SharedWeights(context, model, version)
        orders, self._orders = context.Pipe(duplex=False)
        self._results, results = context.Pipe(duplex=False)
        self._answers: SimpleQueue[Packed | str | None] = SimpleQueue()
        self._device = settings.device
        self.answered = False
        self.process = context.Process(
            target=_run, args=(settings, self._weights, orders, results), name="rlnotes actor", daemon=True
        )
        with ignored_interrupts():
            self.process.start()
        orders.close()
        results.close()  # the actor's ends are now the only ones: when one side dies, the other's reading ends
        self._listener = threading.Thread(target=self._listen, name="rlnotes actor's answers", daemon=True)
        self._listener.start()

    def publish(self, model: Transformer, version: int) -> None:
        """Let the actor have these weights from its next rollout on."""
        while not self._weights.write(model, version, timeout=0.5):
            if not self.process.is_alive():  # it died while it read; the next answer is None
                return

    def send(self, order: Order) -> None:
        """Ask for one rollout. To a dead actor nothing happens: it answers None."""
        with suppress(OSError):
            self._orders.send(order)

    def answer(self) -> Rollout | str | None:
        """The next answer; waits for it."""
        message = self._answers.get()
        self.answered = self.answered or message is not None
        return unpacked(message, self._device) if isinstance(message, dict) else message

    def exitcode(self) -> int:
        """How the process ended; it has answered None, so that it need not be waited for long."""
        self.process.join()
        return self.process.exitcode or 0

    def close(self) -> None:
        """End the process, whatever it is doing, and what listens to it."""
        self.process.kill()  # a polite end could wait for the rollout in hand
        self.process.join()
        self._listener.join()
        self._orders.close()
        self._results.close()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):  # the other end closed, between two answers or within one
            while self._results in wait([self._results, self.process.sentinel]):
                self._answers.put(self._results.recv())
        self._answers.put(None)


def _run(settings: ActorSettings, weights: SharedWeights, orders: Connection, results: Connection) -> None:
    """The actor. An error goes to the learner as text; a learner that is gone ends the process."""
    with suppress(EOFError, ConnectionError):
        try:
            _sample(settings, weights, orders, results)
        except (EOFError, ConnectionError):
            raise
        except Exception:
            results.send(traceback.format_exc())


def _sample(settings: ActorSettings, weights: SharedWeights, orders: Connection, results: Connection) -> None:
    torch.set_num_threads(settings.threads)
    model = Transformer(settings.sizes) if not settings.partial else UpToDate(settings.sizes, weights)
    model = model.to(settings.device).requires_grad_(False)
    generator = torch.Generator(settings.device)
    version: int | None = None
    while True:
        order: Order = orders.recv()
        prompts = torch.from_numpy(order.prompts).to(settings.device)
        generator.manual_seed(order.seed)
        version = weights.read(model, version)
        rollout = settings.sampler.sample(model, prompts, settings.group_size, generator, version)
        if isinstance(model, UpToDate):
            rollout, version = model.dated(rollout), model.version
        results.send(packed(rollout))


def packed(rollout: Rollout) -> Packed:
    """What goes through a pipe: plain arrays, because each tensor would take a file descriptor along."""
    values = {own.name: getattr(rollout, own.name) for own in fields(rollout)}
    return {name: value.cpu().numpy() if isinstance(value, Tensor) else value for name, value in values.items()}


def unpacked(message: Packed, device: torch.device) -> Rollout:
    """The rollout that :func:`packed` took apart, on ``device``."""
    values: Packed = {
        name: torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
        for name, value in message.items()
    }
    return Rollout(**values)
