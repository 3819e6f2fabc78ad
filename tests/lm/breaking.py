"""An objective that breaks on the way."""

from torch import Tensor

from rlnotes.objectives import Choices


class Breaking:
    """A gate that gives no number the time after it was used ``after`` times, and numbers again from then on."""

    def __init__(self, after: int):
        self.left = after

    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        self.left -= 1
        return ratio * advantages * (float("nan") if self.left == -1 else 1.0)


def breaking(after: int) -> Choices:
    """Plain importance weights but for one update, behind ``after`` others: its gradient is not finite."""
    return Choices(gate=Breaking(after))
