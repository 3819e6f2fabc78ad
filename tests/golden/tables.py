"""Weights and rejections for the sampler's mismatch, advantages, KL estimates, filters: ours for each peer's."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from rlnotes.estimators.baselines import group_mean, group_mean_batch_std, group_mean_std, leave_one_out
from rlnotes.estimators.divergences import KLEstimator, kl_estimate
from rlnotes.objectives import Batch
from rlnotes.objectives.gates import Correction
from rlnotes.objectives.masks import DivergenceMask, Every, Mask, MismatchBand, per_token, veto
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from rlnotes.objectives.rows import RowDivergence
from rlnotes.objectives.shaping import OverlongPenalty, informative
from tests.golden import arrays, batch_of, group_size, inputs, manifest, mask_of, variant_of
from tests.golden.comparison import divergences

# --- Weights for the sampler's mismatch

WEIGHTS: dict[str, Correction] = {
    "verl/weights_token_tis": Correction(high=2.0),
    "verl/weights_seq_tis": Correction(high=2.0, ratio=sequence),
    "verl/weights_token_icepop": Correction(0.5, 5.0, "drop"),
    "verl/weights_seq_icepop": Correction(0.5, 2.0, "drop", sequence),
    "slime/mis_truncate_token": Correction(high=2.0),
    "slime/mis_truncate_seq": Correction(high=2.0, ratio=sequence),
    "slime/mis_clip_token": Correction(low=0.5, high=2.0),
    # slime keeps the weight and takes the token out of the mask: the product of the two is our weight
    "slime/mis_mask_geo": Correction(0.9, 1.1, "drop", sequence_mean),
    "slime/mis_mask_token_veto": Correction(high=2.0),
    "verl/weights_token_tis_norm": Correction(high=2.0, normalised=True),
    "verl/weights_seq_tis_norm": Correction(high=2.0, ratio=sequence, normalised=True),
    "slime/mis_truncate_token_norm": Correction(high=2.0, normalised=True),
}


def mismatched(case_id: str) -> Batch:
    """The golden batch, with pi_k and mu as what the case compares; pi is pi_k."""
    name, mapping = batch_of(case_id), manifest()[case_id]["argument_mapping"]
    trained, sampled = mapping.get("log_ratio", "old_logp - rollout_logp").split()[0:3:2]
    proximal = inputs(name, trained)
    return Batch(proximal, mask_of(name), inputs(name, "adv"), inputs(name, sampled), proximal)


def assert_same_weights(case_id: str, correction: Correction) -> None:
    """Fails unless our weights are the peer's under the mask, or under what the case rejects beside."""
    found, made = arrays(), mismatched(case_id)
    kept = REJECTIONS.get(variant_of(case_id))
    ours = correction(made.log_ratio("logp_proximal", "logp_behavior"), made.mask)
    ours = ours * per_token(kept(made), made) if kept else ours
    expected = found[f"{case_id}/weights"] * found.get(f"{case_id}/kept_mask", 1.0)
    np.testing.assert_allclose(ours[made.mask], expected[made.mask.numpy()], 1e-6, 1e-12)


# --- What is rejected for the sampler's mismatch


def rejected(level: str, estimator: KLEstimator, threshold: float | tuple[float, float]) -> DivergenceMask:
    """verl's ``rollout_rs``. Its two thresholds for k1 are on the exponential of the estimate, the ratio's inverse."""
    over = level.removeprefix("seq_")
    assert over in ("token", "sum", "mean", "max")
    if not isinstance(threshold, tuple):
        return DivergenceMask(threshold, estimator, over, policy="proximal")
    low, high = (math.log(end) for end in threshold)
    return DivergenceMask(high, estimator, over, low, "proximal")


