"""A peer's loss and ours on the same input."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlnotes.objectives import Batch, Choices, policy_loss
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.diagnostics import no_gradient_fraction
from rlnotes.objectives.gates import Cap, Clip, Soft
from rlnotes.objectives.masks import ClipMask, DivergenceMask, MismatchBand, OffPolicyMask
from rlnotes.objectives.one_sided import OneSided
from rlnotes.objectives.ratios import sequence_mean
from rlnotes.objectives.rows import RowDivergence
from tests.golden import arrays, batch_of, inputs, mask_of
from tests.golden.losses import Loss, token_mean_of_responses


def batch_arrays(name: str, behavior: str = "old_logp", proximal: bool = False) -> dict[str, Tensor]:
    """The tensors of a golden batch under our names. ``old_logp`` is what the ratio compares with."""
    found = dict(
        logp=inputs(name, "logp"),
        mask=mask_of(name),
        advantages=inputs(name, "adv"),
        logp_behavior=inputs(name, "rollout_logp" if proximal else behavior),
    )
    if f"in/{name}/ref_logp" in arrays():
        found["logp_reference"] = inputs(name, "ref_logp")
    return found | ({"logp_proximal": inputs(name, "old_logp")} if proximal else {})


def divergences(name: str, of: RowDivergence) -> Tensor:
    """Our divergence of each token of a golden batch with rows, from what the peers' samplers record."""
    log_probs, recorded = inputs(name, "logits_pi").log_softmax(-1), inputs(name, "topk_logp_mu")
    return of(log_probs, inputs(name, "token"), inputs(name, "rollout_logp"), inputs(name, "topk_ids"), recorded)


def batch(tensors: dict[str, Tensor], totals: Totals | None = None) -> Batch:
    """The batch of some tensors, which may be a part of a batch with these ``totals``."""
    return Batch(
        tensors["logp"],
        tensors["mask"],
        tensors["advantages"],
        tensors["logp_behavior"],
        tensors.get("logp_proximal"),
        tensors.get("logp_reference"),
        totals,
        divergence=tensors.get("divergence"),
    )


def loss_and_gradient(loss: Loss, tensors: dict[str, Tensor]) -> tuple[float, np.ndarray]:
    """Our loss, summed over the parts, and its gradient with respect to ``logp``."""
    logp = tensors["logp"].clone().requires_grad_()
    rows = len(logp)
    total = torch.zeros((), dtype=logp.dtype)
    start = 0
    for size in loss.parts or (rows,):
        part = {key: value[start : start + size] for key, value in (tensors | {"logp": logp}).items()}
        own = Totals.of(part["mask"], loss.max_length)
        # what is kept is known to the loss alone, so it counts for itself
        totals = None if loss.choices.divide_by == "kept" else replace(own, tokens=loss.tokens or own.tokens)
        total = total + policy_loss(loss.choices, batch(part, totals))
        start += size
    (gradient,) = torch.autograd.grad(total, logp)
    return float(total.detach()), gradient.numpy()


def no_gradient(choices: Choices, made: Batch) -> float:
    """Share of the tokens with an advantage that ``choices`` gives no gradient."""
    logp = made.logp.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(policy_loss(choices, replace(made, logp=logp)), logp)
    return float(no_gradient_fraction(made, gradient))


def theirs(case_id: str, loss: Loss) -> tuple[float, np.ndarray]:
    """The peer's loss and gradient, after the division that it leaves to its caller."""
    lengths = mask_of(batch_of(case_id)).sum(-1)
    number = {"responses": len(lengths), "tokens": int(lengths.sum())}
    divisor = number[loss.divide] if isinstance(loss.divide, str) else loss.divide
    found = arrays()
    return float(found[f"{case_id}/loss"]) / divisor, found[f"{case_id}/grad_logp"] / divisor


