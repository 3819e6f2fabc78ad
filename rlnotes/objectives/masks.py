"""Masks that drop responses or tokens. A mask takes the batch and returns bool, True for what is kept.

The shape says what is dropped: (N,) for whole responses, (N, T) for tokens. What is dropped adds nothing to the
surrogate; whether the aggregation still divides by it is ``Choices.divide_by``. A mask that compares with the
recomputed policy says so in ``needs_proximal``; one that reads ``Batch.divergence`` says in ``needs_divergence`` what
it has to be. No gradient flows through a mask.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from rlnotes.estimators.bucketed import binary_kl, binary_tv
from rlnotes.estimators.divergences import KLEstimator, kl_estimate
from rlnotes.objectives.batch import Anchor, Batch, Past, Policy
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.ratios import sequence_mean
from rlnotes.objectives.rows import RowDivergence

Mask = Callable[[Batch], Tensor]
Measure = KLEstimator | Literal["abs", "binary_tv", "binary_kl"]  # from the log-probabilities of the token drawn


@dataclass(frozen=True)
class OffPolicyMask:
    """Drop a response with A < 0 whose mean log(anchor / pi) is above ``delta`` (OPSM of DeepSeek-V3.2).

    >>> batch = Batch.of_ratios([[0.25, 1.0], [0.25, 1.0]], [1, -1])
    >>> OffPolicyMask(delta=0.5)(batch)  # log(4) / 2 = 0.69, and A < 0 for the second
    tensor([ True, False])
    """

    delta: float
    anchor: Anchor = "behavior"

    @property
    def needs_proximal(self) -> bool:
        """True if the drift is measured from the recomputed policy."""
        return self.anchor == "proximal"

    def __call__(self, batch: Batch) -> Tensor:
        """(N,) bool."""
        drift = -sequence_mean(batch.log_ratio("logp", f"logp_{self.anchor}").detach(), batch.mask)[:, 0].log()
        return ~((batch.masked("token_advantages").sum(-1) < 0) & (drift > self.delta))


@dataclass(frozen=True)
class MismatchBand:
    """Keep the tokens whose ratio ``policy`` / behaviour lies in [``low``, ``high``].

    ``ratio`` is the level that decides (a function of :mod:`rlnotes.objectives.ratios`): each token for itself, the
    product over a response, or its geometric mean; the last two keep or drop a response as a whole. Beside an
    importance weight without a bound this is masked importance sampling. The weight may be of another level.

    >>> from rlnotes.objectives.ratios import token
    >>> batch = Batch.of_ratios([[4.0, 0.8, 1.0]], [1])
    >>> MismatchBand(0.5, 2.0, token, "current")(batch)
    tensor([[False,  True,  True]])
    >>> MismatchBand(0.5, 2.0, policy="current")(batch)  # 3.2^(1/3) = 1.47
    tensor([[True, True, True]])
    """

    low: float
    high: float
    ratio: Callable[[Tensor, Tensor], Tensor] = sequence_mean
    policy: Policy = "proximal"

    @property
    def needs_proximal(self) -> bool:
        """True if it is the recomputed policy that is compared with the sampler."""
        return self.policy == "proximal"

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        ratio = self.ratio(batch.log_ratio(f"logp_{self.policy}", "logp_behavior"), batch.mask)
        return (ratio >= self.low) & (ratio <= self.high)


@dataclass(frozen=True)
class DivergenceMask:
    """Keep what has a divergence D(behaviour, ``policy``) of at most ``delta``: 001 section 4 and 004 section 4.

    One number per token, by ``estimator``, where x = log behaviour - log policy of the token drawn:

    | ``estimator`` | what |
    |---|---|
    | ``"k1"``, ``"k2"``, ``"k3"`` | x, x^2 / 2, exp(-x) - 1 + x: estimates of KL, 001 appendix A |
    | ``"abs"`` | abs(x), symmetric: 001's choice for the maximum |
    | ``"binary_tv"``, ``"binary_kl"`` | TV or KL of "this token or not": 004 eqs. (13), (14) |
    | :class:`~rlnotes.objectives.rows.RowDivergence` | top-k, 004 eqs. (15), (16), or exact, 001 section 4.4 |

    ``over`` says what is compared: the number of each ``"token"``, or for a whole response the ``"max"`` over its
    tokens (001 criterion A), the ``"sum"`` (criterion B) or the ``"mean"`` (section 4.3). Combined: :class:`Every`.
    The last estimator alone sees more than the token drawn: small values of the others are no proof of anything.

    | mask | what |
    |---|---|
    | ``over="max"``, abs, ``delta`` = d | no token with abs(log ratio) above d (trust region masking) |
    | ``over="mean"``, k3 | its second condition, on the average |
    | ``over="max"``, k1, ``delta`` = log(1 / c) | no token with policy / behaviour below c: :func:`veto` |
    | ``over="token"``, binary_tv, in :class:`~rlnotes.objectives.one_sided.OneSided` | DPPO |

    ``least`` is of use for k1 alone, which has a sign: the ratio policy / behaviour is kept in [e^-delta, e^-least].
    (verl gives e^low and e^high as bounds on the ratio itself, and so acts on its inverse.)

    ``anchor="proximal"`` puts pi_k in the place of the behaviour policy: how far pi moved since.

    >>> batch = Batch.of_ratios([[1.5, 1.0], [1.75, 1.0]], [1, 1])
    >>> DivergenceMask(0.5, "abs", "max")(batch)  # log(1.75) = 0.56
    tensor([ True, False])
    >>> DivergenceMask(0.06, "binary_tv", "token")(batch)  # 0.1 times abs(r - 1)
    tensor([[ True,  True],
            [False,  True]])
    """

    delta: float
    estimator: Measure | RowDivergence = "k3"
    over: Literal["token", "sum", "mean", "max"] = "max"
    least: float = -math.inf
    policy: Policy = "current"
    anchor: Past = "behavior"

    def __post_init__(self):
        rows = isinstance(self.estimator, RowDivergence)
        if not rows and self.estimator not in (*get_args(KLEstimator), "abs", "binary_tv", "binary_kl"):
            raise ValueError(
                f"estimator is {self.estimator!r}; choose k1, k2 or k3, abs, binary_tv or binary_kl, or RowDivergence"
            )
        if self.over not in ("token", "sum", "mean", "max"):
            raise ValueError(f"over is {self.over!r}; choose 'token', 'sum', 'mean' or 'max'")
        if not self.least <= self.delta:
            raise ValueError(f"least is {self.least} and delta is {self.delta}; least must not be above delta")
        if self.policy == self.anchor:
            raise ValueError("policy and anchor are both 'proximal'; a policy has no distance from itself")
        if rows and (self.policy, self.anchor) != ("current", "behavior"):
            raise ValueError("a RowDivergence is that of mu and pi; leave policy and anchor at their defaults")

    @property
    def needs_proximal(self) -> bool:
        """True if one of the two policies is the recomputed one."""
        return "proximal" in (self.policy, self.anchor)

    @property
    def needs_divergence(self) -> RowDivergence | None:
        """What ``Batch.divergence`` has to be, if it is read."""
        return self.estimator if isinstance(self.estimator, RowDivergence) else None

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool for tokens, (N,) bool for responses."""
        divergence = self._of_tokens(batch).detach()
        if self.over == "max":
            divergence = divergence.masked_fill(~batch.mask, -math.inf).max(-1).values
        elif self.over != "token":
            divergence = divergence.sum(-1) / (batch.mask.sum(-1) if self.over == "mean" else 1)
        return (divergence >= self.least) & (divergence <= self.delta)

    def _of_tokens(self, batch: Batch) -> Tensor:
        """(N, T), 0 outside the mask."""
        if isinstance(self.estimator, RowDivergence):
            return batch.masked("divergence")
        log_ratio = batch.log_ratio(f"logp_{self.anchor}", f"logp_{self.policy}")
        if self.estimator == "abs":
            return log_ratio.abs()
        if self.estimator in ("k1", "k2", "k3"):
            return kl_estimate(log_ratio, self.estimator)
        binary = binary_tv if self.estimator == "binary_tv" else binary_kl
        # the nearest to 1 that a float tells from it: a KL would be infinite where pi has only been rounded to 1
        last = -torch.finfo(log_ratio.dtype).eps / 2
        return binary(*(batch.masked(f"logp_{name}").clamp(max=last) for name in (self.anchor, self.policy)))


