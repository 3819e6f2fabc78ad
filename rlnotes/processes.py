"""Starting processes that end with their parent, and saying how one ended."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ignored_interrupts() -> Iterator[None]:
    """No interrupts meanwhile, in the main thread; in another one Python does not let us say so.

    A process that is started meanwhile ignores them from its first moment on, its imports included: it inherits that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ending(exitcode: int | None) -> str:
    """How a process ended that did not end well, for a sentence that begins with its name."""
    if exitcode is not None and exitcode < 0:
        return f"was killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    return (
        f"ended with exit code {exitcode}, and its message stands on stderr; "
        'if this is a script, put the call under if __name__ == "__main__":'
    )
