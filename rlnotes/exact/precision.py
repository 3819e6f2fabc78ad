"""Half precision: what comes in float16 or bfloat16 is computed in float32, and comes out in float32.

A float16 has no eps of 1e-8 (a group of equal rewards is then 0 / 0) and nothing above 65504 (a ratio of e^12).
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from array_api_compat import array_namespace

F = TypeVar("F", bound=Callable[..., Any])


def widened(value: Any) -> Any:
    """``value`` in float32 if it is an array of either, with its gradient; anything else is returned as it is.

    >>> import numpy as np
    >>> [widened(np.ones(2, kind)).dtype.name for kind in ("float16", "float32", "float64", "int16")]
    ['float32', 'float32', 'float64', 'int16']
    """
    if not _is_short(getattr(value, "dtype", None)):
        return value
    xp = array_namespace(value)
    return xp.astype(value, xp.float32)


@cache  # NumPy takes long to name a dtype
def _is_short(dtype: Any) -> bool:
    return str(dtype).removeprefix("torch.") in ("float16", "bfloat16")


def at_least_float32(function: F) -> F:
    """``function``, to which arrays of float16 or bfloat16 come :func:`widened`; so what it makes of them is float32.

    >>> import numpy as np
    >>> exp = at_least_float32(lambda x: np.exp(x))
    >>> print(exp(np.float16(12)).round(-3))  # more than a float16 can hold
    163000.0
    """

    @wraps(function)
    def wide(*args: Any, **named: Any) -> Any:
        return function(*map(widened, args), **{name: widened(value) for name, value in named.items()})

    return cast(F, wide)
