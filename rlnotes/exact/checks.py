"""What exact code asks of its arguments. Every error names the argument, the value, and the way out."""

from collections.abc import Sequence

import numpy as np

TOLERANCE = 1e-9  # on sums of probabilities


class SupportError(ValueError):
    """A behaviour policy gives probability 0 to something that the target policy does.

    >>> from rlnotes.exact.importance import weighted_moments
    >>> try:
    ...     weighted_moments(target=[0.5, 0.5], behavior=[1.0, 0.0], values=[1.0, 1.0])
    ... except SupportError as error:
    ...     print(str(error).split(":")[0])
    behavior[1] is 0 and target[1] is 0.5
    """


def finite(name: str, array: object, shape: Sequence[int | None] | None = None) -> np.ndarray:
    """``array`` as float64, without NaN or infinity, of the given shape (None: any length)."""
    values = np.asarray(array, dtype=np.float64)
    if shape is not None and (
        values.ndim != len(shape)
        or any(want not in (None, have) for have, want in zip(values.shape, shape, strict=True))
    ):
        wanted = "(" + ", ".join("any" if want is None else str(want) for want in shape) + ")"
        raise ValueError(f"{name} has shape {values.shape}; shape {wanted} is needed")
    bad = ~np.isfinite(values)
    if bad.any():  # first, for it is several times as fast as looking for where
        where = tuple(np.argwhere(bad)[0].tolist())
        raise ValueError(f"{_entry(name, where)} is {values[where]}; pass finite numbers")
    return values


def distribution(name: str, rows: object, shape: Sequence[int | None] | None = None) -> np.ndarray:
    """``rows`` as float64 probabilities: no negative entry, and sums of 1 along the last axis."""
    probs = finite(name, rows, shape)
    negative = probs < 0
    if negative.any():
        where = tuple(np.argwhere(negative)[0].tolist())
        raise ValueError(f"{name}{list(where)} is {probs[where]}; a probability cannot be negative")
    sums = probs.sum(-1)
    off = np.abs(sums - 1) > TOLERANCE
    if off.any():
        where = tuple(np.argwhere(off)[0].tolist())
        raise ValueError(
            f"{_entry(name, where)} sums to {sums[where]:.10g}; divide the row by its sum, or mend what made it"
        )
    return probs


def discount(gamma: float) -> float:
    """``gamma`` in [0, 1]."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma is {gamma}; the discount must lie in [0, 1]")
    return float(gamma)


def _entry(name: str, where: tuple[int, ...]) -> str:
    return f"{name}{list(where)}" if where else name
