"""The loss on batches small enough to check by hand, and the batches that it refuses."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlnotes.objectives import (
    CISPO,
    DAPO,
    DECOUPLED_PPO,
    DR_GRPO,
    GRPO,
    GSPO,
    MINIRL,
    MINIRL_TIS,
    PG_IS,
    PPO_CLIP,
    RLOO,
    SAPO,
    VANILLA_PG,
    Batch,
    Choices,
    KLPenalty,
    policy_loss,
)
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.masks import ClipMask


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


@pytest.mark.parametrize(
    ("one", "other", "choices"),
    [
        (VANILLA_PG, RLOO, {"advantage"}),
        (PPO_CLIP, GRPO, {"aggregation"}),
        (GRPO, DR_GRPO, {"advantage", "aggregation"}),
        (PPO_CLIP, DAPO, {"gate", "dynamic_sampling"}),
        (GRPO, GSPO, {"ratio", "gate"}),
        (GRPO, SAPO, {"gate"}),
        (PG_IS, CISPO, {"gate"}),
        (PG_IS, MINIRL, {"keep"}),
        (MINIRL, MINIRL_TIS, {"gate"}),
        (CISPO, MINIRL_TIS, {"keep"}),
        (PG_IS, DECOUPLED_PPO, {"anchor", "gate", "correction"}),
    ],
)
def test_siblings_differ_in_the_choices_they_should(one: Choices, other: Choices, choices: set[str]):
    assert {name for name in one.__dataclass_fields__ if getattr(one, name) != getattr(other, name)} == choices


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
        (dict(entropy=torch.zeros(2)), r"entropy has shape \(2,\); logp has \(2, 3\)"),
        (dict(entropy=poisoned(NAN, 1, 1)), r"entropy is nan at \[1, 1\]"),
        (dict(logp_behavior=batch().logp.requires_grad_()), r"pass logp_behavior\.detach\(\)"),
    ],
)
def test_batches_that_cannot_be_right_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        batch(**changes)


def test_what_an_objective_lacks_is_named():
    with pytest.raises(ValueError, match="logp_proximal is missing; this objective needs it"):
        policy_loss(replace(GRPO, anchor="proximal"), batch())
    with pytest.raises(ValueError, match="logp_reference is missing"):
        policy_loss(replace(GRPO, kl=KLPenalty(0.1)), batch())
    with pytest.raises(ValueError, match="entropy is missing"):
        policy_loss(replace(GRPO, entropy=0.1), batch())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choices(anchor="old"), "anchor is 'old'; choose 'behavior', 'proximal' or 'current'"),  # pyright: ignore
        (lambda: Clip(epsilon_low=1.2), "epsilon_low is 1.2"),
        (lambda: Clip(epsilon_high=-0.1), "epsilon_high is -0.1"),
        (lambda: ClipMask(epsilon_low=1.2), "epsilon_low is 1.2"),
        (lambda: Clip(0.2, 0.2, dual=1.1), "dual is 1.1; it must be greater than 1 \\+ epsilon_high = 1.2"),
        (lambda: Choices(divide_by="some"), "divide_by is 'some'; choose 'all' or 'kept'"),  # pyright: ignore
        (lambda: Choices(entropy=-0.1), "entropy is -0.1; it must not be negative"),
        (lambda: KLPenalty(-0.1), "beta is -0.1; it must not be negative"),
        (lambda: KLPenalty(0.1, where="advantage"), "where is 'advantage'; choose 'loss' or 'reward'"),  # pyright: ignore
        (lambda: KLPenalty(0.1, weighted=True, where="reward"), "a reward has none: leave weighted out"),
    ],
)
def test_impossible_choices_are_refused(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()
