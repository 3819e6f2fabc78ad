"""The loss on batches small enough to check by hand, and the batches that it refuses."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlnotes.objectives import DR_GRPO, GRPO, PPO_CLIP, RECIPES, Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip


def batch(**changes: Any) -> Batch:
    """Two responses of 1 and 3 tokens, at ratio 1, with advantages +1 and -1."""
    logp = torch.full((2, 3), -0.7, dtype=torch.float64)
    mask = torch.tensor([[True, False, False], [True, True, True]])
    advantages = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return replace(Batch(logp, mask, advantages, logp_behavior=logp.clone()), **changes)


def test_loss_0_and_a_gradient_at_ratio_1():
    """Two samples of action 0 from zero logits of size 2, advantages +1 and -1, each with logits of its own."""
    logits = torch.zeros(2, 2, requires_grad=True)
    logp = logits.log_softmax(-1)[:, :1]
    made = Batch(logp, torch.ones(2, 1, dtype=torch.bool), torch.tensor([1.0, -1.0]), logp.detach())
    loss = policy_loss(GRPO, made)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.tolist() == [[-0.25, 0.25], [0.25, -0.25]]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(response_mean, 0.0), (token_mean, 0.5), (response_sum, 1.0), (constant, 1 / 3)],
)
def test_what_the_aggregation_does_to_lengths_1_and_3(aggregation: Any, expected: float):
    loss = policy_loss(replace(GRPO, aggregation=aggregation), batch())
    assert loss.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("aggregation", [response_mean, token_mean, response_sum, constant])
def test_parts_add_up_to_the_whole(aggregation: Any):
    choices = replace(GRPO, aggregation=aggregation)
    logp = torch.linspace(-2, -0.1, 6, dtype=torch.float64).reshape(2, 3)
    whole = batch(logp=logp)
    totals = Totals.of(whole.mask)
    rows = [
        Batch(logp[i : i + 1], whole.mask[i : i + 1], whole.advantages[i : i + 1], logp[i : i + 1] - 0.3, totals=totals)
        for i in range(2)
    ]
    together = policy_loss(choices, replace(whole, logp_behavior=logp - 0.3))
    assert sum(policy_loss(choices, row).item() for row in rows) == pytest.approx(together.item(), abs=1e-12)


def test_siblings_differ_in_the_choices_they_should():
    def differences(a: Choices, b: Choices) -> set[str]:
        return {name for name in a.__dataclass_fields__ if getattr(a, name) != getattr(b, name)}

    assert differences(GRPO, DR_GRPO) == {"advantage", "aggregation"}
    assert differences(GRPO, PPO_CLIP) == {"aggregation"}
    assert list(RECIPES.values()) == [PPO_CLIP, GRPO, DR_GRPO]


NAN, INFINITY = math.nan, math.inf


def poisoned(value: float, row: int, column: int) -> Tensor:
    logp = batch().logp.clone()
    logp[row, column] = value
    return logp


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(logp=torch.zeros(3)), r"logp has shape \(3,\) and mask \(2, 3\)"),
        (dict(mask=torch.ones(2, 3)), r"mask has dtype torch\.float32; it must be bool"),
        (dict(advantages=torch.zeros(3)), r"advantages has shape \(3,\); it must be \(2,\), one per response"),
        (dict(advantages=torch.zeros(2, 1)), r"advantages has shape \(2, 1\)"),  # a column would broadcast unseen
        (dict(mask=torch.tensor([[True] * 3, [False] * 3])), "mask is empty in row 1"),
        (dict(logp_behavior=torch.zeros(2, 1)), r"logp_behavior has shape \(2, 1\); logp has \(2, 3\)"),
        (dict(logp=poisoned(NAN, 1, 2)), r"logp is nan at \[1, 2\], under the mask"),
        (dict(logp_behavior=poisoned(-INFINITY, 0, 0)), r"logp_behavior is -inf at \[0, 0\]"),
        (dict(advantages=torch.tensor([1.0, NAN])), r"advantages is nan at \[1, 0\]"),
        (dict(logp_behavior=batch().logp.requires_grad_()), r"pass logp_behavior\.detach\(\)"),
    ],
)
def test_batches_that_cannot_be_right_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        batch(**changes)


def test_what_an_objective_lacks_is_named():
    with pytest.raises(ValueError, match="logp_proximal is missing; this objective compares with it"):
        policy_loss(replace(GRPO, anchor="proximal"), batch())
    with pytest.raises(ValueError, match="logp_reference is missing"):
        policy_loss(replace(GRPO, kl=KLPenalty(0.1)), batch())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choices(anchor="old"), "anchor is 'old'; choose 'behavior' or 'proximal'"),  # pyright: ignore
        (lambda: Clip(low=1.2), "low is 1.2"),
        (lambda: Clip(high=-0.1), "high is -0.1"),
        (lambda: Clip(0.2, 0.2, dual=1.1), "dual is 1.1; it must be greater than 1 \\+ high = 1.2"),
        (lambda: KLPenalty(-0.1), "beta is -0.1; it must not be negative"),
    ],
)
def test_impossible_choices_are_refused(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()