def veto(threshold: float = 1e-4, policy: Policy = "proximal") -> DivergenceMask:
    """Drop a response with a token whose ``policy`` / behaviour is below ``threshold`` (slime).

    Such a token can hardly have come from ``policy``: a sampler's failure, rather than chance.

    >>> batch = Batch.of_ratios([[1.0, 1.0], [1e-5, 1.0]], [1, 1])
    >>> veto(1e-4, policy="current")(batch)
    tensor([ True, False])
    """
    return DivergenceMask(-math.log(threshold), "k1", "max", policy=policy)


@dataclass(frozen=True)
class Every:
    """Keep what each of the ``masks`` keeps.

    >>> batch = Batch.of_ratios([[1.5, 0.5]], [1])
    >>> both = ClipMask(), DivergenceMask(0.6, "abs", "token")  # one drops 1.5, the other 0.5
    >>> Every(both)(batch)
    tensor([[False, False]])
    """

    masks: tuple[Mask, ...]

    def __post_init__(self):
        if len(self._divergences) > 1:
            raise ValueError(f"masks ask for the divergences {self._divergences}; a batch holds one: choose one")

    @property
    def _divergences(self) -> list[RowDivergence]:
        asked = (getattr(mask, "needs_divergence", None) for mask in self.masks)
        return list(dict.fromkeys(one for one in asked if one is not None))

    @property
    def needs_proximal(self) -> bool:
        """True if one of them does."""
        return any(getattr(mask, "needs_proximal", False) for mask in self.masks)

    @property
    def needs_divergence(self) -> RowDivergence | None:
        """What ``Batch.divergence`` has to be, if one of them reads it."""
        return next(iter(self._divergences), None)

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        kept = batch.mask
        for mask in self.masks:
            kept = kept & per_token(mask(batch), batch)
        return kept


