"""Work on a GPU, recorded once and replayed: one launch in the place of thousands."""

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

REHEARSALS = 3  # as a rule, so that libraries have set themselves up, and kernels are chosen


class WaitsError(RuntimeError):
    """The work waits for the GPU somewhere, to read a value or a shape: a graph cannot."""


def captured(
    work: Callable[[], Tensor], *generators: torch.Generator, rehearsals: int = REHEARSALS
) -> Callable[[], Tensor]:
    """A function that does ``work`` again by replaying a graph of it, and returns the same tensor each time, refilled.

    ``work`` takes everything from tensors that stay where they are, and all its random numbers from the ``generators``;
    the replays go on drawing from them, the numbers that the work itself would draw. It is rehearsed before, which must
    change nothing that lasts. The generators are then as they were. Raises :class:`WaitsError` if the work waits for
    the GPU, ``RuntimeError`` if the recording fails for another reason.
    """
    with torch.cuda.device(generators[0].device):
        beside = torch.cuda.Stream()
        _rehearse(work, generators, rehearsals, beside)
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        # on the same stream: work may keep something of its autograd graph, whose gradients are added up on the old one
        with _uncollected(), torch.cuda.graph(graph, stream=beside):
            result = work()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def _rehearse(
    work: Callable[[], Tensor], generators: Sequence[torch.Generator], rehearsals: int, beside: torch.cuda.Stream
) -> None:
    """Do ``work`` on the stream ``beside`` the usual one, as recording will."""
    states = [generator.get_state() for generator in generators]
    usual = torch.cuda.current_stream()
    beside.wait_stream(usual)
    try:
        with torch.cuda.stream(beside), _waiting_forbidden():
            for _ in range(rehearsals):
                work()
    finally:
        usual.wait_stream(beside)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile: among it may be an older graph, and to free that breaks a recording."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def _waiting_forbidden() -> Iterator[None]:
    """Raise :class:`WaitsError` where the host would wait for the GPU."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this mode may miss something
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing CUDA operation" not in str(error):
            raise
        raise WaitsError(str(error)) from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
