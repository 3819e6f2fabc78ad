"""Rollouts that wait to be learned from, and the window that bounds how old they may be: 000 section 7.4."""

from collections import deque

from rlnotes.lm.rollout import Rollout


class RolloutQueue:
    """First in, first out, save for what is too old.

    ``window`` W: a rollout is given out while its oldest token is at most W updates behind. ``capacity``: how many
    rollouts wait at most; one more pushes out the oldest (None: no limit). What is dropped is counted: ``wasted``
    responses and ``wasted_tokens`` so far. No threads, no locks: one process puts and gets.
    Raises ``ValueError`` for a negative window and for no capacity.
    """

    def __init__(self, window: int, capacity: int | None = None):
        if window < 0:
            raise ValueError(f"window is {window}; it is a number of updates, 0 (only the newest weights) or more")
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1, or None for no limit")
        self.window, self.capacity = window, capacity
        self.wasted = 0
        self.wasted_tokens = 0
        self._waiting: deque[Rollout] = deque()

    def __len__(self) -> int:
        """Rollouts that wait, too old ones included: how old they are is known when one is asked for."""
        return len(self._waiting)

    def put(self, rollout: Rollout) -> None:
        """Add ``rollout`` at the end."""
        if len(self._waiting) == self.capacity:
            self._drop(self._waiting.popleft())
        self._waiting.append(rollout)

    def get(self, version: int) -> Rollout | None:
        """The first rollout inside the window, for weights that are ``version`` updates old; None if there is none.

        Those before it are dropped: they will only grow older. Raises ``ValueError`` for a rollout from the future.
        """
        while self._waiting:
            rollout = self._waiting.popleft()
            written = rollout.version[rollout.mask]
            newest = int(written.max())
            if newest > version:
                raise ValueError(f"version is {version}, and a token was written by {newest}: pass the newest version")
            if version - int(written.min()) <= self.window:
                return rollout
            self._drop(rollout)
        return None

    def _drop(self, rollout: Rollout) -> None:
        self.wasted += len(rollout.tokens)
        self.wasted_tokens += int(rollout.mask.sum())
