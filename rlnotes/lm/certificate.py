"""What could be certified of an update: bounds on token models, estimated from one rollout and both policies' rows.

From a batch they are estimates and no certificates: a context that was not sampled may hold any divergence. And mu must
cover pi, as without top-p and top-k it does: rewards are centred, and what of pi mu cannot write then counts as gain.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.estimators.divergences import kl, kl_estimate, tv, tv_estimate
from rlnotes.estimators.importance import monte_carlo
from rlnotes.lm.report import TAIL
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import taken
from rlnotes.objectives import Batch
from rlnotes.objectives.masks import Mask, per_token

OUTLIERS = 20


@dataclass(frozen=True)
class Certificate:
    """Numbers of N responses that mu wrote. rho is pi / mu of a token drawn, R a reward; divergences are in nats.

    | field | meaning |
    |---|---|
    | ``responses`` | N |
    | ``expected_reward`` | J(mu), the mean of R |
    | ``surrogate``, ``standard_error`` | L, the mean of (R - J(mu)) sum_t (rho_t - 1): 001 section 2.2.7; and its own |
    | ``sequence_kl`` | D_seq: mean over responses of the sum over their tokens of the exact KL(mu, pi), 001 A.7 |
    | ``sequence_kl_k3`` | the same from the tokens drawn, by k3: 001 A.1 |
    | ``outlier_share`` | what the 20 responses with the largest sums have of ``sequence_kl``; NaN if that is 0 |
    | ``largest_kl``, ``largest_log_ratio`` | the largest KL(mu, pi) of a context that was met, and abs(log rho) |
    | ``minoriser`` | what 001 section 2.6.1 subtracts from L, with the largest KL that was met |
    | ``tv_sum`` | mean over responses of the sum over their tokens of the exact TV |
    | ``kept`` | the share of the responses that a mask keeps |
    | ``masked_promise`` | the mean of R log w where it keeps, w the product of rho, and of -R where it does not: \
elementary, derived for this course |
    | ``plain``, ``plain_error`` | the mean of R (w - 1): J(pi) - J(mu) without bias if mu covers pi; and its standard \
