"""Choice 3: what limits how far a token may push. And what corrects for a sampler that is not the trainer.

``low`` and ``high``, in this order, are the ends of the ratios that are kept; an ``epsilon`` is a distance from 1.
A gate takes ratios (N, T) and advantages (N, T) and returns the surrogate (N, T) to be *maximised*, through whose
ratios the gradient flows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from rlnotes.exact.precision import at_least_float32
from rlnotes.objectives.batch import Policy
from rlnotes.objectives.ratios import token


class Gate(Protocol):
    """The surrogate of each token."""

    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """(N, T) and (N, T) to (N, T)."""
        ...


@at_least_float32
def no_gate(ratio: Tensor, advantages: Tensor) -> Tensor:
    """Ratio times advantage: importance sampling without a limit.

    >>> no_gate(torch.tensor([1.5]), torch.tensor([-2.0]))
    tensor([-3.])
    """
    return ratio * advantages


@dataclass(frozen=True)
class Clip:
    """min(r A, clip(r, 1 - epsilon_low, 1 + epsilon_high) A): PPO's clip, 002 eqs. (96), (101).

    ``dual`` is the dual clip: where A < 0 the surrogate is at least ``dual`` times A, so that a huge ratio pushes
    no more. verl has it on at 3; TRL calls it ``delta``.

    >>> ratio, A = torch.tensor([0.5, 1.5, 0.5, 1.5]), torch.tensor([1.0, 1.0, -1.0, -1.0])
    >>> Clip(0.2, 0.2)(ratio, A)  # of the smaller two, 1.2 and -0.8 are clipped
    tensor([ 0.5000,  1.2000, -0.8000, -1.5000])
    """

    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    dual: float | None = None

    def __post_init__(self):
        if not (0 <= self.epsilon_low <= 1 and self.epsilon_high >= 0):
            raise ValueError(
                f"epsilon_low is {self.epsilon_low} and epsilon_high is {self.epsilon_high}; the first must be in "
                "[0, 1] and the second not negative"
            )
        if self.dual is not None and self.dual <= 1 + self.epsilon_high:
            raise ValueError(f"dual is {self.dual}; it must be greater than 1 + epsilon_high = {1 + self.epsilon_high}")

    @at_least_float32
    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The clipped surrogate of each token."""
        clipped = ratio.clamp(1 - self.epsilon_low, 1 + self.epsilon_high)
        surrogate = torch.minimum(ratio * advantages, clipped * advantages)
        if self.dual is None:
            return surrogate
        return torch.where(advantages < 0, torch.maximum(surrogate, self.dual * advantages), surrogate)

    @at_least_float32
    def closed(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """Where the surrogate has no gradient: bool, in the shape of both.

        >>> Clip(0.2, 0.2).closed(torch.tensor([0.5, 1.5, 0.5, 1.5]), torch.tensor([1.0, 1.0, -1.0, -1.0]))
        tensor([False,  True,  True, False])
        """
        good, bad = ratio > 1 + self.epsilon_high, ratio < 1 - self.epsilon_low
        if self.dual is not None:
            bad = bad | (ratio > self.dual)
        return (advantages > 0) & good | (advantages < 0) & bad


@dataclass(frozen=True)
class ClipAround:
    """min(r A, clip(r, c - epsilon, c + epsilon) A) around a centre c = pi_k / mu, for r = pi / mu: 000 section 7.2,
    Method 1.

    What is limited is the move since pi_k, counted in probability over mu's: |pi - pi_k| <= epsilon mu. The gate is
    :meth:`around` its centre, which ``policy_loss`` finds at the level of the ratio, for each token or response.

    >>> gate = ClipAround(0.2).around(torch.tensor([8.0]))
    >>> gate(torch.tensor([8.5]), torch.tensor([1.0]))
    tensor([8.2000])
    """

    epsilon: float = 0.2
    needs_proximal = True

    def __post_init__(self):
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must not be negative")

    @at_least_float32
    def around(self, center: Tensor) -> Gate:
        """The gate whose interval is ``epsilon`` either way of ``center`` (N, T)."""
        low, high = center - self.epsilon, center + self.epsilon

        @at_least_float32
        def clip(ratio: Tensor, advantages: Tensor) -> Tensor:
            return torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)

        return clip


