"""A plugin of pytest that spoils one function: what it returns is 1 % too large, or the larger side of an inequality.

``RLNOTES_MUTATE`` holds its dotted name. Nothing else of the package has been imported by then, so every module that
imports the function gets the spoilt one.
"""

import dataclasses
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

FACTOR = 1.01


def spoilt(value: Any) -> Any:
    """``value`` times 1.01: a number, an array, a tensor, or a tuple or list of them. Of a bound, its penalties."""
    if hasattr(value, "penalties"):
        return dataclasses.replace(value, penalties={name: FACTOR * size for name, size in value.penalties.items()})
    if hasattr(value, "right"):
        return value._replace(right=FACTOR * value.right)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(spoilt, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(spoilt, value))
    if value is None or (getattr(value, "dtype", None) is not None and "float" not in str(value.dtype)):
        return value
    return FACTOR * value


def spoil(dotted: str) -> None:
    """Replace a function, or the call of a class that acts as one."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        break
    else:
        raise ModuleNotFoundError(dotted)
    for name in parts[cut:-1]:
        owner = getattr(owner, name)
    name = parts[-1]
    if isinstance(getattr(owner, name), type):
        owner, name = getattr(owner, name), "__call__"
    true: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(true)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return spoilt(true(*args, **kwargs))

    setattr(owner, name, wrapper)


spoil(os.environ["RLNOTES_MUTATE"])
