"""Our losses, gradients, weights, advantages and KL estimates are those of five production libraries."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rlnotes.objectives.loss
from rlnotes.estimators.baselines import group_mean_batch_std, group_mean_std, leave_one_out
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.objectives import DR_GRPO, GRPO, PPO_CLIP, Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip, Correction, no_gate
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from tests import golden
from tests.golden import ADVANTAGES, KL, KLS, LOSSES, NOT_COVERED, WEIGHTS, Loss, batch_of, ids, variant_of

ADVANTAGE_IDS = [case_id for case_id in ids(ADVANTAGES) if batch_of(case_id) != "single"]
GROUP_OF_ONE_IDS = [case_id for case_id in ids(ADVANTAGES) if batch_of(case_id) == "single"]


# --- The same numbers


@pytest.mark.parametrize("case_id", ids(LOSSES))
def test_loss_and_gradient(case_id: str):
    golden.assert_same_loss(case_id, LOSSES[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(WEIGHTS))
def test_weights(case_id: str):
    golden.assert_same_weights(case_id, WEIGHTS[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ADVANTAGE_IDS)
def test_advantages(case_id: str):
    golden.assert_same_advantages(case_id, ADVANTAGES[variant_of(case_id)])


@pytest.mark.parametrize("case_id", GROUP_OF_ONE_IDS)
def test_a_group_of_one_is_refused(case_id: str):
    """The libraries disagree here: the reward itself, 0, or NaN. None of them is an advantage."""
    rewards = golden.arrays()["in/single/rewards"]
    assert golden.group_size("single") == 1
    with pytest.raises(ValueError, match="group of one"):
        ADVANTAGES[variant_of(case_id)](rewards, 1)


@pytest.mark.parametrize("case_id", ids(KLS))
def test_kl_estimates(case_id: str):
    golden.assert_same_kl(case_id, KLS[variant_of(case_id)])


# --- Nothing is left out unsaid


def test_every_variant_is_covered_or_named():
    covered = [*LOSSES, *WEIGHTS, *ADVANTAGES, *KLS, *NOT_COVERED]
    assert sorted(covered) == sorted({variant_of(case_id) for case_id in golden.manifest()})


def test_number_of_cases():
    def per_peer(case_ids: list[str]) -> dict[str, int]:
        return dict(Counter(case_id.split("/")[0] for case_id in case_ids))

    assert per_peer(ids(LOSSES)) == {"verl": 57, "trl": 70, "openrlhf": 33, "slime": 32, "oat": 30}
    assert per_peer(ids(WEIGHTS)) == {"verl": 12, "slime": 8}
    assert per_peer(ADVANTAGE_IDS) == {"verl": 15, "trl": 9, "openrlhf": 9, "slime": 6}
    assert per_peer(GROUP_OF_ONE_IDS) == {"verl": 5, "trl": 3, "openrlhf": 2, "slime": 1}
    assert per_peer(ids(KLS)) == {"verl": 18, "openrlhf": 9, "slime": 24}


# Settings of the manifest that say which function was run or that were switched off, not a number of ours
STRUCTURE = {"rollout_correction", "global_batch_info", "calculate_per_token_loss", "custom_tis", "use_tis"}
STRUCTURE |= {"policy_loss_type", "advantage_estimator", "enable_vllm_is_correction", "vllm_is_correction_type"}
STRUCTURE |= {"use_vllm", "vllm_importance_sampling_correction"}


@pytest.mark.parametrize("case_id", ids(LOSSES))
def test_the_table_holds_the_peers_settings(case_id: str):
    loss = LOSSES[variant_of(case_id)]
    theirs = golden.manifest()[case_id]["hyperparameters"]
    theirs = theirs | theirs.get("global_batch_info", {})
    ours = golden.settings(loss)
    for name, value in theirs.items():
        if name in ("loss_agg_mode", "loss_type", "critic_type"):
            assert loss.choices.aggregation is golden.AGGREGATIONS[value]
        elif name in ("max_completion_length", "generate_max_length"):
            assert loss.choices.aggregation is not constant or ours[name] == value
        elif name not in STRUCTURE:
            assert ours[name] == value, name


# --- The comparison can fail


def pessimism_reversed(ratio: Tensor, advantages: Tensor) -> Tensor:
    """PPO's clip with max in the place of min."""
    return torch.maximum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def gate_without_sign(ratio: Tensor, advantages: Tensor) -> Tensor:
    """A clip on both sides, whatever the sign of the advantage."""
    return ratio.clamp(0.8, 1.2) * advantages