@dataclass(frozen=True)
class Cap:
    """The ratio as a weight without a gradient of its own, kept in [low, high]: 004 eq. (23) with C = ``high``.

    The gradient is clamp(r) A grad log pi: never 0, unlike that of :class:`Clip`, and never more than ``high`` A.
    CISPO, truncated importance sampling, PG-TIS. TRL's ``epsilon_high`` is ``high`` itself; verl and slime write
    ``high`` as 1 + epsilon. The value is clamp(r) A, where libraries that write the loss as -sg(weight) A log pi have
    another one.

    >>> ratio = torch.tensor([0.5, 8.0], requires_grad=True)
    >>> Cap(high=2.0)(ratio, torch.tensor([1.0, 1.0])).sum().backward()
    >>> ratio.grad * ratio.detach()  # by log pi
    tensor([0.5000, 2.0000])
    """

    low: float = 0.0
    high: float = math.inf

    def __post_init__(self):
        if not 0 <= self.low <= self.high:
            raise ValueError(f"low is {self.low} and high is {self.high}; 0 <= low <= high is needed")

    @at_least_float32
    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The capped surrogate of each token."""
        weight = (ratio.clamp(self.low, self.high) / ratio).detach()
        return weight * ratio * advantages


@dataclass(frozen=True)
class Soft:
    """(4 / tau) sigmoid(tau (r - 1)) A, with a tau for each sign of A: SAPO, 002 eqs. (117) to (119).

    The gradient is that of r A times 4 s (1 - s), s the sigmoid: 1 at r = 1, and close to 0 far from it, on either
    side and for either sign of A. At ratio 1 the value is (2 / tau) A, not A.

    >>> ratio = torch.tensor([1.0, 8.0], requires_grad=True)
    >>> Soft(1.0, 1.05)(ratio, torch.tensor([1.0, -1.0])).sum().backward()
    >>> ratio.grad.round(decimals=3)  # without a gate 1 and -1
    tensor([ 1.0000, -0.0030])
    """

    tau_positive: float = 1.0
    tau_negative: float = 1.05

    def __post_init__(self):
        if not (self.tau_positive > 0 and self.tau_negative > 0):
            raise ValueError(
                f"tau_positive is {self.tau_positive} and tau_negative is {self.tau_negative}; both must be positive"
            )

    @at_least_float32
    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The soft surrogate of each token."""
        positive, negative = (4 / tau * (tau * (ratio - 1)).sigmoid() for tau in (self.tau_positive, self.tau_negative))
        return torch.where(advantages > 0, positive, negative) * advantages


@dataclass(frozen=True)
class SoftOneSided(Soft):
    """:class:`Soft` where a token moves away (A > 0 and r > 1, or A < 0 and r < 1), r A where it comes back.

    Elementary, derived for this course. The soft branch is shifted so that both are A at r = 1, where their slopes
    agree too. The surrogate is then the smaller of the two everywhere, as :class:`Clip` is the smaller of its two; and
    what comes back has the weight r of plain importance sampling, which nothing bounds.

    >>> ratio = torch.tensor([1.0, 8.0], requires_grad=True)
    >>> SoftOneSided(1.0, 1.05)(ratio, torch.tensor([1.0, -1.0])).sum().backward()
    >>> ratio.grad.round(decimals=3)  # 8 comes back
    tensor([ 1., -1.])
    """

    @at_least_float32
    def __call__(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The surrogate of each token, A at ratio 1."""
        soft = super().__call__(ratio, advantages)
        shift = advantages - super().__call__(torch.ones_like(ratio), advantages)
        # by direction, not by torch.minimum: near ratio 1 the two differ by less than rounding does
        away = (ratio - 1) * advantages > 0
        return torch.where(away, soft + shift, ratio * advantages)


@dataclass(frozen=True)
class Correction:
    """A weight for the sampler's mismatch: ``policy`` over behaviour, without gradient, kept in [low, high].

    ``ratio`` is the level of the weight (a function of :mod:`rlnotes.objectives.ratios`). What lies outside is
    pulled to the border (``"clamp"``: truncated importance sampling) or gets weight 0 (``"drop"``: IcePop).

    ``policy`` is ``"proximal"``, beside a gate on pi / pi_k (decoupled: two ratios), or ``"current"``, in the place of
    a ratio to mu (one ratio, verl's bypass mode): with anchor ``"current"`` and no gate the gradient is that of
    :class:`Cap`, and a response's weight stands before the sum over its tokens as it is.

    ``normalised`` divides by the mean of the bounded weights, over the tokens of the batch or, for a response's weight,
    over its responses (verl, slime). The mean weight is then 1, and the estimate no longer linear in the data: a part
    of a batch has to be told ``mean``.

    >>> log_ratio, mask = torch.tensor([[0.5, 8.0]]).log(), torch.ones(1, 2) > 0
    >>> Correction(high=2.0)(log_ratio, mask), Correction(high=2.0, outside="drop")(log_ratio, mask)
    (tensor([[0.5000, 2.0000]]), tensor([[0.5000, 0.0000]]))
    >>> Correction(high=2.0, normalised=True)(log_ratio, mask)  # over their mean, 1.25
    tensor([[0.4000, 1.6000]])
    """

    low: float = 0.0
    high: float = math.inf
    outside: Literal["clamp", "drop"] = "clamp"
    ratio: Callable[[Tensor, Tensor], Tensor] = token
    policy: Policy = "proximal"
    normalised: bool = False

    @property
    def needs_proximal(self) -> bool:
        """True if the weight is that of the recomputed policy."""
        return self.policy == "proximal"

    @at_least_float32
    def __call__(self, log_ratio: Tensor, mask: Tensor, mean: float | None = None) -> Tensor:
        """Weights (N, T) from log policy - log behaviour (N, T); over ``mean``, this batch's own unless given."""
        weight = self._bounded(log_ratio, mask)
        if not self.normalised:
            return weight
        # weights of 0 alone stay 0
        return weight / max(self.mean(log_ratio, mask) if mean is None else mean, torch.finfo(weight.dtype).tiny)

    @at_least_float32
    def mean(self, log_ratio: Tensor, mask: Tensor) -> float:
        """Mean of the bounded weights of a whole batch: over tokens, or over responses if ``ratio`` is a response's."""
        weight = self._bounded(log_ratio, mask)
        # a response's weight stands at each of its tokens, so any of them will do
        return float(weight[mask].mean() if self.ratio is token else weight[:, 0].mean())

    def _bounded(self, log_ratio: Tensor, mask: Tensor) -> Tensor:
        weight = self.ratio(log_ratio.detach(), mask)
        if self.outside == "clamp":
            return weight.clamp(self.low, self.high)
        return torch.where((weight >= self.low) & (weight <= self.high), weight, 0.0)