REJECTIONS: dict[str, Mask] = {
    "verl/reject_token_k1_0.5_2.0": rejected("token", "k1", (0.5, 2.0)),
    "verl/reject_token_k1_0.5_5.0": rejected("token", "k1", (0.5, 5.0)),
    "verl/reject_token_k2_0.05": rejected("token", "k2", 0.05),
    "verl/reject_token_k3_0.05": rejected("token", "k3", 0.05),
    "verl/reject_seq_sum_k1_0.5_2.0": rejected("seq_sum", "k1", (0.5, 2.0)),
    "verl/reject_seq_sum_k3_0.5": rejected("seq_sum", "k3", 0.5),
    "verl/reject_seq_mean_k1_0.9_1.25": rejected("seq_mean", "k1", (0.9, 1.25)),
    "verl/reject_seq_mean_k1_0.999_1.001": rejected("seq_mean", "k1", (0.999, 1.001)),
    "verl/reject_seq_mean_k2_0.02": rejected("seq_mean", "k2", 0.02),
    "verl/reject_seq_mean_k3_0.02": rejected("seq_mean", "k3", 0.02),
    "verl/reject_seq_max_k2_0.125": rejected("seq_max", "k2", 0.125),
    "verl/reject_seq_max_k3_0.3": rejected("seq_max", "k3", 0.3),
    "verl/reject_seq_max_k2+seq_mean_k3_0.125+0.02": Every(
        (rejected("seq_max", "k2", 0.125), rejected("seq_mean", "k3", 0.02))
    ),
    # slime keeps its truncated weights and rejects beside them
    "slime/mis_mask_token_veto": Every((MismatchBand(0.5, 2.0, token), veto(0.2))),
}


def assert_same_rejections(case_id: str, keep: Mask) -> None:
    """Fails unless we keep the tokens that the peer keeps."""
    made = mismatched(case_id)
    ours = made.mask & per_token(keep(made), made)
    np.testing.assert_array_equal(ours, arrays()[f"{case_id}/kept_mask"].astype(bool))


# --- Divergences of reduced rows

# float32 inside, where a KL is what is left of terms of size 1
DIVERGENCES: dict[str, dict[str, RowDivergence]] = {
    "stable_rl/topk_divergences": dict(kl=RowDivergence("kl", 4), tv=RowDivergence("tv", 4)),
}


def assert_same_divergence(case_id: str, key: str, divergence: RowDivergence) -> None:
    """Fails unless our divergence of each token is the peer's."""
    ours = divergences(batch_of(case_id), divergence)
    np.testing.assert_allclose(ours, arrays()[f"{case_id}/{key}"], 2e-6, 1e-6)


# --- Advantages

Advantage = Callable[[Any, int], Any]


def sample_std(eps: float) -> Advantage:
    """What the libraries divide by: sample standard deviation plus ``eps``."""
    return partial(group_mean_std, ddof=1, eps=eps, eps_inside=False)


ADVANTAGES: dict[str, Advantage] = {
    "verl/adv_grpo": sample_std(1e-6),
    "verl/adv_drgrpo": group_mean,
    "verl/adv_grpo_vectorized": sample_std(1e-6),
    "verl/adv_rloo": leave_one_out,
    "verl/adv_rloo_vectorized": leave_one_out,
    "trl/adv_group": sample_std(1e-4),
    "trl/adv_batch": partial(group_mean_batch_std, ddof=1, eps=1e-4),
    "trl/adv_none": group_mean,
    "openrlhf/adv_group_norm": sample_std(1e-9),
    "openrlhf/adv_dr_grpo": group_mean,
    "openrlhf/adv_rloo": leave_one_out,
    "r1zero/adv_grpo": sample_std(1e-8),
    "r1zero/adv_drgrpo": group_mean,
    "slime/adv_grpo": sample_std(1e-6),
    "slime/adv_grpo_nostd": group_mean,
}
# float32 inside: what is lost when two rewards of size 1 are subtracted
FLOAT32_ADVANTAGES = ("verl/adv_grpo_vectorized", "slime/adv_grpo", "slime/adv_grpo_nostd")


def assert_same_advantages(case_id: str, advantage: Advantage) -> None:
    """Fails unless our advantages are the peer's."""
    name = batch_of(case_id)
    single = variant_of(case_id) in FLOAT32_ADVANTAGES
    ours = advantage(arrays()[f"in/{name}/rewards"], group_size(name))
    rtol, atol = (2e-6, 5e-7) if single else (1e-6, 1e-12)
    np.testing.assert_allclose(ours, arrays()[f"{case_id}/advantage"], rtol, atol)


# --- KL estimates


@dataclass(frozen=True)
class KL:
    """Which of our estimators has the peer's value, and which its gradient where that is another one.

    ``weighted``: times the ratio to the old policy, gradient included.
    ``limit``: the peer clamps the result to [-limit, limit]. We do not, so the tokens where it does so are left out.
    """

    value: KLEstimator
    gradient: KLEstimator | None = None
    weighted: bool = False
    limit: float = np.inf
    float32: bool = False


