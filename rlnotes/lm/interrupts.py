"""Interrupts that wait until the work in hand is whole.

Python raises ``KeyboardInterrupt`` wherever it happens to be: between two halves of an optimiser step, or inside a
queue whose lock then stays shut for ever.
"""

import signal
import threading
from types import TracebackType
from typing import Any


class HeldInterrupts:
    """``with held: work()`` lets the work finish when the user interrupts; ``held.deliver()`` then raises.

    A second interrupt is not held back. Inside another hold, outside the main thread, where Python delivers no
    signals, and where interrupts are ignored, as in what a shell script starts with ``&``, nothing changes.
    """

    def __init__(self):
        self.pending = False
        self._before: Any = None

    def _hold(self, *_: Any) -> None:
        self.pending = True
        signal.signal(signal.SIGINT, self._before)

    def __enter__(self) -> None:
        current = signal.getsignal(signal.SIGINT)
        held_already = isinstance(getattr(current, "__self__", None), HeldInterrupts)
        heard = current not in (signal.SIG_IGN, None)  # None: somebody's who is not Python
        if threading.current_thread() is threading.main_thread() and heard and not held_already:
            self._before = current  # known before the handler can be called
            signal.signal(signal.SIGINT, self._hold)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def deliver(self) -> None:
        """Raise ``KeyboardInterrupt`` if one came during the work."""
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt
