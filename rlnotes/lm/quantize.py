"""Rounding to a narrow number format and back, so that a float32 model computes with what the format can hold."""

import torch
from torch import Tensor

from rlnotes.estimators.checks import readable
from rlnotes.lm.config import RolloutWeights

GROUP = 32  # numbers of a row that share a scale, as in files of few bits
_LARGEST = {"float8": 448.0, "int8": 127.0, "int4": 7.0}  # of the format; the scale of a row takes its largest there


def fake_quantized(weight: Tensor, kind: RolloutWeights, name: str = "weight") -> Tensor:
    """``weight`` (..., n) rounded to ``kind``, in float32 again. ``name`` is what an error calls it.

    | ``kind`` | what can be held |
    |---|---|
    | ``"float32"`` | everything: nothing changes |
    | ``"bfloat16"`` | 8 significant bits, no scale |
    | ``"float8"`` | e4m3: 4 significant bits, largest 448, times the row's scale |
    | ``"int8"``, ``"int4"`` | the integers from -127 to 127, from -7 to 7, times the row's scale |

    A row is the last axis: for the weight of a linear layer, one output. Its scale takes its largest entry to the
    format's largest number, both signs alike; no entry is cut off. Everything is rounded to the nearest number, so
    rounding again changes nothing. Raises ``ValueError`` if an entry is NaN or infinite.
    """
    if readable(weight) and not bool(torch.isfinite(weight).all()):
        raise ValueError(
            f"{name} holds NaN or infinity, which no format can hold: the weights have diverged, so go back to the "
            "last checkpoint with a smaller learning rate"
        )
    return rounded(weight, kind).float()


def rounded(values: Tensor, kind: RolloutWeights) -> Tensor:
    """:func:`fake_quantized` without its check, for what a pass computes: a NaN stays one, and its row with it."""
    if kind == "float32":
        return values
    if kind == "bfloat16":
        return values.to(torch.bfloat16).float()
    # in float64 a scale times a code gives a float32 number back exactly: without it, rounding twice would drift
    wide = values.double()
    scale = wide.abs().amax(-1, keepdim=True) / _LARGEST[kind]
    codes = wide / scale.where(scale != 0, 1.0)  # a row of zeros stays one
    codes = codes.float().to(torch.float8_e4m3fn).double() if kind == "float8" else codes.round()
    return (codes * scale).float()


def cells(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Smallest value and step, both (rows, groups, 1), of the grid of 2^bits values from the smallest to the largest of
    each group of 32 numbers of ``weight`` (rows, n).

    Raises ``ValueError`` for rows that are no multiple of 32 long.
    """
    if weight.shape[-1] % GROUP:
        raise ValueError(
            f"a weight has rows of {weight.shape[-1]} numbers, no multiple of {GROUP}, the size of a group; take a "
            "model of another width, or weights that are not rounded in groups"
        )
    groups = weight.unflatten(-1, (-1, GROUP))
    low = groups.amin(-1, keepdim=True)
    return low, (groups.amax(-1, keepdim=True) - low) / (2**bits - 1)


def rounded_in_groups(weight: Tensor, bits: int) -> Tensor:
    """``weight`` (rows, n), each number at the nearest of the values that :func:`cells` gives its group.

    >>> rounded_in_groups(torch.arange(32.0)[None], bits=1).unique()
    tensor([ 0., 31.])
    """
    low, step = cells(weight, bits)
    groups = weight.unflatten(-1, (-1, GROUP))
    return (low + ((groups - low) / step.where(step > 0, 1.0)).round() * step).flatten(-2)
