"""DAPO's parts outside the loss, 002 section 5.4.2: what is added to rewards, and which groups to train on."""

from dataclasses import dataclass
from typing import Any, Literal

from array_api_compat import array_namespace

from rlnotes.estimators.baselines import group_mean, in_groups
from rlnotes.exact.precision import at_least_float32

Array = Any  # a NumPy array or a torch tensor


@dataclass(frozen=True)
class OverlongPenalty:
    """A penalty that grows over the last ``buffer`` tokens before ``max_length``, to be added to the reward.

    0 up to ``max_length - buffer``, then falling on a straight line to -1 at ``max_length``. Beyond it TRL and OpenRLHF
    stay at -1 (``floor``), verl goes on falling. Where the sampler stops at ``max_length`` the two are the same.

    >>> import numpy as np
    >>> print(OverlongPenalty(max_length=20, buffer=4)(np.array([10, 16, 17, 20, 30])))
    [ 0.    0.   -0.25 -1.   -1.  ]
    """

    max_length: int
    buffer: int
    floor: bool = True

    def __post_init__(self):
        if not 0 < self.buffer <= self.max_length:
            raise ValueError(f"buffer is {self.buffer}; it must be at least 1 and at most max_length {self.max_length}")

    @at_least_float32
    def __call__(self, lengths: Array) -> Array:
        """Penalties (N,), at most 0, of responses of ``lengths`` (N,) tokens."""
        xp = array_namespace(lengths)
        penalty = (self.max_length - self.buffer - lengths) / self.buffer
        return xp.clip(penalty, -1.0 if self.floor else None, 0.0)


@at_least_float32
def informative(rewards: Array, group_size: int, rule: Literal["std", "mean"] = "std", threshold: float = 0.0) -> Array:
    """(N,) bool: True where a response's group has a signal, for dynamic sampling: 002 section 5.4.2.

    ``"std"``: the sample standard deviation of the group's rewards is above ``threshold``; 0 means that they are not
    all equal (slime has 1e-6). ``"mean"``: the mean is strictly between 0 and 1 (OpenRLHF), which is the same for
    rewards of 0 and 1, and for no others: it keeps four rewards of 0.3 and drops -1, 1, -1, -1.

    >>> import numpy as np
    >>> print(informative(np.array([1.0, 0.0, 1.0, 1.0]), group_size=2))
    [ True  True False False]
    """
    xp = array_namespace(rewards)
    groups = in_groups(rewards, group_size)
    if rule == "std":
        centred = xp.reshape(group_mean(rewards, group_size), groups.shape)
        keep = xp.sqrt(xp.sum(centred**2, axis=1, keepdims=True) / (group_size - 1)) > threshold
    elif rule == "mean":
        mean = xp.mean(groups, axis=1, keepdims=True)
        keep = (mean > 0) & (mean < 1)
    else:
        raise ValueError(f"rule is {rule!r}; choose 'std' or 'mean'")
    return xp.reshape(xp.broadcast_to(keep, groups.shape), rewards.shape)
