"""What the tests of array code share: both libraries, and how to make and differentiate their arrays."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

from tests.cases import cases

tried = settings(derandomize=True, deadline=None, max_examples=cases())
both = pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])


def array(xp: Any, values: Any) -> Any:
    """``values`` as float64 of the library ``xp``."""
    return xp.asarray(values, dtype=xp.float64)


def log(xp: Any, probs: Any) -> Any:
    """Logarithms of ``probs``, -inf for 0 without a warning."""
    with np.errstate(divide="ignore"):
        return array(xp, np.log(np.asarray(probs, dtype=np.float64)))


def log_softmax(logits: Tensor) -> Tensor:
    """Along the last axis."""
    return logits.log_softmax(-1)


def gradient_of(value: Tensor, logits: Tensor) -> Tensor:
    """The gradient of the sum of ``value``."""
    return torch.autograd.grad(value.sum(), logits)[0]
