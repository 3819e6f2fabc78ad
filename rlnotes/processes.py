"""Starting processes that end with their parent, and saying how one ended."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait


@contextlib.contextmanager
def ignored_interrupts() -> Iterator[None]:
    """No interrupts meanwhile, in the main thread; in another one Python does not let us say so.

    A process that is started meanwhile ignores them from its first moment on, its imports included: it inherits that.
    """
    with _interrupts(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def uncaught_interrupts() -> Iterator[None]:
    """An interrupt ends this process at once meanwhile, if it would not be ignored: for work outside of Python, which
    would hold it back.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with _interrupts(signal.SIG_IGN if ignored else signal.SIG_DFL):
        yield


@contextlib.contextmanager
def _interrupts(action: signal.Handlers) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_with_parent() -> None:
    """End this process, which multiprocessing started, when its parent dies: a worker of a pool would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), name="rlnotes parent", daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # whatever the other threads are doing


def ending(exitcode: int | None) -> str:
    """How a process ended that did not end well, for a sentence that begins with its name."""
    if exitcode is not None and exitcode < 0:
        return f"was killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    return (
        f"ended with exit code {exitcode}, and its message stands on stderr; "
        'if this is a script, put the call under if __name__ == "__main__":'
    )


def world_size() -> int:
    """How many processes share the work, as torchrun tells in the environment; 1 if nothing does."""
    return number_of_environment("WORLD_SIZE", 1, least=1)


def number_of_environment(name: str, default: int | None = None, least: int = 0) -> int:
    """The whole number in the environment variable ``name``, which torchrun sets.

    Raises ``ValueError`` for something else, and without it where there is no ``default``.
    """
    text = os.environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.strip().isdecimal() or int(text) < least:
        raise ValueError(
            f"{name} is {text!r} in the environment, where torchrun sets a number, {least} or more: start several "
            "processes with torchrun, or unset WORLD_SIZE and work in one"
        )
    return int(text)
