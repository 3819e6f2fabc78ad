"""The pull towards a reference policy: a KL penalty in the loss or in the reward."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.estimators.checks import readable
from rlnotes.estimators.divergences import KLEstimator, kl_estimate
from rlnotes.exact.precision import at_least_float32


@dataclass(frozen=True)
class KLPenalty:
    """``beta`` times a KL estimate to the reference policy, for each token.

    ``where`` says what becomes of it. In the ``"loss"`` it is added to the loss of each token and differentiated, the
    ratio left out. In the ``"reward"`` its sum over a response is taken off the response's reward, before the advantage
    (:func:`penalised_rewards`), and ``policy_loss`` adds nothing. On policy, with ``response_sum``, the mean gradient
    is then beta times that of

    | estimator | in the loss: for the next token, the prefixes as drawn | in the reward: for the whole response |
    |---|---|---|
    | k1 | nothing: it is 0 | KL(pi, ref), 002 eq. (87) |
    | k2 | KL(pi, ref) | the mean of x^2 / 2, less what k2 descends in the loss: no divergence |
    | k3 | KL(ref, pi) | KL(pi, ref), less what k3 descends in the loss: no divergence |

    In the loss a token answers for its own KL alone, not for that of the prefixes that it leads to; so only k1 in the
    reward has the gradient of the KL of whole responses. ``weighted`` multiplies the estimate in the loss by the ratio,
    gradient included; then the mean gradient of k1 and k3 is that of KL(pi, ref), also when the tokens came from the
    anchor.

    >>> from dataclasses import replace
    >>> from rlnotes.objectives import GRPO, Batch, policy_loss
    >>> batch = Batch.of_ratios([[2.0]], [0])
    >>> batch = replace(batch, logp_reference=batch.logp_behavior)
    >>> choices = replace(GRPO, kl=KLPenalty(0.5))
    >>> round(policy_loss(choices, batch).item(), 3)  # half of 1/2 - 1 + log 2
    0.097
    """

    beta: float
    estimator: KLEstimator = "k3"
    weighted: bool = False
    where: Literal["loss", "reward"] = "loss"

    def __post_init__(self):
        if not self.beta >= 0:
            raise ValueError(f"beta is {self.beta}; it must not be negative")
        if self.where not in ("loss", "reward"):
            raise ValueError(f"where is {self.where!r}; choose 'loss' or 'reward'")
        if self.where == "reward" and self.weighted:
            raise ValueError("weighted multiplies by a ratio with a gradient; a reward has none: leave weighted out")


@at_least_float32
def penalised_rewards(kl: KLPenalty, rewards: Tensor, log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Rewards (N,) minus ``beta`` times the sum of the estimate over each response's tokens: 002 eqs. (87), (89).

    ``log_ratio`` (N, T) is log pi - log pi_ref of the sampled tokens; what stands outside the ``mask`` (N, T) bool does
    not matter. The result has no gradient. Raises ``ValueError`` for a log ratio under the mask that is not finite.

    >>> log_ratio, mask = torch.tensor([[0.5, 1.5]]), torch.ones(1, 2) > 0
    >>> kl = KLPenalty(0.1, "k1", where="reward")
    >>> penalised_rewards(kl, torch.tensor([1.0]), log_ratio, mask)
    tensor([0.8000])
    """
    log_ratio = torch.where(mask, log_ratio.detach(), 0.0)
    if readable(log_ratio) and not bool(log_ratio.isfinite().all()):
        row, column = (~log_ratio.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"log_ratio is {float(log_ratio[row, column])} at [{row}, {column}], under the mask; one of the two "
            "policies gives the sampled token probability 0, or the weights have diverged"
        )
    return rewards - kl.beta * kl_estimate(log_ratio, kl.estimator).sum(-1).to(rewards.dtype)