def assert_same_loss(case_id: str, loss: Loss) -> None:
    """Fails unless our loss and gradient are the peer's."""
    tensors = batch_arrays(batch_of(case_id), loss.behavior, loss.choices.needs_proximal)
    if asked := loss.choices.needs_divergence:
        tensors["divergence"] = divergences(batch_of(case_id), asked)
    value, gradient = loss_and_gradient(loss, tensors)
    if loss.value == "score":
        value = float((gradient * tensors["logp"].numpy())[tensors["mask"].numpy()].sum())
    expected, expected_gradient = theirs(case_id, loss)
    np.testing.assert_allclose(gradient, expected_gradient, loss.rtol, loss.atol, err_msg="gradient")
    np.testing.assert_allclose(value, expected, loss.rtol, loss.loss_atol, err_msg="loss")


# --- Where the manifest's settings are found in our choices

AGGREGATIONS = {
    "token-mean": token_mean,
    "token-sum": token_mean,
    "seq-mean-token-mean": response_mean,
    "seq-mean-token-sum": response_sum,
    "seq-mean-token-sum-norm": constant,
    "grpo": response_mean,
    "bnpo": token_mean,
    "dapo": token_mean,
    "dr_grpo": constant,
    "drgrpo": constant,
    "luspo": response_sum,
    "sapo": response_mean,
    "cispo": token_mean,
    "vespo": token_mean_of_responses,
}


def settings(peer: str, loss: Loss) -> dict[str, Any]:
    """Our choices under the names that the peers give them."""
    gate, correction, kl, keep = loss.choices.gate, loss.choices.correction, loss.choices.kl, loss.choices.keep
    low_names = ("clip_ratio_low", "epsilon_low", "clip_eps_low", "eps_clip", "cliprange")
    high_names = ("clip_ratio_high", "epsilon_high", "clip_eps_high", "eps_clip_high")
    found: dict[str, Any] = {}
    if isinstance(gate, Clip):
        found |= dict.fromkeys(low_names, gate.epsilon_low) | dict.fromkeys(high_names, gate.epsilon_high)
        found |= dict.fromkeys(("clip_ratio_c", "delta", "dual_clip", "eps_clip_c"), gate.dual)
    if isinstance(gate, Cap):
        offset = 0.0 if peer == "trl" else 1.0
        found |= dict.fromkeys(low_names, round(offset - gate.low, 9))
        found |= dict.fromkeys(high_names, round(gate.high - offset, 9))
        found |= {"clip_ratio_c": gate.high}
    if isinstance(keep, ClipMask):
        found |= dict.fromkeys(low_names, keep.epsilon_low) | dict.fromkeys(high_names, keep.epsilon_high)
    if isinstance(keep, OneSided) and isinstance(keep.mask, DivergenceMask):
        measure = keep.mask.estimator
        found |= dict.fromkeys((*low_names, *high_names), keep.mask.delta)
        found |= {"divergence_type": f"topk_{measure.kind}" if isinstance(measure, RowDivergence) else measure}
        found |= {"K": measure.k} if isinstance(measure, RowDivergence) else {}
    if isinstance(gate, Soft):
        found |= {"tau_pos": gate.tau_positive, "tau_neg": gate.tau_negative}
    found |= dict.fromkeys(("beta", "kl_loss_coef"), kl.beta if kl else 0.0)
    found |= dict.fromkeys(("use_bias_correction_kl", "use_unbiased_kl"), bool(kl and kl.weighted))
    found |= {"use_kl_loss": kl is not None, "kl_loss_type": kl and kl.estimator}
    found |= dict.fromkeys(("tis_c", "tis_clip"), correction and correction.high)
    found |= {"tis_clip_low": correction and correction.low}
    band = keep if isinstance(keep, MismatchBand) else correction
    found |= {"vllm_is_truncated_threshold": band and [band.low, band.high]}
    off_policy = keep if isinstance(keep, OffPolicyMask) else None
    found |= dict.fromkeys(("opsm_delta", "off_policy_mask_threshold"), off_policy and off_policy.delta)
    found |= {"use_opsm": off_policy is not None}
    found |= {"token_level_loss": loss.choices.aggregation is token_mean, "split": list(loss.parts)}
    found |= {"importance_sampling_level": "sequence" if loss.choices.ratio is sequence_mean else "token"}
    found |= {"gradient_accumulation_steps": len(loss.parts)}
    for name in ("max_completion_length", "generate_max_length", "loss_scale_factor"):
        found[name] = loss.max_length
    return found | {"batch_num_tokens": loss.tokens, "dp_size": loss.divide}
