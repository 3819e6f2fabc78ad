"""Small inputs from public threads on what people get wrong, with the right values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import KLEstimator, kl, kl_estimate
from rlnotes.objectives import DR_GRPO, GRPO, PPO_CLIP, Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip, Correction, no_gate
from rlnotes.objectives.ratios import sequence, sequence_mean
from tests import golden

NOT_COVERED = {
    "temperature_missing": "about the sampler's log-probabilities, not about a loss",
    "top_p_processed_logprobs": "about the sampler's log-probabilities, not about a loss",
    "sapo_missing_advantage": "SAPO: another gate",
    "cispo_epsilon_convention": "CISPO: another gate",
}
COVERED = {
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


def test_every_issue_case_is_covered_or_named():
    assert sorted([*COVERED, *NOT_COVERED]) == sorted(golden.issue_cases())


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


def test_truncated_in_denominator():
    """A response that is masked out leaves the batch, and with it the count of tokens."""
    given, right = case("truncated_in_denominator")
    mask = lengths_mask([given["total_tokens"] - given["truncated_tokens"]])
    loss = policy_loss(PPO_CLIP, batch(zeros(*mask.shape), mask, [-given["per_token_loss"]]))
    np.testing.assert_allclose(float(loss.detach()), right, rtol=1e-6)


def test_drgrpo_missing_batch_mean():
    given, right = case("drgrpo_missing_batch_mean")
    mask = lengths_mask([given["length"]] * given["B"], given["T_max"])
    loss = policy_loss(DR_GRPO, batch(zeros(*mask.shape), mask, [-given["per_token_loss"]] * given["B"]))
    np.testing.assert_allclose(float(loss.detach()), right, rtol=1e-6)


def test_k1_bounds_inverted():
    """The band of a correction is one on the weight itself, not on 1 / weight."""
    given, right = case("k1_bounds_inverted")
    log_ratio = torch.tensor([[given["ratio"]]]).log()
    weight = Correction(given["upper"], given["lower"], "drop")(log_ratio, lengths_mask([1]))
    assert bool(weight > 0) is right["kept"]


def test_seq_mask_tis_unclamped():
    given, right = case("seq_mask_tis_unclamped")
    log_ratio = torch.tensor([given["token_ratios"]], dtype=torch.float64).log()
    weight = Correction(given["high"], given["low"])(log_ratio, lengths_mask([2]))
    np.testing.assert_allclose(weight[0], right, rtol=1e-12)


def test_rejected_tokens_denominator():
    """A token of weight 0 stays in the denominator."""
    given, right = case("rejected_tokens_denominator")
    log_ratio = torch.tensor([given["log_ratios"]], dtype=torch.float64)
    low, high = given["band"]
    correction = Correction(high, low, "drop")
    mask = lengths_mask([5])
    assert (correction(log_ratio, mask)[0] > 0).tolist() == right["kept"]
    choices = replace(PPO_CLIP, anchor="proximal", gate=no_gate, correction=correction)
    made = batch(log_ratio, mask, [given["per_token_objective"]], logp_proximal=log_ratio)
    np.testing.assert_allclose(float(policy_loss(choices, made)), -right["divide_by_all"], rtol=1e-6)


def test_clip_fraction_definition():
    given, right = case("clip_fraction_definition")
    choices = replace(GRPO, gate=Clip(given["eps"], given["eps"]))
    for (ratio, advantage), closed in zip(given["rows"], right, strict=True):
        log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log()
        assert bool(golden.no_gradient(choices, batch(log_ratio, lengths_mask([1]), [advantage]))) is closed


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
        choices = Choices(ratio=sequence_mean, gate=Clip(high=high))
        assert golden.no_gradient(choices, made) == closed


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
        (Correction(1e9, ratio=sequence), "sequence_ratio"),
        (Correction(cap, ratio=sequence_mean), "geometric_ratio"),
        (Correction(cap, outside="drop", ratio=sequence), "sequence_mask_weight"),
        (Correction(cap, ratio=sequence), "sequence_truncate_weight"),
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
