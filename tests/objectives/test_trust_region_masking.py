"""Trust region masking: responses that are too far from the sampler are dropped whole. 001 section 4."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.objectives import (
    TRM,
    TRM_AVG,
    TRM_MAX,
    TRM_ONE_SIDED,
    Batch,
    Choices,
)
from rlnotes.objectives.masks import DivergenceMask
from rlnotes.objectives.rows import RowDivergence
from tests.objectives.batches import Tensors, loss_and_gradient, tensors
from tests.objectives.by_hand import assert_gradient, away, likely, numbers

# --- Trust region masking


def by_response(made: Tensors, of, over) -> np.ndarray:
    """``over`` the tokens of each response, ``of`` their log ratios."""
    log_ratios = (made["logp"] - made["logp_behavior"]).numpy()
    return np.array([over(of(x[m])) for x, m in zip(log_ratios, made["mask"].numpy(), strict=True)])[:, None]


def k3(x: np.ndarray) -> np.ndarray:
    return np.exp(x) - 1 - x


@pytest.mark.parametrize("divide_by", ["all", "kept"])
@pytest.mark.parametrize("recipe", [TRM_MAX, TRM_AVG, TRM])
def test_trust_region_masking_drops_responses(recipe: Choices, divide_by):
    """001 sections 4.1.1, 4.3: divided by N; the other divisor by name."""
    made = tensors(5, responses=60, spread=0.3)
    largest, mean = by_response(made, abs, np.max) <= 0.5, by_response(made, k3, np.mean) <= 0.05
    kept = largest if recipe is TRM_MAX else mean if recipe is TRM_AVG else largest & mean
    assert (largest & ~mean).any() and (mean & ~largest).any()
    x = numbers(made)
    divisor = 60 if divide_by == "all" else kept.sum()
    expected = -np.where(kept & x["mask"], x["pi"] / x["mu"] * x["a"], 0.0) / divisor
    ours = loss_and_gradient(replace(recipe, divide_by=divide_by), made)[1]
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    assert 0.2 < kept.mean() < 0.8


@pytest.mark.parametrize("estimator", ["abs", "k3"])
def test_in_total_long_responses_are_dropped(estimator):
    """001 section 4.2.1: 100 and 4000 tokens of one divergence. Maximum and mean do not know the length."""
    x = 0.1
    lengths = torch.tensor([100, 4000])
    mask = torch.arange(4000) < lengths[:, None]
    zero = torch.zeros(2, 4000, dtype=torch.float64)
    made = Batch(zero - 1 + x, mask, torch.ones(2), zero - 1)
    each = dict(abs=x, k3=math.exp(x) - 1 - x)[estimator]
    for over in ("max", "mean"):
        assert DivergenceMask(1.01 * each, estimator, over)(made).tolist() == [True, True]
        assert DivergenceMask(0.99 * each, estimator, over)(made).tolist() == [False, False]
    assert DivergenceMask(101 * each, estimator, "sum")(made).tolist() == [True, False]
    assert DivergenceMask(4001 * each, estimator, "sum")(made).tolist() == [True, True]


def test_the_one_sided_variant_drops_what_moves_away_in_dropped_responses():
    made = tensors(6, responses=60, spread=0.3)
    responses = (by_response(made, abs, np.max) <= 0.5) & (by_response(made, k3, np.mean) <= 0.05)
    assert_gradient(TRM_ONE_SIDED, made, responses | ~away(numbers(made)))


def test_the_token_drawn_may_hide_a_divergence_that_the_rows_show():
    """Ratio 1 on the token drawn, all else exchanged: KL 4.257, TV 0.4998. Only the exact divergence drops it."""
    mu = torch.tensor([[[0.5, 0.4999, 0.0001]]], dtype=torch.float64).log()
    pi = torch.tensor([[[0.5, 0.0001, 0.4999]]], dtype=torch.float64).log()
    token, mask, a = torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.bool), torch.ones(1)
    top = mu.topk(3, -1)
    expected = (RowDivergence("kl"), 0.4998 * math.log(4999), 0.1), (RowDivergence("tv"), 0.4998, 0.15)
    for exact, value, high in expected:
        divergence = exact(pi, token, mu[..., 0], top.indices, top.values)
        np.testing.assert_allclose(divergence, [[value]], rtol=1e-9)
        made = Batch(pi[..., 0], mask, a, mu[..., 0], divergence=divergence)
        assert DivergenceMask(high, exact, "max")(made).tolist() == [False]
    made = Batch(pi[..., 0], mask, a, mu[..., 0])
    for estimator in ("abs", "k1", "k2", "k3", "binary_tv", "binary_kl"):
        assert DivergenceMask(1e-9, estimator, "max")(made).tolist() == [True]


@pytest.mark.parametrize("over", ["token", "sum", "mean", "max"])
def test_rows_by_token_and_by_response(over):
    made = likely(7)
    values = [d[m].numpy() for d, m in zip(made["divergence"], made["mask"], strict=True)]
    kept = DivergenceMask(0.2, RowDivergence("tv"), over)(Batch(**made))
    for row, value in enumerate(values):
        expected = (value if over == "token" else np.array([getattr(np, over)(value)])) <= 0.2
        assert (kept[row][made["mask"][row]] if over == "token" else kept[row : row + 1]).tolist() == expected.tolist()