def to(**change: Any) -> Callable[[Loss], Loss]:
    """A mutation: other choices."""
    return lambda loss: replace(loss, choices=replace(loss.choices, **change))


def corrected_by(**change: Any) -> Callable[[Loss], Loss]:
    """A mutation: another correction."""

    def mutate(loss: Loss) -> Loss:
        assert loss.choices.correction is not None
        return to(correction=replace(loss.choices.correction, **change))(loss)

    return mutate


WRONG: list[tuple[str, str, Callable[[Loss], Loss]]] = [
    ("low and high swapped", "verl/vanilla_dapo@extreme", to(gate=Clip(0.28, 0.2, dual=10.0))),
    ("max for min", "trl/grpo@extreme", to(gate=pessimism_reversed)),
    ("clip without sign", "trl/grpo@extreme", to(gate=gate_without_sign)),
    ("no clip", "trl/grpo@mild", to(gate=no_gate)),
    ("clip off by 1e-5", "trl/grpo@extreme", to(gate=Clip(0.2, 0.20001))),
    ("no dual clip", "verl/vanilla_default@extreme", to(gate=Clip())),
    ("dual clip where there is none", "openrlhf/ppo_token@extreme", to(gate=Clip(dual=3.0))),
    ("dual clip at another place", "trl/dapo_delta@extreme", to(gate=Clip(0.2, 0.28, dual=3.0))),
    ("token ratio for a sequence's", "trl/gspo_wide@extreme", to(ratio=token)),
    ("product for mean", "trl/gspo_wide@extreme", to(ratio=sequence)),
    ("mean for product", "trl/dapo_is_sequence_truncate@stale", corrected_by(ratio=sequence_mean)),
    ("token weight for a sequence's", "trl/dapo_is_sequence_truncate@stale", corrected_by(ratio=token)),
    ("no correction", "oat/grpo_tis@stale", to(correction=None)),
    ("correction at another bound", "oat/grpo_tis@stale", corrected_by(high=3.0)),
    ("clamp for drop", "verl/decoupled_ppo_token_icepop@stale", corrected_by(outside="clamp")),
    ("drop for clamp", "openrlhf/tis@stale", corrected_by(outside="drop")),
    ("no lower bound", "openrlhf/tis@stale", corrected_by(low=0.0)),
    ("anchor on the old policy", "verl/bypass_ppo_clip@stale", lambda loss: replace(loss, behavior="old_logp")),
    ("anchor on the sampler", "oat/grpo_tis@stale", to(anchor="behavior")),
    ("no KL penalty", "trl/grpo_kl@mild", to(kl=None)),
    ("k2 for k3", "trl/grpo_kl@mild", to(kl=KLPenalty(0.04, "k2"))),
    ("KL penalty weighted", "trl/grpo_kl@mild", to(kl=KLPenalty(0.04, "k3", weighted=True))),
    ("KL penalty not weighted", "trl/grpo_kl_biascorr@mild", to(kl=KLPenalty(0.04, "k3"))),
    ("T_max is the width", "trl/dr_grpo@mild", lambda loss: replace(loss, max_length=None)),
    ("tokens of the part", "verl/vanilla_globaltokens@extreme", lambda loss: replace(loss, tokens=None)),
    ("not divided by the responses", "slime/grpo@mild", lambda loss: replace(loss, divide=1.0)),
    ("one batch for two parts", "trl/ga2_grpo@mild", lambda loss: replace(loss, parts=(), divide=1.0)),
]