error, each prompt counted once. Where w has a heavy tail, both err |
    | ``mean_weight`` | the mean of w, which is 1 in the mean: how much of that tail the batch has seen |
    """

    responses: int
    expected_reward: float
    surrogate: float
    standard_error: float
    sequence_kl: float
    sequence_kl_k3: float
    outlier_share: float
    largest_kl: float
    largest_log_ratio: float
    minoriser: float
    tv_sum: float
    kept: float
    masked_promise: float
    plain: float
    plain_error: float
    mean_weight: float

    @property
    def least_by_kl(self) -> float:
        """L - D_seq: the least change of J, elementary, derived for this course."""
        return self.surrogate - self.sequence_kl

    @property
    def least_by_tv(self) -> float:
        """L less the sum of mean TVs: the same with total variation in the place of KL."""
        return self.surrogate - self.tv_sum

    def __str__(self) -> str:
        """Seven lines for people."""
        some = min(OUTLIERS, self.responses)
        return (
            f"L {self.surrogate:+.4f} (standard error {self.standard_error:.4f}), J(mu) {self.expected_reward:.2f}\n"
            f"E[R (w - 1)] {self.plain:+.4f} (standard error {self.plain_error:.4f}), "
            f"mean of w {self.mean_weight:.2f}\n"
            f"D_seq by rows {self.sequence_kl:.4f}, by k3 {self.sequence_kl_k3:.4f}\n"
            f"of it {self.outlier_share:.0%} from {some} of {self.responses} responses\n"
            f"D_max seen {self.largest_kl:.3f}, max |log rho| {self.largest_log_ratio:.2f}, "
            f"smaller bound of 001 {self.minoriser:.2f}\n"
            f"least change: L - D_seq {self.least_by_kl:+.2f}, L - sum of mean TV {self.least_by_tv:+.2f}, "
            f"E[M R log w - (1 - M) R] {self.masked_promise:+.2f}\n"
            f"the mask M, used in the last, keeps {self.kept:.0%}"
        )


@torch.no_grad()
def certificate(mu_rows: Tensor, pi_rows: Tensor, rollout: Rollout, rewards: Tensor, mask: Mask) -> Certificate:
    """What ``rollout``, sampled from mu, says of the change of J from mu to pi.

    ``mu_rows`` and ``pi_rows`` (N, T, V) are log-probabilities of all tokens where each of the rollout's was drawn;
    what stands outside its mask does not matter. ``rewards`` (N,). ``mask`` is one of responses that compares pi with
    mu, as ``TRM.keep``. L needs that mu covers pi, which is not checked. Raises ``ValueError`` for shapes that do not
    fit, for rewards outside of [0, 1], for which the bounds are not made, and for a mask that drops single tokens.
    """
    own = rollout.mask
    _check(own, rewards, mu_rows=mu_rows, pi_rows=pi_rows)
    mu, pi, rewards = mu_rows.double(), pi_rows.double(), rewards.double()
    log_ratio = torch.where(own, taken(pi, rollout.tokens) - taken(mu, rollout.tokens), 0.0)
    token_kl, token_tv = (torch.where(own, divergence(mu, pi), 0.0) for divergence in (kl, tv))
    response_kl = token_kl.sum(1)
    centred = rewards - rewards.mean()  # less noise, and if mu covers pi no effect on L in the mean: E_mu rho is 1
    surrogate = monte_carlo(centred * torch.expm1(log_ratio).sum(1))
    batch = Batch(log_ratio, own, centred, torch.zeros_like(log_ratio))
    kept = _whole(per_token(mask(batch), batch), own)
    largest, sequence_kl = token_kl.max().item(), response_kl.mean().item()
    weight = log_ratio.sum(1).exp()
    plain = rewards * (weight - 1)
    by_prompt = plain.reshape(len(rollout.prompts), -1).mean(1)  # responses to one prompt are not independent draws
    error = monte_carlo(by_prompt if len(by_prompt) > 1 else plain).standard_error
    return Certificate(
        responses=len(own),
        expected_reward=rewards.mean().item(),
        surrogate=surrogate.mean.item(),
        standard_error=surrogate.standard_error.item(),
        sequence_kl=sequence_kl,
        sequence_kl_k3=kl_estimate(-log_ratio, "k3").sum(1).mean().item(),
        outlier_share=(response_kl.sort().values[-OUTLIERS:].sum() / response_kl.sum()).item(),
        largest_kl=largest,
        largest_log_ratio=log_ratio.abs().max().item(),
        minoriser=float(forms.minoriser(own.shape[1], largest, sequence_kl)),
        tv_sum=token_tv.sum(1).mean().item(),
        kept=kept.double().mean().item(),
        masked_promise=torch.where(kept, rewards * log_ratio.sum(1), -rewards).mean().item(),
        plain=plain.mean().item(),
        plain_error=error.item(),
        mean_weight=weight.mean().item(),
    )


def _whole(kept: Tensor, own: Tensor) -> Tensor:
    """(N,) bool from (N, T): which responses are kept."""
    some, every = (kept & own).any(1), (kept | ~own).all(1)
    if not torch.equal(some, every):
        row = int((some != every).nonzero()[0])
        raise ValueError(f"mask drops some tokens of response {row} and keeps others; pass one of whole responses")
    return every


def _check(own: Tensor, rewards: Tensor, **rows: Tensor) -> None:
    for name, each in rows.items():
        if each.dim() != 3 or each.shape[:2] != own.shape:
            raise ValueError(f"{name} has shape {tuple(each.shape)}; ({own.shape[0]}, {own.shape[1]}, V) is needed")
    if rewards.shape != own.shape[:1]:
        raise ValueError(f"rewards has shape {tuple(rewards.shape)}; one per response, ({len(own)},), is needed")
    if not bool(((rewards >= 0) & (rewards <= 1)).all()):
        raise ValueError(
            f"rewards go from {rewards.min().item():g} to {rewards.max().item():g}; the bounds are for rewards in "
            "[0, 1]: shift and scale them, and the numbers back"
        )


@dataclass(frozen=True)
class Sampled:
    """What the log-probabilities of sampled tokens alone say of mu and pi: all that an engine may hand over.

    | field | meaning |
    |---|---|
    | ``tv`` | mean over tokens of abs(r - 1) / 2, r = pi / mu: the mean TV of the contexts that mu met |
    | ``tail`` | 99.9 % quantile of abs(log r) |
    | ``sequence_kl`` | D_seq, as :attr:`Certificate.sequence_kl_k3` |
    | ``surrogate`` | L, as :attr:`Certificate.surrogate` |
    | ``promise`` | L less the mean of R sum_t k3: the lower end of J(pi) - J(mu), elementary, derived for this course |
    """

    tv: float
    tail: float
    sequence_kl: float
    surrogate: float
    promise: float


def from_sampled(logp: Tensor, logp_behavior: Tensor, mask: Tensor, rewards: Tensor) -> Sampled:
    """From log-probabilities (N, T) of the tokens drawn by mu, their ``mask`` (N, T), and ``rewards`` (N,) in [0, 1].

    mu must cover pi, which cannot be seen here. If it does not, as with top-p or top-k, the mean of r is below 1. Then
    ``tv`` leaves out half of the mass that pi has where mu has none, and ``promise`` may lie above the true change: for
    one token, by J(mu) times that mass, less the slack of the bound.

    Raises ``ValueError`` for other shapes, an empty mask, and rewards outside of [0, 1].
    """
    if not (logp.shape == logp_behavior.shape == mask.shape and rewards.shape == logp.shape[:1]):
        shapes = ", ".join(str(tuple(one.shape)) for one in (logp, logp_behavior, mask, rewards))
        raise ValueError(f"logp, logp_behavior, mask, rewards have shapes {shapes}; pass (N, T) three times, and (N,)")
    if not bool(mask.any()):
        raise ValueError("mask is empty: there is no token to say anything of")
    if not bool(((rewards >= 0) & (rewards <= 1)).all()):
        raise ValueError(
            f"rewards lie in [{rewards.min():g}, {rewards.max():g}]; the promise needs [0, 1]: rescale them"
        )
    log_ratio = torch.where(mask, logp - logp_behavior, 0.0).double()
    k3 = kl_estimate(-log_ratio, "k3").sum(1)
    centred = rewards - rewards.mean()  # as in certificate, and only if mu covers pi
    surrogate = (centred * log_ratio.expm1().sum(1)).mean().item()
    return Sampled(
        tv=tv_estimate(log_ratio[mask]).mean().item(),
        tail=log_ratio[mask].abs().quantile(TAIL).item(),
        sequence_kl=k3.mean().item(),
        surrogate=surrogate,
        promise=surrogate - (rewards * k3).mean().item(),
    )
