"""Small inputs from public threads on what people get wrong, with the right values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import KLEstimator, kl, kl_estimate
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.objectives import DR_GRPO, GRPO, PG_IS, PPO_CLIP, SAPO, Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, Correction, no_gate
from rlnotes.objectives.masks import not_truncated
from rlnotes.objectives.ratios import sequence, sequence_mean
from tests import golden
from tests.golden.comparison import no_gradient

COVERED = {
    "temperature_missing",
    "top_p_processed_logprobs",
    "sapo_missing_advantage",
    "cispo_epsilon_convention",
    "zero_loss_first_step",
    "k3_gradient",
    "bias_corrected_kl_on_policy",
    "truncated_in_denominator",
    "drgrpo_missing_batch_mean",
    "k1_bounds_inverted",
    "seq_mask_tis_unclamped",
    "rejected_tokens_denominator",
    "clip_fraction_definition",
    "ratio_always_one",
    "gspo_clip_range",
    "std_ddof_eps",
    "luspo_quadratic_length",
    "sequence_mask_drops_long",
    "extra_division_by_ga",
}


def case(name: str) -> tuple[Any, Any]:
    """Input and right values of an issue case."""
    found = golden.issue_cases()[name]
    return found["input"], found["right"]


def lengths_mask(lengths: list[int], width: int | None = None) -> Tensor:
    return torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]


def batch(log_ratio: Tensor, mask: Tensor, advantages: Any, **more: Any) -> Batch:
    """A batch whose behaviour has log-probability 0 everywhere, so that ``log_ratio`` is log pi."""
    zero = torch.zeros_like(log_ratio).detach()
    return Batch(log_ratio, mask, torch.as_tensor(advantages, dtype=torch.float64), logp_behavior=zero, **more)


def value_and_gradient(choices: Choices, made: Batch) -> tuple[float, Tensor]:
    loss = policy_loss(choices, made)
    (gradient,) = torch.autograd.grad(loss, made.logp)
    return float(loss.detach()), gradient


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64, requires_grad=True)


def test_every_issue_case_is_covered():
    assert sorted(COVERED) == sorted(golden.issue_cases())


@pytest.mark.parametrize(("choices", "name"), [(GRPO, "per_sequence_mean"), (PPO_CLIP, "token_mean")])
def test_zero_loss_first_step(choices: Choices, name: str):
    given, right = case("zero_loss_first_step")
    mask = lengths_mask(given["lengths"])
    value, gradient = value_and_gradient(choices, batch(zeros(*mask.shape), mask, given["advantages"]))
    np.testing.assert_allclose(value, right[f"loss_{name}"], atol=1e-7)
    expected = torch.tensor(right[f"grad_per_token_{name}"])[:, None] * mask
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_k3_gradient():
    given, right = case("k3_gradient")
    wrong = golden.issue_cases()["k3_gradient"]["wrong"]
    pi, ref = (torch.tensor(given[name], dtype=torch.float64) for name in ("pi", "ref"))
    logits = pi.log().requires_grad_()
    np.testing.assert_allclose(float(kl(pi.log(), ref.log())), right["KL_value"], rtol=1e-12)
    expectations: dict[KLEstimator, list[float]] = {"k1": wrong["k1"], "k2": right["k2"], "k3": wrong["k3"]}
    for estimator, expected in expectations.items():
        estimate = kl_estimate(logits.log_softmax(-1) - ref.log(), estimator)
        (gradient,) = torch.autograd.grad((pi * estimate).sum(), logits)
        np.testing.assert_allclose(gradient, expected, atol=1e-11)
    # "or k3 times the differentiable ratio": the way of KLPenalty(weighted=True), here one response per outcome
    logp = logits.log_softmax(-1)
    own = pi.log()[:, None]
    made = Batch(
        logp[:, None], own.isfinite(), torch.zeros_like(pi), logp_behavior=own, logp_reference=ref.log()[:, None]
    )
    each = [policy_loss(Choices(kl=KLPenalty(1.0, "k3", weighted=True)), one_row(made, i)) for i in range(3)]
    (gradient,) = torch.autograd.grad(torch.stack(each) @ pi, logits)
    np.testing.assert_allclose(gradient, right["grad_reverse_KL"], atol=1e-11)


def one_row(made: Batch, row: int) -> Batch:
    fields = ("logp", "mask", "advantages", "logp_behavior", "logp_reference")
    return Batch(**{name: getattr(made, name)[row : row + 1] for name in fields})


@pytest.mark.parametrize("weighted", [True, False])
def test_bias_corrected_kl_on_policy(weighted: bool):
    given, right = case("bias_corrected_kl_on_policy")
    wrong = golden.issue_cases()["bias_corrected_kl_on_policy"]["wrong"]
    reference = torch.full((1, 1), given["ref_minus_logp"], dtype=torch.float64)
    made = batch(zeros(1, 1), lengths_mask([1]), [0.0], logp_reference=reference)
    value, gradient = value_and_gradient(Choices(kl=KLPenalty(1.0, "k3", weighted)), made)
    np.testing.assert_allclose(value, right["value"], rtol=1e-12)
    np.testing.assert_allclose(float(gradient), right["grad"] if weighted else wrong["grad_plain_k3"], rtol=1e-12)


@pytest.mark.parametrize("divide_by", ["kept", "all"])
def test_truncated_in_denominator(divide_by: Any):
    """Dropped responses leave the count of tokens too, or do not, as ``divide_by`` says."""
    given, right = case("truncated_in_denominator")
    wrong = golden.issue_cases()["truncated_in_denominator"]["wrong"]
    mask = lengths_mask([given["total_tokens"] - given["truncated_tokens"], given["truncated_tokens"]])
    made = batch(zeros(*mask.shape), mask, [-given["per_token_loss"]] * 2, truncated=torch.tensor([False, True]))
    loss = policy_loss(replace(PPO_CLIP, keep=not_truncated, divide_by=divide_by), made)
    np.testing.assert_allclose(float(loss.detach()), right if divide_by == "kept" else wrong, rtol=1e-6)


def test_drgrpo_missing_batch_mean():
    given, right = case("drgrpo_missing_batch_mean")
    mask = lengths_mask([given["length"]] * given["B"], given["T_max"])
    loss = policy_loss(DR_GRPO, batch(zeros(*mask.shape), mask, [-given["per_token_loss"]] * given["B"]))
    np.testing.assert_allclose(float(loss.detach()), right, rtol=1e-6)


def test_k1_bounds_inverted():
    """The band of a correction is one on the weight itself, not on 1 / weight."""
    given, right = case("k1_bounds_inverted")
    log_ratio = torch.tensor([[given["ratio"]]]).log()
    weight = Correction(given["lower"], given["upper"], "drop")(log_ratio, lengths_mask([1]))
    assert bool(weight > 0) is right["kept"]


def test_seq_mask_tis_unclamped():
    given, right = case("seq_mask_tis_unclamped")
    log_ratio = torch.tensor([given["token_ratios"]], dtype=torch.float64).log()
    weight = Correction(low=given["low"], high=given["high"])(log_ratio, lengths_mask([2]))
    np.testing.assert_allclose(weight[0], right, rtol=1e-12)


@pytest.mark.parametrize("divide_by", ["all", "kept"])
def test_rejected_tokens_denominator(divide_by: Any):
    """A token of weight 0, or dropped by a mask, stays in the denominator unless ``divide_by`` says otherwise."""
    given, right = case("rejected_tokens_denominator")
    log_ratio = torch.tensor([given["log_ratios"]], dtype=torch.float64)
    low, high = given["band"]
    correction = Correction(low, high, "drop")
    mask = lengths_mask([5])
    kept = correction(log_ratio, mask) > 0
    assert kept[0].tolist() == right["kept"]
    choices = replace(PPO_CLIP, anchor="proximal", gate=no_gate, correction=correction)
    made = batch(log_ratio, mask, [given["per_token_objective"]], logp_proximal=log_ratio)
    np.testing.assert_allclose(float(policy_loss(choices, made)), -right["divide_by_all"], rtol=1e-6)
    masked = replace(choices, correction=Correction(high=1e9), keep=lambda _: kept, divide_by=divide_by)
    np.testing.assert_allclose(float(policy_loss(masked, made)), -right[f"divide_by_{divide_by}"], rtol=1e-6)


def test_clip_fraction_definition():
    given, right = case("clip_fraction_definition")
    choices = replace(GRPO, gate=Clip(given["eps"], given["eps"]))
    for (ratio, advantage), closed in zip(given["rows"], right, strict=True):
        log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log()
        assert bool(no_gradient(choices, batch(log_ratio, lengths_mask([1]), [advantage]))) is closed


def test_ratio_always_one():
    given, right = case("ratio_always_one")
    logp = torch.tensor([[given["logp"]]], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([given["A"]], dtype=torch.float64)
    made = Batch(logp, lengths_mask([1]), advantages, logp_behavior=logp.detach())
    value, gradient = value_and_gradient(GRPO, made)
    assert (value, float(gradient)) == (right["value"], right["grad"])


def test_gspo_clip_range():
    given, right = case("gspo_clip_range")
    mask = lengths_mask([given["length"]])
    log_ratio = torch.full(mask.shape, given["mean_log_ratio"], dtype=torch.float64)
    np.testing.assert_allclose(sequence_mean(log_ratio, mask)[0, 0], right["s"], rtol=1e-12)
    np.testing.assert_allclose(sequence(log_ratio, mask)[0, 0], right["product_ratio"], rtol=1e-12)
    made = batch(log_ratio, mask, [given["A"]])
    for high, closed in ((0.2, False), (right["eps_high"], right["clipped"])):
        choices = Choices(ratio=sequence_mean, gate=Clip(epsilon_high=high))
        assert no_gradient(choices, made) == closed


@pytest.mark.parametrize(
    ("name", "ddof", "eps", "eps_inside"),
    [("adv_trl_eps1e4", 1, 1e-4, False), ("adv_verl_eps1e6", 1, 1e-6, False), ("adv_seed_population", 0, 1e-6, True)],
)
def test_std_ddof_eps(name: str, ddof: int, eps: float, eps_inside: bool):
    given, right = case("std_ddof_eps")
    advantages = group_mean_std(np.array(given["rewards"]), 4, ddof, eps, eps_inside)
    np.testing.assert_allclose(advantages, right[name], rtol=1e-10)


def test_luspo_quadratic_length():
    """A sum over tokens weighs a response by its length, not by its length squared over the width."""
    given, right = case("luspo_quadratic_length")
    weights = response_sum(lengths_mask(given["lengths"], given["T"]), Totals(1, sum(given["lengths"]), given["T"]))
    np.testing.assert_allclose(weights.sum(-1), right, rtol=1e-6)


def test_sequence_mask_drops_long():
    given, right = case("sequence_mask_drops_long")
    mask = lengths_mask([given["length"]])
    log_ratio = torch.full(mask.shape, given["mean_log_diff"], dtype=torch.float64)
    cap = given["cap"]
    for correction, name in (
        (Correction(high=1e9, ratio=sequence), "sequence_ratio"),
        (Correction(high=cap, ratio=sequence_mean), "geometric_ratio"),
        (Correction(high=cap, outside="drop", ratio=sequence), "sequence_mask_weight"),
        (Correction(high=cap, ratio=sequence), "sequence_truncate_weight"),
    ):
        np.testing.assert_allclose(correction(log_ratio, mask), right[name], rtol=1e-12)


@pytest.mark.parametrize("aggregation", [token_mean, response_mean])
def test_extra_division_by_ga(aggregation: Any):
    """The losses of two micro-batches add up when both know the tokens of the whole; response means do not."""
    given, right = case("extra_division_by_ga")
    counts, sums = given["token_counts"], given["token_loss_sums"]
    totals = Totals(len(counts), sum(counts), max(counts))
    losses = []
    for count, total in zip(counts, sums, strict=True):
        made = batch(zeros(1, count), lengths_mask([count]), [-total / count], totals=totals)
        losses.append(float(policy_loss(replace(PPO_CLIP, aggregation=aggregation), made).detach()))
    mean_of_means = golden.issue_cases()["extra_division_by_ga"]["wrong"]["mean_of_means"]
    np.testing.assert_allclose(sum(losses), right if aggregation is token_mean else mean_of_means, rtol=1e-6)


def test_sapo_missing_advantage():
    given, right = case("sapo_missing_advantage")
    for row, loss in zip(given, right, strict=True):
        log_ratio = torch.tensor([[row["r"]]], dtype=torch.float64).log()
        assert (SAPO.gate.tau_positive if row["A"] > 0 else SAPO.gate.tau_negative) == row["tau"]  # pyright: ignore
        made = batch(log_ratio, lengths_mask([1]), [row["A"]])
        np.testing.assert_allclose(float(policy_loss(SAPO, made)), loss, rtol=1e-12)


@pytest.mark.parametrize(("offset", "name"), [(0.0, "weight_trl"), (1.0, "weight_verl")])
def test_cispo_epsilon_convention(offset: float, name: str):
    """A cap is the cap itself, as in TRL; others write it as an offset from 1."""
    given, right = case("cispo_epsilon_convention")
    log_ratio = torch.tensor([[given["ratio"]]], dtype=torch.float64).log().requires_grad_()
    choices = replace(PG_IS, gate=Cap(high=given["eps_high"] + offset))
    _, gradient = value_and_gradient(choices, batch(log_ratio, lengths_mask([1]), [1.0]))
    np.testing.assert_allclose(float(-gradient), right[name], rtol=1e-12)


def test_temperature_missing():
    """A trainer that scores as the sampler drew has ratio 1; one that forgets the temperature has not."""
    given, right = case("temperature_missing")
    wrong = golden.issue_cases()["temperature_missing"]["wrong"]
    logits = torch.tensor(given["logits"], dtype=torch.float64)
    drawn = SamplingTransform(given["temperature"]).log_probs(logits)
    np.testing.assert_allclose(drawn, right["logp"], rtol=1e-9)
    for temperature, expected in ((given["temperature"], right), (1.0, wrong)):
        scored = SamplingTransform(temperature).log_probs(logits)[:, None]
        made = Batch(scored, lengths_mask([1] * 3), torch.ones(3), logp_behavior=drawn[:, None])
        ratio = PG_IS.ratio(made.log_ratio("logp", "logp_behavior"), made.mask)[:, 0]
        np.testing.assert_allclose(ratio, expected["ratio_vs_sampler"], rtol=1e-9)


def test_top_p_processed_logprobs():
    """Sampled from 0.9 of the mass, renormalised, and scored with all of it: a ratio of 0.9 at every token."""
    given, right = case("top_p_processed_logprobs")
    wrong = golden.issue_cases()["top_p_processed_logprobs"]["wrong"]
    probs = [given["p_full"], given["kept_mass"] - given["p_full"], 1 - given["kept_mass"]]
    full = torch.tensor(probs, dtype=torch.float64).log()
    nucleus = SamplingTransform(top_p=0.85)
    mask = lengths_mask([given["length"]])
    drawn = nucleus.log_probs(full)[0].expand(mask.shape)
    for transform, expected in ((nucleus, right), (SamplingTransform(), wrong)):
        log_ratio = transform.log_probs(full)[0].expand(mask.shape) - drawn
        np.testing.assert_allclose(PG_IS.ratio(log_ratio, mask), expected["token_ratio"], rtol=1e-9)
        np.testing.assert_allclose(sequence(log_ratio, mask), expected["sequence_ratio"], rtol=1e-6)
