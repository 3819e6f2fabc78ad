"""Responses of T coins that share one logit: gradients, their bias and their noise, by sums over T + 1 counts.

Each token is a slip (token 1) or none (token 0), independently: with probability ``old`` under the behavior, ``new``
under the target. The one parameter is the logit of a slip, so a gradient is a number. Three rewards:

| name | reward of an answer with k slips |
|---|---|
| clean | 1 if k = 0 |
| share | the share of tokens that are no slip |
| odd | 1 if k is odd |

Everything here is what enumeration gives on the same model, and cheap enough for a slider.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom

from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_gradients import Gradient
from rlnotes.exact.tokens import sequences, single_prompt, single_prompt_policy

Reward = Literal["clean", "share", "odd"]
REWARDS: tuple[Reward, ...] = get_args(Reward)


def expected_reward(reward: Reward, horizon: int, slip: float | np.ndarray) -> np.ndarray:
    """J where a token slips with probability ``slip``."""
    slip = np.asarray(slip, dtype=np.float64)
    if reward == "clean":
        return (1 - slip) ** horizon
    return 1 - slip if reward == "share" else (1 - (1 - 2 * slip) ** horizon) / 2


def slope(reward: Reward, horizon: int, slip: float | np.ndarray) -> np.ndarray:
    """The derivative of J by the probability of a slip."""
    slip = np.asarray(slip, dtype=np.float64)
    if reward == "clean":
        return -horizon * (1 - slip) ** (horizon - 1)
    return -np.ones_like(slip) if reward == "share" else horizon * (1 - 2 * slip) ** (horizon - 1)


def curvature(reward: Reward, horizon: int, slip: float) -> float:
    """The second derivative of J by the logit, E[R ((k - T q)^2 - T q (1 - q))]: L of 003 is its largest size.

    >>> round(curvature("clean", horizon=2, slip=0.5), 3)
    0.125
    """
    k = np.arange(horizon + 1)
    weights = binom.pmf(k, horizon, slip) * _rewards(reward, horizon)
    return float(weights @ ((k - horizon * slip) ** 2 - horizon * slip * (1 - slip)))


def _rewards(reward: Reward, horizon: int) -> np.ndarray:
    """(T+1,) by the number of slips."""
    k = np.arange(horizon + 1)
    return {"clean": k == 0, "share": 1 - k / horizon, "odd": k % 2}[reward].astype(float)


class GradientMoments(NamedTuple):
    """Of one answer's estimate."""

    mean: float
    bias: float
    variance: float


@dataclass(frozen=True)
class Slips:
    """The model, and the two policies. Raises ``ValueError`` for what is no reward, horizon or probability.

    >>> case = Slips("clean", horizon=2, old=0.25, new=0.5)
    >>> case.gradient, round(case.moments(case.token_estimates()).mean, 3)  # of J and L
    (-0.25, -0.375)
    """

    reward: Reward
    horizon: int
    old: float
    new: float

    def __post_init__(self):
        if self.reward not in REWARDS:
            raise ValueError(f"reward is {self.reward!r}; choose one of {', '.join(REWARDS)}")
        if self.horizon < 1:
            raise ValueError(f"horizon is {self.horizon}; an answer has at least 1 token")
        for name in ("old", "new"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be between 0 and 1, both excluded")

    @property
    def slips(self) -> np.ndarray:
        """(T+1,) the counts 0 to T, by which all arrays here go."""
        return np.arange(self.horizon + 1)

    @cached_property
    def probs(self) -> np.ndarray:
        """(T+1,) their probabilities under the behavior."""
        return binom.pmf(self.slips, self.horizon, self.old)

    @cached_property
    def centred(self) -> np.ndarray:
        """(T+1,) the reward less its mean under the behavior, J(mu)."""
        return _rewards(self.reward, self.horizon) - expected_reward(self.reward, self.horizon, self.old)

    @property
    def gradient(self) -> float:
        """Of J at the target: q (1 - q) J'(q), J' being :func:`slope`."""
        return float(self.new * (1 - self.new) * slope(self.reward, self.horizon, self.new))

    @property
    def surrogate_gradient(self) -> float:
        """Of L at the target: q (1 - q) J'(p). The mean of token-level importance sampling, 003 5.2."""
        return float(self.new * (1 - self.new) * slope(self.reward, self.horizon, self.old))

    @property
    def chi2(self) -> float:
        """chi2(pi, mu) of one token."""
        return (self.new - self.old) ** 2 / (self.old * (1 - self.old))

    def sequence_weights(self, cap: float = np.inf) -> np.ndarray:
        """(T+1,) min(prod_t rho_t, cap)."""
        k, left = self.slips, self.horizon - self.slips
        return np.minimum((self.new / self.old) ** k * ((1 - self.new) / (1 - self.old)) ** left, cap)

    def token_estimates(self) -> np.ndarray:
        """(T+1,) the estimate from each count: (R - J(mu)) sum_t rho_t (y_t - q)."""
        k, left, q = self.slips, self.horizon - self.slips, self.new
        return self.centred * (k * q / self.old * (1 - q) - left * (1 - q) / (1 - self.old) * q)

    def sequence_estimates(self, cap: float = np.inf) -> np.ndarray:
        """(T+1,) the estimate from each count: (R - J(mu)) min(prod_t rho_t, cap) sum_t (y_t - q)."""
        return self.centred * self.sequence_weights(cap) * (self.slips - self.horizon * self.new)

    def moments(self, estimates: np.ndarray) -> GradientMoments:
        """Mean, bias and variance of estimates (T+1,)."""
        mean = float(self.probs @ estimates)
        return GradientMoments(mean, mean - self.gradient, float(self.probs @ (estimates - mean) ** 2))

    def expected_progress(self, estimates: np.ndarray, step: float) -> float:
        """E J(theta + step g) - J(theta), one answer per step: 003 section 2, its left side."""
        after = expected_reward(self.reward, self.horizon, expit(logit(self.new) + step * estimates))
        return float(self.probs @ (after - expected_reward(self.reward, self.horizon, self.new)))

    @property
    def smoothness_bound(self) -> float:
        """A number that L does not exceed: T / 4 for rewards in [0, 1]. Elementary, derived for this course."""
        return self.horizon / 4


def token_case(case: Slips) -> TokenCase:
    """The same model with all 2**T answers listed, target and behavior.

    >>> from rlnotes.exact.tokens import improvement
    >>> round(improvement(*token_case(Slips("clean", 2, 0.25, new=0.5))), 4)  # 1/4 - 9/16
    -0.3125
    """
    rewards = _rewards(case.reward, case.horizon)[sequences(2, case.horizon).sum(1)]
    target, behavior = (
        single_prompt_policy([np.tile([1 - slip, slip], (2**t, 1)) for t in range(case.horizon)])
        for slip in (case.new, case.old)
    )
    return TokenCase(single_prompt(rewards, 2, case.horizon), target, behavior)


def by_one_logit(gradient: Gradient) -> float:
    """The derivative by the one logit of a slip, from a gradient by the logits of all contexts.

    >>> from rlnotes.exact.token_gradients import reward_gradient
    >>> case = Slips("clean", horizon=2, old=0.25, new=0.5)
    >>> model, target, _ = token_case(case)
    >>> round(by_one_logit(reward_gradient(model, target)), 3), case.gradient
    (-0.25, -0.25)
    """
    return float(sum(rows[..., 1].sum() for rows in gradient))