@pytest.mark.parametrize(("case_id", "mutate"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_loss_is_rejected(case_id: str, mutate: Callable[[Loss], Loss]):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_loss(case_id, mutate(LOSSES[variant_of(case_id)]))


@pytest.mark.parametrize("wrong", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize(
    "case_id", ["trl/grpo@mild", "trl/dapo@mild", "trl/dr_grpo@mild", "verl/vanilla_seqsum@extreme"]
)
def test_another_aggregation_is_rejected(case_id: str, wrong: Callable[[Tensor, Totals], Tensor]):
    loss = LOSSES[variant_of(case_id)]
    if loss.choices.aggregation is wrong:
        return
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_loss(case_id, to(aggregation=wrong)(loss))


@pytest.mark.parametrize("case_id", ["trl/grpo_kl@mild", "trl/grpo_kl_biascorr@mild", "slime/grpo_kl_unbiased@mild"])
def test_a_kl_penalty_in_the_other_direction_is_rejected(case_id: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rlnotes.objectives.loss, "kl_estimate", lambda x, estimator: kl_estimate(-x, estimator))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_loss(case_id, LOSSES[variant_of(case_id)])


def test_a_weight_of_behavior_over_proximal_is_rejected():
    def reversed_token(log_ratio: Tensor, mask: Tensor) -> Tensor:
        return token(-log_ratio, mask)

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_loss("oat/grpo_tis@stale", corrected_by(ratio=reversed_token)(LOSSES["oat/grpo_tis"]))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_weights("verl/weights_token_tis@stale", Correction(2.0, ratio=reversed_token))


def scaled(rewards: Any, group_size: int, ddof: int = 1, eps: float = 1e-6, eps_inside: bool = False) -> Any:
    return group_mean_std(rewards, group_size, ddof, eps, eps_inside)


WRONG_ADVANTAGES: dict[str, tuple[str, golden.Advantage]] = {
    "ddof 0": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g, ddof=0)),
    "eps inside": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g, eps=1e-4, eps_inside=True)),
    "another eps": ("trl/adv_group@mild", lambda r, g: scaled(r, g, eps=1e-6)),
    "no std": ("verl/adv_grpo@mild", ADVANTAGES["verl/adv_drgrpo"]),
    "ddof 0, float32": ("slime/adv_grpo@mild", lambda r, g: scaled(r, g, ddof=0)),
    "batch's std, ddof 0": ("trl/adv_batch@mild", lambda r, g: group_mean_batch_std(r, g, ddof=0)),
    "group's std for the batch's": ("trl/adv_batch@mild", ADVANTAGES["trl/adv_group"]),
    "mean with itself": ("verl/adv_rloo@mild", ADVANTAGES["verl/adv_drgrpo"]),
    "mean without itself": ("verl/adv_drgrpo@mild", leave_one_out),
    "groups of two": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g // 2)),
}


@pytest.mark.parametrize(("case_id", "advantage"), WRONG_ADVANTAGES.values(), ids=WRONG_ADVANTAGES)
def test_a_wrong_advantage_is_rejected(case_id: str, advantage: golden.Advantage):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        golden.assert_same_advantages(case_id, advantage)


WRONG_KLS: dict[str, tuple[str, KL, int]] = {
    "k1 reversed": ("verl/kl_k1@mild", KL("k1"), -1),
    "k2 reversed": ("verl/kl_k2@mild", KL("k2", "k1"), -1),
    "k3 reversed": ("verl/kl_k3@mild", KL("k3"), -1),
    "k3 reversed, float32": ("slime/kl_k3@mild", KL("k3", float32=True), -1),
    "k2 for k3": ("verl/kl_k3@mild", KL("k2"), 1),
    "gradient of k3": ("verl/kl_k3+@mild", KL("k3", limit=10), 1),
    "not weighted": ("slime/kl_k3_unbiased@mild", KL("k3", float32=True), 1),
    "limit not known": ("verl/kl_k3@extreme", KL("k3"), 1),
    "limit too low": ("verl/kl_k3@extreme", KL("k3", limit=1), 1),
}


