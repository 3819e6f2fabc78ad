"""Asynchronous advantage actor-critic, A3C: processes that update one set of shared weights, none waiting for another.

A worker's gradient belongs to weights that are no longer there when it is applied. How many updates the others made in
between is its staleness.
"""

import contextlib
import copy
import math
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, cast

import torch
import torch.multiprocessing as multiprocessing

from rlnotes.control.a2c import A2CConfig, a2c_loss
from rlnotes.control.collector import RECENT, Collector, make_envs, make_network
from rlnotes.control.networks import ActorCritic
from rlnotes.processes import ending, ignored_interrupts
from rlnotes.settings import within


@dataclass(frozen=True)
class A3CConfig(A2CConfig):
    """Settings of :func:`a3c`: those of A2C, where ``envs`` and ``steps`` are each worker's own.

    The defaults reach a mean return of 400 on CartPole-v1.
    """

    updates: int = 1000
    """of all workers together"""
    steps: int = 32
    """longer rollouts than A2C's: fewer updates come in between, and the lock is taken less often"""
    learning_rate: float = 3e-3
    workers: int = 2
    """processes, each with environments of its own"""

    def __post_init__(self):
        super().__post_init__()
        within(self, 1, "workers")


def a3c(config: A3CConfig, network: ActorCritic | None = None) -> Iterator[dict[str, float]]:
    """Asynchronous actor-critic, 002 section 3.4.3. Yields metrics per update, whichever worker made it.

    ``network`` is trained in place and moves to shared memory; without it a fresh one is made from ``config.seed``.
    The seed fixes each worker's start, not the order of the workers: two runs differ.

    Metrics: ``update``, its place among all updates, 1 the first (reports of two workers may arrive the other way
    round); ``env_steps`` of all workers; ``return_mean`` over the last 100 episodes to arrive; ``worker``;
    ``staleness``, the updates by others between this worker's reading of the weights and its own update; and those of
    :func:`a2c_loss`. More updates may have been made by the time that one is yielded.

    Raises ``RuntimeError`` naming the worker that failed or was killed. However the loop ends (an error, an interrupt,
    ``break`` and the generator's ``close``), all workers are gone afterwards. In a script, call this under
    ``if __name__ == "__main__":``, because workers import the script anew; in a notebook there is nothing to do.
    """
    envs = make_envs(config.env, 1, config.seed)  # mistakes in the settings show here, not in a worker
    network = network or make_network(envs, torch.Generator().manual_seed(config.seed))
    envs.close()
    network.share_memory()
    context = multiprocessing.get_context("spawn")
    updates_made = context.Value("q", 0)  # its lock guards the weights as well
    workers: dict[Connection, SpawnProcess] = {}  # by the pipe that it reports through
    recent: deque[float] = deque(maxlen=RECENT)
    env_steps = 0
    try:
        for index in range(config.workers):
            pipe, process = _start(context, index, config, network, updates_made)
            workers[pipe] = process
        for report in _reports(workers):
            recent.extend(report.finished)
            env_steps += report.env_steps
            return_mean = sum(recent) / len(recent) if recent else math.nan
            yield dict(env_steps=env_steps, return_mean=return_mean, **report.metrics)
    finally:
        for process in workers.values():
            process.kill()  # a polite end could wait for the lock that a dead worker holds
        for pipe, process in workers.items():
            process.join()
            pipe.close()


@dataclass(frozen=True)
class _Report:
    """What a worker says of one update."""

    finished: list[float]
    env_steps: int
    metrics: dict[str, float]


def _work(index: int, config: A3CConfig, network: ActorCritic, updates_made: Any, pipe: Connection) -> None:
    """A worker: read the shared weights, collect, differentiate, update the shared weights, report; and again."""
    seed = config.seed + index * config.envs  # environment i of a worker gets seed + i
    collector = Collector(make_envs(config.env, config.envs, seed), torch.Generator().manual_seed(seed), seed)
    own = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), config.learning_rate)  # shared weights, moments of its own
    while True:
        with updates_made.get_lock():
            read_at = updates_made.value
            own.load_state_dict(network.state_dict())
        steps = collector.collect(own, config.steps)
        loss, seen = a2c_loss(config, own, steps)
        own.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(own.parameters(), config.gradient_clip)
        with updates_made.get_lock():
            if updates_made.value >= config.updates:
                return
            staleness = updates_made.value - read_at  # this worker made none of them
            for shared, mine in zip(network.parameters(), own.parameters(), strict=True):
                shared.grad = mine.grad
            optimizer.step()
            updates_made.value += 1
            update = updates_made.value
        seen |= dict(update=update, worker=index, staleness=staleness)
        pipe.send(_Report(steps.finished, int(steps.valid.sum()), seen))


# --- Processes


def _start(context: Any, index: int, config: A3CConfig, *shared: Any) -> tuple[Connection, SpawnProcess]:
    """A running worker, and the pipe that it reports through."""
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run_worker, args=(index, config, *shared, send), name=f"a3c worker {index}")
    process.daemon = True
    with ignored_interrupts():
        process.start()
    send.close()  # the worker's is now the only one: when it dies, reading ends
    return receive, process


def _run_worker(index: int, config: A3CConfig, network: ActorCritic, updates_made: Any, pipe: Connection) -> None:
    """:func:`_work` in its process. An error goes to the parent as text; a parent that is gone ends the worker."""
    torch.set_num_threads(1)
    with contextlib.suppress(BrokenPipeError):
        try:
            _work(index, config, network, updates_made, pipe)
        except BrokenPipeError:
            raise
        except Exception:
            pipe.send(traceback.format_exc())


def _reports(workers: dict[Connection, SpawnProcess]) -> Iterator[_Report]:
    """Reports as they come, until all workers have ended. Raises ``RuntimeError`` for one that did not end well."""
    reading = dict(workers)
    while reading:
        for pipe in cast(list[Connection], wait(list(reading))):
            process = reading[pipe]
            try:
                report = pipe.recv()
            except (EOFError, OSError):  # the other end closed, between two reports or within one
                process.join()
                if process.exitcode:
                    raise RuntimeError(f"{process.name} {ending(process.exitcode)}; all workers were ended") from None
                del reading[pipe]
                continue
            if isinstance(report, str):
                raise RuntimeError(f"{process.name} failed, and all workers were ended. It said:\n{report}")
            yield report
