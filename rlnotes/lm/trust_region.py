"""A TRPO step of a language model on one rollout: 002 section 4.6, with tokens for actions and contexts for states."""

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlnotes.estimators.divergences import kl
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits, taken
from rlnotes.objectives.natural_gradient import StepReport, natural_step


def next_token_log_probs(model: Transformer, rollout: Rollout) -> Tensor:
    """Log-probabilities (n, V) of all tokens at the n positions of the responses' own tokens, with gradients."""
    return rollout.transform.log_probs(response_logits(model, rollout))[rollout.mask]


def surrogate(log_probs: Tensor, rollout: Rollout, advantages: Tensor) -> Tensor:
    """The mean over own tokens of ratio times advantage, 002 eq. (69). ``advantages`` (N,) is one per response.

    ``log_probs`` (n, V) are those of :func:`next_token_log_probs`.
    """
    log_ratio = taken(log_probs, rollout.tokens[rollout.mask]) - rollout.logp_behavior[rollout.mask]
    return (log_ratio.exp() * advantages[:, None].expand_as(rollout.mask)[rollout.mask]).mean()


def trpo_step(
    model: Transformer,
    rollout: Rollout,
    advantages: Tensor,
    delta: float,
    *,
    damping: float = 0.1,
    iterations: int = 10,
) -> StepReport:
    """One step of ``model``, in place: raise the surrogate, keep the mean KL(old, new) of a token at most ``delta``.

    The mean is over the contexts of the rollout and exact in the next token, 002 eq. (70). See
    :func:`rlnotes.objectives.natural_gradient.natural_step` for the report and what raises. ``rollout`` must come from
    the model as it stands; raises ``ValueError`` if ``advantages`` is not one number per response.
    """
    if advantages.shape != rollout.mask.shape[:1]:
        raise ValueError(
            f"advantages has shape {tuple(advantages.shape)}; one per response, ({len(rollout.mask)},), is needed"
        )
    with torch.no_grad():
        old = next_token_log_probs(model, rollout)
    with sdpa_kernel(SDPBackend.MATH):  # fused attention kernels have no second derivative
        return natural_step(
            list(model.parameters()),
            lambda: surrogate(next_token_log_probs(model, rollout), rollout, advantages),
            lambda: kl(old, next_token_log_probs(model, rollout)).mean(),
            delta,
            damping=damping,
            iterations=iterations,
        )
