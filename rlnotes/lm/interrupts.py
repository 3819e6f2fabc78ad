"""Interrupts that wait for the step in hand."""

import signal
import threading
from types import TracebackType
from typing import Any


class HeldInterrupts:
    """``with held: step()`` lets the step finish when the user interrupts; ``held.deliver()`` then raises.

    A second interrupt is not held back. Outside the main thread, where Python delivers no signals, nothing changes.
    """

    def __init__(self):
        self._interrupted = False
        self._before: Any = None

    def _hold(self, *_: Any) -> None:
        self._interrupted = True
        signal.signal(signal.SIGINT, self._before)

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)  # known before the handler can be called
            signal.signal(signal.SIGINT, self._hold)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def deliver(self) -> None:
        """Raise ``KeyboardInterrupt`` if one came during the step."""
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
