"""Advantages without a critic: what a response's reward is compared with.

Every function takes ``rewards`` (N,), the G rewards of a prompt standing together, and returns advantages (N,).
They raise ``ValueError`` for a group of one (nothing to compare with), for N that is no multiple of G, and for
rewards that are not finite.
"""

from typing import Any

from array_api_compat import array_namespace

from rlnotes.estimators.checks import readable
from rlnotes.exact.precision import at_least_float32

Array = Any  # a NumPy array or a torch tensor


@at_least_float32
def in_groups(rewards: Array, group_size: int) -> Array:
    """``rewards`` (N,) as (N / G, G), checked."""
    xp = array_namespace(rewards)
    n = rewards.shape[0]
    if rewards.ndim != 1:
        raise ValueError(f"rewards has shape {tuple(rewards.shape)}; one reward per response, (N,), is needed")
    if group_size < 2:
        raise ValueError(
            f"group_size is {group_size}: a group of one has no other response to be compared with; "
            "sample at least two responses per prompt"
        )
    if n == 0 or n % group_size:
        raise ValueError(
            f"{n} rewards do not make whole groups of group_size {group_size}; pass the rewards of whole groups"
        )
    if not xp.isdtype(rewards.dtype, "real floating"):
        raise ValueError(f"rewards has dtype {rewards.dtype}; pass real numbers, for example rewards.float()")
    if readable(rewards) and not bool(xp.all(xp.isfinite(rewards))):
        raise ValueError("rewards holds NaN or infinity; mend the reward function before training on it")
    return xp.reshape(rewards, (n // group_size, group_size))


@at_least_float32
def no_baseline(rewards: Array, group_size: int) -> Array:
    """The reward itself: the plain policy gradient, 002 eq. (39). Unbiased, and noisier than with a baseline.

    >>> import numpy as np
    >>> print(no_baseline(np.array([1.0, 0.0]), 2))
    [1. 0.]
    """
    in_groups(rewards, group_size)  # for its checks
    return rewards


@at_least_float32
def group_mean(rewards: Array, group_size: int) -> Array:
    """Reward minus the group's mean: Dr. GRPO, 002 eq. (98).

    A group of equal rewards gets exact zeros, also where the mean of equal floats is not that float.

    >>> import numpy as np
    >>> print(group_mean(np.array([1.0, 0.0, 0.0, 0.0]), 4))
    [ 0.75 -0.25 -0.25 -0.25]
    """
    xp = array_namespace(rewards)
    groups = in_groups(rewards, group_size)
    centred = groups - xp.mean(groups, axis=1, keepdims=True)
    equal = xp.min(groups, axis=1, keepdims=True) == xp.max(groups, axis=1, keepdims=True)
    return xp.reshape(xp.where(equal, xp.zeros_like(centred), centred), rewards.shape)


@at_least_float32
def group_mean_std(rewards: Array, group_size: int, ddof: int = 0, eps: float = 1e-8, eps_inside: bool = True) -> Array:
    """Reward minus the group's mean, over the group's standard deviation: GRPO, 002 eqs. (90), (91).

    The defaults are the source's: population standard deviation (``ddof=0``) and ``eps`` inside the root. Six
    production libraries use ``ddof=1, eps_inside=False`` with ``eps`` from 1e-9 to 1e-4, which makes every
    advantage smaller by sqrt((G - 1) / G).

    >>> import numpy as np
    >>> print(group_mean_std(np.array([1.0, 0.0, 0.0, 0.0]), 4).round(3))  # std sqrt(3) / 4
    [ 1.732 -0.577 -0.577 -0.577]
    """
    xp = array_namespace(rewards)
    groups = in_groups(rewards, group_size)
    if not (0 <= ddof < group_size and eps > 0):
        raise ValueError(f"ddof is {ddof} and eps is {eps}; ddof must be below group_size {group_size}, eps positive")
    centred = xp.reshape(group_mean(rewards, group_size), groups.shape)
    variance = xp.sum(centred**2, axis=1, keepdims=True) / (group_size - ddof)
    scale = xp.sqrt(variance + eps) if eps_inside else xp.sqrt(variance) + eps
    return xp.reshape(centred / scale, rewards.shape)


@at_least_float32
def group_mean_batch_std(rewards: Array, group_size: int, ddof: int = 1, eps: float = 1e-4) -> Array:
    """Reward minus the group's mean, over the standard deviation of all N rewards of the batch.

    TRL's ``scale_rewards="batch"``. Every group is divided by the same number, so a hard prompt weighs no more
    than an easy one.

    >>> import numpy as np
    >>> print(group_mean_batch_std(np.array([1.0, 0.0, 1.0, 1.0]), 2).round(3))  # std 1/2
    [ 1. -1.  0.  0.]
    """
    xp = array_namespace(rewards)
    centred = group_mean(rewards, group_size)  # first, for it checks the rewards
    variance = xp.sum((rewards - xp.mean(rewards)) ** 2) / (rewards.shape[0] - ddof)
    return centred / (xp.sqrt(variance) + eps)


@at_least_float32
def leave_one_out(rewards: Array, group_size: int) -> Array:
    """Reward minus the mean of the group's *other* rewards (RLOO): G / (G - 1) times :func:`group_mean`.

    >>> import numpy as np
    >>> print(leave_one_out(np.array([1.0, 0.0, 0.0, 0.0]), 4).round(3))
    [ 1.    -0.333 -0.333 -0.333]
    """
    return group_mean(rewards, group_size) * (group_size / (group_size - 1))
