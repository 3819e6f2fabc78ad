"""What estimators ask of their arrays, NumPy or torch. Every error names the argument, the index, and the way out."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from array_api_compat import array_namespace

Array = Any  # a NumPy array or a torch tensor

_ERROR = 2  # torch's number for the mode "error"
_UNREAD = ContextVar("unread", default=False)
TOLERANCE = 1e-3  # above 0, for log-probabilities: what float32 rounding may leave


def require(name: str, values: Array, ok: Array, advice: str, error: type[ValueError] = ValueError) -> None:
    """Raise ``error`` with ``advice`` for the first of ``values`` where ``ok``, of the same shape, is False."""
    xp = array_namespace(values)
    if not readable(ok) or bool(xp.all(ok)):
        return
    where = [int(axis[0]) for axis in xp.nonzero(~ok)] if ok.ndim else []
    raise error(f"{name}{where or ''} is {values[tuple(where)].item():.6g}; {advice}")


def readable(array: Array) -> bool:
    """False where no value of ``array`` may be asked for: on a GPU while a CUDA graph is captured, when there are no
    values yet, or while waiting for the GPU is forbidden (``torch.cuda.set_sync_debug_mode("error")``); and within
    :func:`unread`.

    Checks of values are then left out; whoever captures has to find out by other means what they would find.
    """
    if _UNREAD.get():
        return False
    if not getattr(array, "is_cuda", False):
        return True
    from torch import cuda  # only here: estimators take NumPy arrays without torch

    return not cuda.is_current_stream_capturing() and cuda.get_sync_debug_mode() < _ERROR


@contextmanager
def unread() -> Iterator[None]:
    """Leave out checks of values: within ``torch.vmap`` there are none to ask for, and of many runs in one batch a bad
    one must not stop the others.
    """
    before = _UNREAD.set(True)
    try:
        yield
    finally:
        _UNREAD.reset(before)


def same_shape(**arrays: Array) -> None:
    """Raise ``ValueError`` unless the arrays, given by their names, have one shape.

    (N, 1) against (N,) broadcasts to (N, N), and a mean then hides it.
    """
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if shape != shapes[first]:
            raise ValueError(
                f"{first} has shape {shapes[first]} and {name} has shape {shape}; give them one shape, for example "
                "with reshape: broadcasting would pair every entry of one with every entry of the other"
            )


def finite(name: str, values: Array) -> None:
    """Raise ``ValueError`` unless ``values`` are finite floats."""
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, "real floating"):
        raise ValueError(f"{name} has dtype {values.dtype}; pass floating-point numbers")
    require(name, values, xp.isfinite(values), "pass finite numbers")


def boolean(name: str, values: Array) -> None:
    """Raise ``ValueError`` unless ``values`` has dtype bool, so that ``~`` means not."""
    if not array_namespace(values).isdtype(values.dtype, "bool"):
        raise ValueError(f"{name} has dtype {values.dtype}; pass bool, for example {name} != 0")


def log_probs(name: str, values: Array) -> None:
    """Raise ``ValueError`` unless ``values`` are log-probabilities: at most 0, not NaN; -inf is allowed."""
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, "real floating"):
        raise ValueError(f"{name} has dtype {values.dtype}; pass floating-point numbers")
    require(name, values, values <= TOLERANCE, "a log-probability is at most 0; pass logarithms, free of NaN")


def actions(name: str, values: Array, rows: Array) -> None:
    """Raise ``ValueError`` unless ``values`` (...,) are one index for each of ``rows`` (..., V)."""
    xp = array_namespace(rows)
    if not xp.isdtype(values.dtype, "integral") or tuple(values.shape) != tuple(rows.shape[:-1]):
        raise ValueError(
            f"{name} has dtype {values.dtype} and shape {tuple(values.shape)}; "
            f"one integer per row is needed, of shape {tuple(rows.shape[:-1])}"
        )
    size = rows.shape[-1]
    require(name, values, (values >= 0) & (values < size), f"pass an index from 0 to {size - 1}")
