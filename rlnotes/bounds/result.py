"""What a bound says, beside the truth: the one result type of all improvement bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-10  # what rounding may take from an inequality, absolute and relative


@dataclass(frozen=True)
class Bound:
    """The claim ``true`` >= ``surrogate`` - the sum of ``penalties``, on one model, in units of its return.

    ``true``: J(new) - J(old). ``surrogate``: L, without J(old). ``penalties``: by name, in the order of the source; one
    may be infinite. ``floor``: the smallest change that is possible at all.

    >>> bound = Bound("a claim", true=-0.25, surrogate=0, penalties={"P": 0.5}, floor=-1)
    >>> bound.lower, bound.holds, bound.vacuous, bound.tightness
    (-0.5, True, False, 0.5)
    """

    name: str
    true: float
    surrogate: float
    penalties: Mapping[str, float]
    floor: float

    @property
    def penalty(self) -> float:
        """The sum of the penalties."""
        return float(sum(self.penalties.values()))

    @property
    def lower(self) -> float:
        """What the bound promises at least."""
        return self.surrogate - self.penalty

    @property
    def holds(self) -> bool:
        """Whether the truth keeps the promise, to ``TOLERANCE``."""
        return self.lower <= self.true + TOLERANCE * (1 + abs(self.true) + abs(self.surrogate))

    @property
    def vacuous(self) -> bool:
        """Whether the promise is kept by every policy there is."""
        return self.lower <= self.floor

    @property
    def tightness(self) -> float:
        """How much of the penalty is used up: (surrogate - true) / penalty, at most 1 where the bound holds.

        1 means attained, below 0 that the surrogate was too modest. NaN where the penalty is 0.
        """
        return (self.surrogate - self.true) / self.penalty if self.penalty else math.nan


class Inequality(NamedTuple):
    """A claim ``left`` <= ``right`` that is not about an improvement: two numbers, or arrays of one shape.

    >>> claim = Inequality(left=1.0, right=2.0)
    >>> claim.holds, claim.tightness
    (True, 0.5)
    """

    left: float | np.ndarray
    right: float | np.ndarray

    @property
    def holds(self) -> bool:
        """Whether it does everywhere, to ``TOLERANCE``."""
        return bool(np.all(np.asarray(self.left) <= np.asarray(self.right) + TOLERANCE * (1 + np.abs(self.left))))

    @property
    def tightness(self) -> float:
        """The largest ``left`` / ``right``; NaN where every ``right`` is 0."""
        left, right = np.broadcast_arrays(np.asarray(self.left, dtype=np.float64), self.right)
        return float((left[right > 0] / right[right > 0]).max()) if (right > 0).any() else math.nan
