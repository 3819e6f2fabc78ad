"""Whether this package's own kernels for a GPU can be used, and what they compute in."""

import os
from functools import cache
from importlib.util import find_spec
from shutil import which

import torch
from torch import Tensor


def usable(device: torch.device) -> bool:
    """On a GPU that Triton knows. Not where a second derivative may be asked for, which they do not have: there
    ``torch.nn.attention.sdpa_kernel`` forbids fused attention. And not within torch.compile, which makes its own.
    """
    if device.type != "cuda" or torch.compiler.is_compiling() or not torch.backends.cuda.flash_sdp_enabled():
        return False
    return _triton_works(device)


def roomy(device: torch.device) -> bool:
    """Whether a multiprocessor of this GPU has much shared memory: from 160 KB on, as A100, H100 and H200 have."""
    return torch.cuda.get_device_properties(device).shared_memory_per_multiprocessor >= 160_000


def longest_text(device: torch.device) -> int:
    """Tokens of a prompt or a response that attention can take in training: tiles of both must fit shared memory."""
    return 64 if roomy(device) else 32


def dtype_behind(x: Tensor) -> torch.dtype:
    """What a linear layer computes in that gets ``x``, a tensor on a GPU."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype


@cache
def _triton_works(device: torch.device) -> bool:
    """It comes with PyTorch for a GPU on Linux, needs a C compiler, and knows compute capability 7.0 and later."""
    compilers = (os.environ.get("CC", "gcc"), "gcc", "clang")
    if find_spec("triton") is None or not any(which(name) for name in compilers):
        return False
    return torch.cuda.get_device_capability(device) >= (7, 0)