@dataclass(frozen=True)
class StalenessFilter:
    """Keep what has abs(rho_k - 1) <= ``epsilon``, where rho_k = proximal / behaviour: 000 section 7.4.

    ``level`` says whose ratio it is: that of each ``"token"``, or of the whole ``"response"``, the product over its
    tokens. What it promises is no more than it says: the mean of abs(rho_k - 1) / 2 over what is kept is at most
    ``epsilon`` / 2. That is no bound on TV(pi_k, mu), nor on TV(pi_k, law of what is kept): both can be large.

    >>> batch = Batch.of_ratios([[1.0, 1.0]], [1], proximal=[[1.25, 0.5]])
    >>> StalenessFilter(0.3)(batch), StalenessFilter(0.4, "response")(batch)
    (tensor([[ True, False]]), tensor([True]))
    """

    epsilon: float
    level: Literal["token", "response"] = "token"
    needs_proximal = True

    def __post_init__(self):
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must not be negative")
        if self.level not in ("token", "response"):
            raise ValueError(f"level is {self.level!r}; choose 'token' or 'response'")

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool for tokens, (N,) bool for responses."""
        log_ratio = batch.log_ratio("logp_proximal", "logp_behavior")
        if self.level == "response":
            log_ratio = log_ratio.sum(-1)
        return torch.expm1(log_ratio).abs() <= self.epsilon


@dataclass(frozen=True)
class ClipMask:
    """Drop a token whose pi / anchor is outside [1 - ``epsilon_low``, 1 + ``epsilon_high``], where A pushes it further.

    With no gate the gradient is that of the clip: 004 appendix D. But the weight before the advantage is now another
    choice, so it can be capped, or measured from another policy than the mask is.

    >>> batch = Batch.of_ratios([[1.5, 0.5], [1.5, 0.5]], [1, -1])
    >>> ClipMask(0.2, 0.28)(batch)
    tensor([[False,  True],
            [ True, False]])
    """

    epsilon_low: float = 0.2
    epsilon_high: float = 0.28
    anchor: Anchor = "behavior"

    def __post_init__(self):
        Clip(self.epsilon_low, self.epsilon_high)  # raises for ends that no clip has

    @property
    def needs_proximal(self) -> bool:
        """True if the mask looks at the ratio to the recomputed policy."""
        return self.anchor == "proximal"

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        ratio = torch.exp(batch.log_ratio("logp", f"logp_{self.anchor}").detach())
        return ~Clip(self.epsilon_low, self.epsilon_high).closed(ratio, batch.token_advantages)


@dataclass(frozen=True)
class ProximalMask(ClipMask):
    """:class:`ClipMask` on the ratio to the recomputed policy pi_k (MiniRL): 004 appendix D.

    >>> batch = Batch.of_ratios([[1.5, 1.5]], [1], proximal=[[1.0, 1.5]])
    >>> ProximalMask(0.2, 0.28)(batch)
    tensor([[False,  True]])
    """

    anchor: Anchor = "proximal"


def per_token(kept: Tensor, batch: Batch) -> Tensor:
    """What a mask returned, (N,) or (N, T) bool, as (N, T). Raises ``ValueError`` for anything else.

    >>> batch = Batch.of_ratios([[1.0, 1.0], [1.0]], [1, 1])
    >>> per_token(torch.tensor([True, False]), batch)
    tensor([[ True,  True],
            [False, False]])
    """
    shape = tuple(batch.mask.shape)
    if kept.dtype != torch.bool or tuple(kept.shape) not in (shape, shape[:1]):
        raise ValueError(
            f"keep returned shape {tuple(kept.shape)} and dtype {kept.dtype}; it must be bool, {shape[:1]} for "
            f"responses or {shape} for tokens"
        )
    return kept if kept.dim() == 2 else kept[:, None].expand(shape)


def not_truncated(batch: Batch) -> Tensor:
    """Drop a response that was cut off at the length limit (N,): 002 section 5.4.2, overlong filtering.

    TRL's ``mask_truncated_completions``. Its tokens once stayed in TRL's denominator; here ``divide_by`` says so.

    >>> from dataclasses import replace
    >>> batch = Batch.of_ratios([[1.0, 1.0], [1.0]], [1, 1])
    >>> not_truncated(replace(batch, truncated=torch.tensor([True, False])))
    tensor([False,  True])
    """
    if batch.truncated is None:
        raise ValueError("truncated is missing; this mask drops what it names: pass Batch(..., truncated=...)")
    return ~batch.truncated
