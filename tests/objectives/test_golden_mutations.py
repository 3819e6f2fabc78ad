"""A wrong loss, weight, advantage, KL estimate, penalty or filter does not pass for a peer's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import rlnotes.objectives.loss
from rlnotes.estimators.baselines import group_mean, group_mean_batch_std, group_mean_std, leave_one_out
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.objectives import KLPenalty
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, Correction, Soft, no_gate
from rlnotes.objectives.masks import ClipMask, DivergenceMask, Every, ProximalMask
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from rlnotes.objectives.shaping import OverlongPenalty, informative
from tests.golden import tables, variant_of
from tests.golden.comparison import assert_same_loss
from tests.golden.losses import LOSSES, Loss, to, vespo_gate
from tests.golden.tables import ADVANTAGES, KL

# --- Losses


def pessimism_reversed(ratio: Tensor, advantages: Tensor) -> Tensor:
    """PPO's clip with max in the place of min."""
    return torch.maximum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def gate_without_sign(ratio: Tensor, advantages: Tensor) -> Tensor:
    """A clip on both sides, whatever the sign of the advantage."""
    return ratio.clamp(0.8, 1.2) * advantages


def soft_without_factor(ratio: Tensor, advantages: Tensor) -> Tensor:
    """SAPO without its 4 / tau."""
    return Soft()(ratio, advantages) * torch.where(advantages > 0, 1.0, 1.05) / 4


def cap_with_gradient(ratio: Tensor, advantages: Tensor) -> Tensor:
    """The value of Cap(high=3.0), whose gradient is 0 where the cap holds."""
    return ratio.clamp(max=3.0) * advantages


def vespo_signs_swapped(ratio: Tensor, advantages: Tensor) -> Tensor:
    """VESPO with the numbers for A < 0 where A > 0."""
    return -vespo_gate(ratio, -advantages)


def corrected_by(**change: Any) -> Callable[[Loss], Loss]:
    """A mutation: another correction."""

    def mutate(loss: Loss) -> Loss:
        assert loss.choices.correction is not None
        return to(correction=replace(loss.choices.correction, **change))(loss)

    return mutate


MAX, AVG = DivergenceMask(0.125, "k2", "max"), DivergenceMask(0.02, "k3", "mean")

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
    ("temperatures swapped", "verl/sapo_default@mild", to(gate=Soft(1.05, 1.0))),
    ("one temperature", "trl/sapo@mild", to(gate=Soft(1.0, 1.0))),
    ("temperature off by 1e-5", "verl/sapo_sharp@extreme", to(gate=Soft(2.00001, 5.0))),
    ("soft gate without 4 / tau", "verl/sapo_default@mild", to(gate=soft_without_factor)),
    ("hard gate for a soft one", "trl/sapo@extreme", to(gate=Clip())),
    ("cap off by 1e-5", "verl/cispo_default@extreme", to(gate=Cap(low=0.8, high=1.20001))),
    ("cap without a lower end", "verl/cispo_default@extreme", to(gate=Cap(high=1.2))),
    ("cap with a lower end", "verl/cispo_onesided@extreme", to(gate=Cap(low=0.8, high=5.0))),
    ("cap at 1 + epsilon", "trl/cispo_eps0.28@onpolicy", to(gate=Cap(high=1.28))),
    ("cap at epsilon", "slime/cispo@extreme", to(gate=Cap(high=4.0))),
    ("no cap", "trl/cispo_eps5@extreme", to(gate=no_gate)),
    ("tokens' mean for the responses'", "slime/cispo@mild", to(aggregation=token_mean)),
    ("clip for a cap", "verl/cispo_default@extreme", to(gate=Clip())),
    ("no gradient at the cap", "stable_rl/pg_no_mask@extreme", to(gate=cap_with_gradient)),
    ("an objective's value", "trl/cispo_eps5@mild", lambda loss: replace(loss, value="objective")),
    ("a score's value", "trl/dapo@mild", lambda loss: replace(loss, value="score")),
    ("cap from the old policy", "verl/bypass_pg_token_tis@stale", lambda loss: replace(loss, behavior="old_logp")),
    ("token's cap for a sequence's", "verl/bypass_pg_seq_tis@stale", to(ratio=token)),
    ("sequence's ratio T times", "verl/bypass_pg_seq_tis@stale", to(aggregation=response_sum)),
    ("no cap on the sampler's ratio", "verl/bypass_pg_token_tis@stale", to(gate=Cap(high=1e9))),
    ("a cap where there is none", "verl/bypass_pg_is_untruncated@stale", to(gate=Cap(high=2.0))),
    ("VESPO's signs swapped", "trl/vespo@mild", to(gate=vespo_signs_swapped)),
    ("VESPO on tokens", "trl/vespo@mild", to(ratio=token)),
    ("no mask", "stable_rl/ppo@extreme", to(keep=None)),
    ("mask with low and high swapped", "stable_rl/ppo_c5@extreme", to(keep=ClipMask(0.28, 0.2))),
    ("mask from the old policy", "stable_rl/ppo@stale", to(keep=ProximalMask())),
    ("mask from the sampler", "stable_rl/ppo_recompute@stale", to(keep=ClipMask())),
    ("a mask where there is none", "stable_rl/pg_no_mask@extreme", to(keep=ClipMask())),
    ("another cap behind a mask", "stable_rl/ppo@extreme", to(gate=Cap(high=5.0))),
    ("divided by the responses", "stable_rl/ppo_sumnorm@mild", lambda loss: replace(loss, divide=1.0)),
    ("divided by what is kept", "verl/trm_max_divideN@stale", to(divide_by="kept")),
    ("divided by all, where kept is meant", "verl/trm_max_divideAccepted@stale", to(divide_by="all")),
    ("no trust region", "verl/trm_avg_divideN@stale", to(keep=None)),
    ("max for mean", "verl/trm_avg_divideN@stale", to(keep=replace(AVG, over="max"))),
    ("mean for max", "verl/trm_max_divideAccepted@stale", to(keep=replace(MAX, over="mean"))),
    ("tokens for responses", "verl/trm_max_divideN@stale", to(keep=replace(MAX, over="token"))),
    ("one condition of two", "verl/trm_both_divideN@stale", to(keep=MAX)),
    ("a trust region around pi_k", "verl/trm_avg_divideAccepted@stale", to(keep=replace(AVG, policy="proximal"))),
    ("another trust region", "verl/trm_both_divideAccepted@stale", to(keep=Every((MAX, replace(AVG, delta=0.01))))),
    ("a capped weight in a trust region", "verl/trm_max_divideN@stale", to(gate=Cap(high=1.05))),
    ("one batch for two parts", "trl/ga2_grpo@mild", lambda loss: replace(loss, parts=(), divide=1.0)),
]


