"""What closed forms ask of their arguments, which may be numbers or arrays."""

import numpy as np

Numbers = float | np.ndarray


def amount(name: str, values: Numbers) -> np.ndarray:
    """``values``, none of them negative or NaN."""
    checked = np.asarray(values, dtype=np.float64)
    if not (checked >= 0).all():
        raise ValueError(f"{name} is {values}; it must be 0 or more")
    return checked


def total_variation(name: str, values: Numbers) -> np.ndarray:
    """``values`` in [0, 1], with what rounding left above 1 cut off."""
    checked = amount(name, values)
    if (checked > 1 + 1e-9).any():
        raise ValueError(f"{name} is {values}; a total variation is at most 1")
    return np.minimum(checked, 1.0)
