"""Half precision: what comes in float16 or bfloat16 is computed in float32, and comes out in float32.

A float16 has no eps of 1e-8 (a group of equal rewards is then 0 / 0) and nothing above 65504 (a ratio of e^12).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from array_api_compat import array_namespace, is_array_api_obj

P = ParamSpec("P")
R = TypeVar("R")


def widened(value: Any) -> Any:
    """``value`` in float32 if it is an array of shorter floats, with its gradient; anything else is returned as it is.

    >>> import numpy as np
    >>> [widened(np.ones(2, kind)).dtype.name for kind in ("float16", "float32", "float64", "int16")]
    ['float32', 'float32', 'float64', 'int16']
    """
    if not is_array_api_obj(value):
        return value
    xp = array_namespace(value)
    short = xp.isdtype(value.dtype, "real floating") and xp.finfo(value.dtype).bits < 32
    return xp.astype(value, xp.float32) if short else value


def at_least_float32(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, to which arrays of float16 or bfloat16 come :func:`widened`; so what it makes of them is float32.

    >>> import numpy as np
    >>> exp = at_least_float32(lambda x: np.exp(x))
    >>> print(exp(np.float16(12)).round(-3))  # more than a float16 can hold
    163000.0
    """

    @wraps(function)
    def wide(*args: P.args, **named: P.kwargs) -> R:
        return function(*map(widened, args), **{name: widened(value) for name, value in named.items()})

    return wide