@pytest.mark.parametrize(("case_id", "kl", "sign"), WRONG_KLS.values(), ids=WRONG_KLS)
def test_a_wrong_kl_estimate_is_rejected(case_id: str, kl: KL, sign: int):
    with pytest.raises(AssertionError):
        golden.assert_same_kl(case_id, kl, sign)


# --- Outside the mask


@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")], ids=str)
@pytest.mark.parametrize("case_id", [case_id for case_id in ids(LOSSES) if batch_of(case_id) in ("mild", "toolmask")])
def test_what_stands_outside_the_mask_does_not_matter(case_id: str, garbage: float):
    loss = LOSSES[variant_of(case_id)]
    tensors = golden.batch_arrays(batch_of(case_id), loss.behavior, loss.choices.needs_proximal)
    mask = tensors["mask"]
    tensors["advantages"] = tensors["advantages"][:, None].expand(mask.shape)
    spoilt = {key: torch.where(mask, value, garbage) for key, value in tensors.items() if key != "mask"}
    value, gradient = golden.loss_and_gradient(loss, tensors)
    spoilt_value, spoilt_gradient = golden.loss_and_gradient(loss, spoilt | {"mask": mask})
    assert spoilt_value == value
    np.testing.assert_array_equal(spoilt_gradient, gradient)
    assert (gradient[~mask.numpy()] == 0).all()


# --- Parts and precision


@pytest.mark.parametrize("choices", [GRPO, PPO_CLIP, DR_GRPO, replace(GRPO, aggregation=response_sum)])
def test_losses_of_parts_add_up_to_the_loss_of_the_whole(choices: Choices):
    tensors = golden.batch_arrays("mild")
    whole = Totals.of(tensors["mask"], 64)
    parts = [{key: value[rows] for key, value in tensors.items()} for rows in (slice(0, 5), slice(5, 12))]
    total = sum(float(policy_loss(choices, golden.batch(part, whole))) for part in parts)
    expected = float(policy_loss(choices, golden.batch(tensors, whole)))
    np.testing.assert_allclose(total, expected, rtol=1e-12)


@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
def test_a_float64_loss_is_as_precise_as_float64(aggregation: Callable[[Tensor, Totals], Tensor]):
    """A response of three tokens: 1/3 in float32 is off by 1e-8 of itself."""
    zeros = torch.zeros(1, 3, dtype=torch.float64)
    mask = torch.ones(1, 3, dtype=torch.bool)
    batch = Batch(zeros, mask, torch.ones(1, dtype=torch.float64), logp_behavior=zeros)
    expected = -3.0 if aggregation is response_sum else -1.0
    loss = float(policy_loss(replace(GRPO, aggregation=aggregation), batch))
    np.testing.assert_allclose(loss, expected, rtol=1e-15)


# --- Clip fractions

CLIP_FRACTIONS = {
    "trl/dapo@extreme": ("clip_ratio/region_mean",),
    "trl/grpo@stale": ("clip_ratio/region_mean",),
    "openrlhf/ppo_token@extreme": ("clip_ratio",),
    # verl counts what the dual clip holds back apart
    "verl/vanilla_default@extreme": ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"),
    "verl/bypass_ppo_clip@stale": ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"),
}


@pytest.mark.parametrize("case_id", CLIP_FRACTIONS)
def test_the_no_gradient_fraction_is_the_peers_clip_fraction(case_id: str):
    loss = LOSSES[variant_of(case_id)]
    batch = golden.batch(golden.batch_arrays(batch_of(case_id), loss.behavior))
    # the libraries divide by all tokens, we by those with an advantage
    active = float((batch.mask & (batch.token_advantages != 0)).sum() / batch.mask.sum())
    expected = sum(golden.manifest()[case_id]["metrics"][name] for name in CLIP_FRACTIONS[case_id])
    np.testing.assert_allclose(golden.no_gradient(loss.choices, batch) * active, expected, rtol=1e-6)