KLS: dict[str, KL] = {
    "verl/kl_k1": KL("k1"),
    "verl/kl_k2": KL("k2"),
    "verl/kl_k3": KL("k3", limit=10),
    "verl/kl_low_var_kl": KL("k3", limit=10),
    # "+" means: this value, and the gradient of k2
    "verl/kl_k1+": KL("k1", "k2"),
    "verl/kl_k3+": KL("k3", "k2", limit=10),
    "openrlhf/kl_k1": KL("k1", limit=10, float32=True),
    "openrlhf/kl_k2": KL("k2", limit=10, float32=True),
    "openrlhf/kl_k3": KL("k3", limit=10, float32=True),
    "slime/kl_k1": KL("k1", float32=True),
    "slime/kl_k2": KL("k2", float32=True),
    "slime/kl_k3": KL("k3", float32=True),
    "slime/kl_low_var_kl": KL("k3", limit=10, float32=True),
    "slime/kl_k1_unbiased": KL("k1", weighted=True, float32=True),
    "slime/kl_k2_unbiased": KL("k2", weighted=True, float32=True),
    "slime/kl_k3_unbiased": KL("k3", weighted=True, float32=True),
    "slime/kl_low_var_kl_unbiased": KL("k3", weighted=True, limit=10, float32=True),
}


def assert_same_kl(case_id: str, kl: KL, sign: int = 1) -> None:
    """Fails unless our estimates and their gradient are the peer's, under the mask and inside its limit."""
    name, found = batch_of(case_id), arrays()
    logp = inputs(name, "logp").requires_grad_()
    log_ratio = sign * (logp - inputs(name, "ref_logp"))
    ratio = (logp - inputs(name, "old_logp")).exp() if kl.weighted else torch.ones_like(logp)
    value = kl_estimate(log_ratio, kl.value) * ratio
    (gradient,) = torch.autograd.grad((kl_estimate(log_ratio, kl.gradient or kl.value) * ratio).sum(), logp)
    value, ratio = value.detach(), ratio.detach()
    mask, inside = mask_of(name), value.abs() < kl.limit
    # where the peer clamps, its value is the limit: nothing else is left out
    assert set(np.abs(found[f"{case_id}/kl"])[(mask & ~inside).numpy()].tolist()) <= {kl.limit}
    # float32 inside: log-probabilities of size 4 are known to 2.4e-7, and a ratio multiplies what is not known
    rtol, atol = (2e-6, 5e-7 * ratio) if kl.float32 else (1e-6, 1e-12 * ratio)
    for ours, key in ((value, "kl"), (gradient, "grad")):
        expected = torch.from_numpy(found[f"{case_id}/{key}"]).double()
        excess = (ours - expected).abs() - rtol * expected.abs() - atol
        worst = float(excess[mask & inside].max())
        assert worst <= 0, f"{key} of {case_id} is off by {worst} more than allowed"


# --- DAPO's parts outside the loss

PENALTIES: dict[str, OverlongPenalty] = {
    "trl/overlong": OverlongPenalty(20, 4),
    "openrlhf/overlong": OverlongPenalty(20, 4),
    "verl/overlong": OverlongPenalty(20, 4, floor=False),
}


def assert_same_penalties(case_id: str, penalty: OverlongPenalty) -> None:
    """Fails unless our penalties are the peer's."""
    np.testing.assert_array_equal(penalty(inputs("overlong", "lengths")), arrays()[f"{case_id}/penalty"])


Filter = Callable[[Any, int], Any]

FILTERS: dict[str, Filter] = {
    "slime/dynamic_filter": partial(informative, threshold=1e-6),
    "verl/dynamic_filter": informative,
    "openrlhf/dynamic_filter": partial(informative, rule="mean"),
}


def assert_same_groups(case_id: str, keep: Filter) -> None:
    """Fails unless we keep the groups that the peer keeps."""
    rewards = arrays()["in/dynfilter/group_rewards"]
    ours = keep(rewards.reshape(-1), rewards.shape[1]).reshape(rewards.shape)
    np.testing.assert_array_equal(ours, arrays()[f"{case_id}/keep"][:, None].repeat(rewards.shape[1], 1))
