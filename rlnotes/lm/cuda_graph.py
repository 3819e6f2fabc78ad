"""Work on a GPU, recorded once and replayed: one launch in the place of thousands."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

REHEARSALS = 3  # so that libraries have set themselves up, and kernels are chosen


class WaitsError(RuntimeError):
    """The work waits for the GPU somewhere, to read a value or a shape: a graph cannot."""


def captured(work: Callable[[], Tensor], generator: torch.Generator) -> Callable[[], Tensor]:
    """A function that does ``work`` again by replaying a graph of it, and returns the same tensor each time, refilled.

    ``work`` takes everything from tensors that stay where they are, and all its random numbers from ``generator``; the
    replays go on drawing from it, the numbers that the work itself would draw. It is rehearsed before, which must
    change nothing that lasts. ``generator`` is then as it was. Raises :class:`WaitsError` if the work waits for the
    GPU, ``RuntimeError`` if the recording fails for another reason.
    """
    with torch.cuda.device(generator.device):
        _rehearse(work, generator)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            result = work()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def _rehearse(work: Callable[[], Tensor], generator: torch.Generator) -> None:
    """Do ``work`` on a stream beside the usual one, as recording will."""
    state, usual, beside = generator.get_state(), torch.cuda.current_stream(), torch.cuda.Stream()
    beside.wait_stream(usual)
    try:
        with torch.cuda.stream(beside), _waiting_forbidden():
            for _ in range(REHEARSALS):
                work()
    finally:
        usual.wait_stream(beside)
        generator.set_state(state)


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
