"""What is true of every objective with a trust region, at the edges too."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.objectives import (
    PG_IS,
    Batch,
)
from rlnotes.objectives.aggregations import Totals
from rlnotes.objectives.masks import DivergenceMask
from rlnotes.objectives.one_sided import OneSided, Relaxed
from rlnotes.objectives.recipes_trust_region import TRUST_REGION_RECIPES
from rlnotes.objectives.rows import RowDivergence
from tests.objectives.batches import Tensors, loss_and_gradient
from tests.objectives.by_hand import likely

BINARY_TV = DivergenceMask(0.15, "binary_tv", "token")


# --- All of them


@pytest.mark.parametrize("name", TRUST_REGION_RECIPES)
def test_the_gradient_is_that_of_the_loss(name: str):
    """By finite differences, where no token is near a threshold: the mask is a constant."""
    made, choices = likely(12, responses=12), TRUST_REGION_RECIPES[name]
    _, gradient = loss_and_gradient(choices, made)
    checked = 0
    for row, column in made["mask"].nonzero().tolist():
        values = []
        for step in (-1e-6, 1e-6):
            moved = made["logp"].clone()
            moved[row, column] += step
            values.append(loss_and_gradient(choices, made | dict(logp=moved))[0])
        np.testing.assert_allclose((values[1] - values[0]) / 2e-6, gradient[row, column], rtol=1e-6, atol=1e-8)
        checked += gradient[row, column] != 0
    assert checked > 3


@pytest.mark.parametrize("name", TRUST_REGION_RECIPES)
def test_parts_add_up_to_the_whole(name: str):
    made, choices = likely(13), TRUST_REGION_RECIPES[name]
    value, gradient = loss_and_gradient(choices, made)
    totals = Totals.of(made["mask"])
    parts = [{key: x[rows] for key, x in made.items()} for rows in (slice(0, 13), slice(13, 40))]
    found = [loss_and_gradient(choices, part, totals) for part in parts]
    np.testing.assert_allclose(sum(x[0] for x in found), value, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([x[1] for x in found]), gradient, rtol=1e-12)


@pytest.mark.parametrize("name", TRUST_REGION_RECIPES)
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_what_stands_outside_the_mask_does_not_matter(name: str, garbage: float):
    made, choices = likely(14), TRUST_REGION_RECIPES[name]
    spoilt: Tensors = dict(made)
    for field in ("logp", "logp_behavior", "logp_proximal", "divergence"):
        spoilt[field] = torch.where(made["mask"], made[field], garbage)
    value, gradient = loss_and_gradient(choices, made)
    ours, own = loss_and_gradient(choices, spoilt)
    assert ours == value
    np.testing.assert_array_equal(own, gradient)


@pytest.mark.parametrize("keep", [DivergenceMask(0.0, "binary_tv", "token"), DivergenceMask(0.0, "abs", "max")])
@pytest.mark.parametrize("divide_by", ["all", "kept"])
def test_a_region_that_holds_nothing_leaves_the_policy_alone(keep: DivergenceMask, divide_by):
    value, gradient = loss_and_gradient(replace(PG_IS, keep=keep, divide_by=divide_by), likely(15))
    assert value == 0 and (gradient == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("estimator", ["binary_tv", "binary_kl"])
def test_a_token_that_has_become_certain_has_a_finite_divergence(estimator, dtype: torch.dtype):
    """log pi is 0 in the precision of the batch, or by rounding above it; mu's is 1 %. KL is some 4.6 to 37 nats."""
    for logp in (0.0, 1e-7):
        rounded = torch.tensor([[logp]], dtype=dtype)
        made = Batch(rounded, torch.ones(1, 1).bool(), torch.ones(1), torch.tensor([[math.log(0.01)]], dtype=dtype))
        assert DivergenceMask(37.0, estimator, "token")(made).item() is True
        assert DivergenceMask(0.9, estimator, "token")(made).item() is False
    certain = torch.zeros(1, 1, dtype=dtype)
    assert DivergenceMask(0.0, estimator, "token")(Batch(certain, certain == 0, torch.ones(1), certain)).item() is True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneSided(BINARY_TV, "proximal"), "anchor is 'proximal' and that of the mask inside is 'behavior'"),
        (lambda: OneSided(BINARY_TV, side="low"), "side is 'low'; choose 'both'"),  # pyright: ignore
        (lambda: Relaxed(BINARY_TV, 1.5), r"alpha is 1\.5; it is a probability"),
        (lambda: Relaxed(BINARY_TV, end="positive"), "end is 'positive'; choose 'both'"),  # pyright: ignore
        (lambda: DivergenceMask(0.1, "tv"), "estimator is 'tv'; choose k1, k2 or k3, abs"),  # pyright: ignore
        (lambda: replace(BINARY_TV, policy="proximal", anchor="proximal"), "no distance from itself"),
        (lambda: DivergenceMask(0.1, RowDivergence(), anchor="proximal"), "leave policy and anchor at their defaults"),
        (lambda: DivergenceMask(0.1, RowDivergence(), policy="proximal"), "leave policy and anchor at their defaults"),
    ],
)
def test_impossible_masks_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mask_inside_of_the_wrong_shape_is_refused():
    def wrong(batch: Batch) -> Tensor:
        return batch.advantages

    for keep in (OneSided(wrong), Relaxed(wrong)):
        with pytest.raises(ValueError, match=r"keep returned shape .* it must be bool"):
            keep(Batch(**likely()))