@pytest.mark.parametrize(("case_id", "mutate"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_loss_is_rejected(case_id: str, mutate: Callable[[Loss], Loss]):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_loss(case_id, mutate(LOSSES[variant_of(case_id)]))


@pytest.mark.parametrize("wrong", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize(
    "case_id", ["trl/grpo@mild", "trl/dapo@mild", "trl/dr_grpo@mild", "verl/vanilla_seqsum@extreme"]
)
def test_another_aggregation_is_rejected(case_id: str, wrong: Callable[[Tensor, Totals], Tensor]):
    loss = LOSSES[variant_of(case_id)]
    if loss.choices.aggregation is wrong:
        return
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_loss(case_id, to(aggregation=wrong)(loss))


@pytest.mark.parametrize("case_id", ["trl/grpo_kl@mild", "trl/grpo_kl_biascorr@mild", "slime/grpo_kl_unbiased@mild"])
def test_a_kl_penalty_in_the_other_direction_is_rejected(case_id: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rlnotes.objectives.loss, "kl_estimate", lambda x, estimator: kl_estimate(-x, estimator))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_loss(case_id, LOSSES[variant_of(case_id)])


def test_a_weight_of_behavior_over_proximal_is_rejected():
    def reversed_token(log_ratio: Tensor, mask: Tensor) -> Tensor:
        return token(-log_ratio, mask)

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_loss("oat/grpo_tis@stale", corrected_by(ratio=reversed_token)(LOSSES["oat/grpo_tis"]))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tables.assert_same_weights("verl/weights_token_tis@stale", Correction(high=2.0, ratio=reversed_token))


NORM = Correction(high=2.0, normalised=True)
WRONG_WEIGHTS: dict[str, tuple[str, Correction]] = {
    "not over the mean": ("verl/weights_token_tis_norm@stale", Correction(high=2.0)),
    "bounded after the mean": ("verl/weights_token_tis_norm@stale", replace(NORM, high=1e9)),
    "tokens for responses": ("verl/weights_seq_tis_norm@stale", NORM),
    "responses for tokens": ("verl/weights_token_tis_norm@stale", replace(NORM, ratio=sequence)),
    "geometric mean for product": ("verl/weights_seq_tis_norm@stale", replace(NORM, ratio=sequence_mean)),
    "not over the mean, slime": ("slime/mis_truncate_token_norm@stale", Correction(high=2.0)),
    "a lower end, slime": ("slime/mis_truncate_token_norm@stale", replace(NORM, low=0.5)),
    "over the mean, slime": ("slime/mis_mask_token_veto@stale", NORM),
}


@pytest.mark.parametrize(("case_id", "correction"), WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS)
def test_a_wrong_weight_is_rejected(case_id: str, correction: Correction):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tables.assert_same_weights(case_id, correction)


def test_a_mean_over_the_tokens_of_all_responses_is_rejected(monkeypatch: pytest.MonkeyPatch):
    """verl averages a response's weight over responses, not over their tokens."""
    monkeypatch.setattr(Correction, "mean", lambda self, x, mask: float(self._bounded(x, mask)[mask].mean()))
    tables.assert_same_weights("verl/weights_token_tis_norm@stale", NORM)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tables.assert_same_weights("verl/weights_seq_tis_norm@stale", replace(NORM, ratio=sequence))


def scaled(rewards: Any, group_size: int, ddof: int = 1, eps: float = 1e-6, eps_inside: bool = False) -> Any:
    return group_mean_std(rewards, group_size, ddof, eps, eps_inside)


WRONG_ADVANTAGES: dict[str, tuple[str, tables.Advantage]] = {
    "ddof 0": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g, ddof=0)),
    "eps inside": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g, eps=1e-4, eps_inside=True)),
    "another eps": ("trl/adv_group@mild", lambda r, g: scaled(r, g, eps=1e-6)),
    "no std": ("verl/adv_grpo@mild", group_mean),
    "ddof 0, float32": ("slime/adv_grpo@mild", lambda r, g: scaled(r, g, ddof=0)),
    "batch's std, ddof 0": ("trl/adv_batch@mild", lambda r, g: group_mean_batch_std(r, g, ddof=0)),
    "group's std for the batch's": ("trl/adv_batch@mild", ADVANTAGES["trl/adv_group"]),
    "mean with itself": ("verl/adv_rloo@mild", ADVANTAGES["verl/adv_drgrpo"]),
    "mean without itself": ("verl/adv_drgrpo@mild", leave_one_out),
    "another eps, understand-r1-zero": ("r1zero/adv_grpo@mild", lambda r, g: scaled(r, g, eps=1e-4)),
    "ddof 0, understand-r1-zero": ("r1zero/adv_grpo@extreme", lambda r, g: scaled(r, g, ddof=0)),
    "std where there is none": ("r1zero/adv_drgrpo@mild", scaled),
    "groups of two": ("verl/adv_grpo@mild", lambda r, g: scaled(r, g // 2)),
}


@pytest.mark.parametrize(("case_id", "advantage"), WRONG_ADVANTAGES.values(), ids=WRONG_ADVANTAGES)
def test_a_wrong_advantage_is_rejected(case_id: str, advantage: tables.Advantage):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tables.assert_same_advantages(case_id, advantage)


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
        tables.assert_same_kl(case_id, kl, sign)


WRONG_PENALTIES = {
    "no floor": ("trl/overlong@overlong", OverlongPenalty(20, 4, floor=False)),
    "a floor where there is none": ("verl/overlong@overlong", OverlongPenalty(20, 4)),
    "another buffer": ("openrlhf/overlong@overlong", OverlongPenalty(20, 5)),
    "another limit": ("openrlhf/overlong@overlong", OverlongPenalty(21, 4)),
}


@pytest.mark.parametrize(("case_id", "penalty"), WRONG_PENALTIES.values(), ids=WRONG_PENALTIES)
def test_a_wrong_penalty_is_rejected(case_id: str, penalty: OverlongPenalty):
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        tables.assert_same_penalties(case_id, penalty)


WRONG_FILTERS: dict[str, tuple[str, tables.Filter]] = {
    "no threshold": ("slime/dynamic_filter@dynfilter", informative),
    "a threshold": ("verl/dynamic_filter@dynfilter", partial(informative, threshold=1e-6)),
    "the spread for the mean": ("openrlhf/dynamic_filter@dynfilter", informative),
    "the mean for the spread": ("verl/dynamic_filter@dynfilter", partial(informative, rule="mean")),
    "the mean for the spread, slime": ("slime/dynamic_filter@dynfilter", partial(informative, rule="mean")),
}


@pytest.mark.parametrize(("case_id", "keep"), WRONG_FILTERS.values(), ids=WRONG_FILTERS)
def test_a_wrong_filter_is_rejected(case_id: str, keep: tables.Filter):
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        tables.assert_same_groups(case_id, keep)
