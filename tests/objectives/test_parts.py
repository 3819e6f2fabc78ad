"""A loss in parts is the loss of the whole; what stands outside the mask does not matter; float64 stays float64."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.objectives import GRPO, RECIPES, Batch, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.masks import ClipMask, not_truncated
from tests.golden import batch_of, comparison, ids, variant_of
from tests.golden.losses import LOSSES
from tests.objectives.batches import loss_and_gradient, tensors

Aggregation = Callable[[Tensor, Totals], Tensor]
AGGREGATIONS = [response_mean, constant, token_mean, response_sum]
MASKED = [case_id for case_id in ids(LOSSES) if batch_of(case_id) in ("mild", "toolmask")]


@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")], ids=str)
@pytest.mark.parametrize("case_id", MASKED)
def test_what_stands_outside_the_mask_does_not_matter(case_id: str, garbage: float):
    loss = LOSSES[variant_of(case_id)]
    made = comparison.batch_arrays(batch_of(case_id), loss.behavior, loss.choices.needs_proximal)
    mask = made["mask"]
    made["advantages"] = made["advantages"][:, None].expand(mask.shape)
    spoilt = {key: torch.where(mask, value, garbage) for key, value in made.items() if key != "mask"}
    value, gradient = comparison.loss_and_gradient(loss, made)
    spoilt_value, spoilt_gradient = comparison.loss_and_gradient(loss, spoilt | {"mask": mask})
    assert spoilt_value == value
    np.testing.assert_array_equal(spoilt_gradient, gradient)
    assert (gradient[~mask.numpy()] == 0).all()


@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")], ids=str)
@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_sees_what_stands_outside_the_mask(name: str, garbage: float):
    choices = replace(RECIPES[name], kl=KLPenalty(0.1), entropy=0.01)
    made = tensors()
    mask = made["mask"]
    per_token = {key for key, value in made.items() if value.shape == mask.shape} - {"mask"}
    clean = made | {key: torch.where(mask, made[key], 0.0) for key in per_token}
    spoilt = made | {key: torch.where(mask, made[key], garbage) for key in per_token}
    value, gradient = loss_and_gradient(choices, spoilt)
    expected, expected_gradient = loss_and_gradient(choices, clean)
    assert value == expected
    np.testing.assert_array_equal(gradient, expected_gradient)
    assert (gradient[~mask.numpy()] == 0).all()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("name", RECIPES)
def test_uneven_parts_add_up_to_the_whole_gradient_included(name: str, aggregation: Aggregation):
    choices = replace(RECIPES[name], aggregation=aggregation, kl=KLPenalty(0.1, weighted=True), entropy=0.01)
    made = tensors()
    whole = Totals.of(made["mask"], 64)
    expected, expected_gradient = loss_and_gradient(choices, made, whole)
    value, gradient = 0.0, []
    for rows in (slice(0, 1), slice(1, 6), slice(6, 8)):  # a response of 1 token; 5 responses; 2
        part = {key: tensor[rows] for key, tensor in made.items()}
        loss, of_part = loss_and_gradient(choices, part, whole)
        value += loss
        gradient.append(of_part)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate(gradient), expected_gradient, rtol=1e-12)
    # sizes of the part in the place of those of the whole are another loss
    own = sum(loss_and_gradient(choices, {k: t[rows] for k, t in made.items()})[0] for rows in (slice(5), slice(5, 8)))
    assert abs(own - expected) > 1e-4


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("keep", [not_truncated, ClipMask(0.1, 0.1)])
def test_divided_by_what_is_kept_parts_still_add_up(keep: Callable[[Batch], Tensor], aggregation: Aggregation):
    choices = replace(GRPO, aggregation=aggregation, keep=keep, divide_by="kept", kl=KLPenalty(0.1))
    made = tensors()
    kept = keep(Batch(**made))
    kept = made["mask"] & (kept if kept.dim() == 2 else kept[:, None])
    expected, expected_gradient = loss_and_gradient(choices, made)
    parts = [
        loss_and_gradient(choices, {key: tensor[rows] for key, tensor in made.items()}, Totals.of(kept))
        for rows in (slice(0, 3), slice(3, 8))
    ]
    np.testing.assert_allclose(sum(value for value, _ in parts), expected, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([gradient for _, gradient in parts]), expected_gradient, rtol=1e-12)
    assert (expected_gradient[~kept.numpy()] == 0).all()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_divided_by_what_is_kept_truncated_responses_are_as_if_absent(aggregation: Aggregation):
    made = tensors()
    rows = ~made["truncated"]
    absent = {key: tensor[rows] for key, tensor in made.items()}
    plain = replace(GRPO, aggregation=aggregation)
    kept, _ = loss_and_gradient(replace(plain, keep=not_truncated, divide_by="kept"), made)
    np.testing.assert_allclose(kept, loss_and_gradient(plain, absent)[0], rtol=1e-12)
    counted, _ = loss_and_gradient(replace(plain, keep=not_truncated), made)
    assert abs(counted) < abs(kept)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_float64_loss_is_as_precise_as_float64(aggregation: Aggregation):
    """A response of three tokens: 1/3 in float32 is off by 1e-8 of itself."""
    zeros = torch.zeros(1, 3, dtype=torch.float64)
    mask = torch.ones(1, 3, dtype=torch.bool)
    batch = Batch(zeros, mask, torch.ones(1, dtype=torch.float64), logp_behavior=zeros)
    expected = -3.0 if aggregation is response_sum else -1.0
    loss = float(policy_loss(replace(GRPO, aggregation=aggregation), batch))
    np.testing.assert_allclose(loss, expected, rtol=1e-15)
