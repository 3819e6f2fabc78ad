"""Importance sampling by token and by response: plain, truncated, masked, over a mean; and denominators."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from rlnotes.objectives import (
    CISPO,
    GEO_MIS,
    METHOD_2,
    PG_IS,
    SEQ_MIS,
    SEQ_TIS,
    SEQUENCE_IS,
    TOKEN_MIS,
    TOKEN_TIS,
    Batch,
    Choices,
    policy_loss,
)
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Correction, no_gate
from rlnotes.objectives.masks import DivergenceMask
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from tests.objectives.batches import loss_and_gradient, tensors

Weight = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def within(r: np.ndarray, low: float, high: float) -> np.ndarray:
    return (r >= low) & (r <= high)


# weights (N, T) before A grad log pi, from each token's ratio (N, T), the response's product and geometric mean (N, 1)
WEIGHTS: dict[str, tuple[Choices, Weight]] = {
    "PG_IS": (PG_IS, lambda r, s, g: r),
    "TOKEN_TIS": (TOKEN_TIS, lambda r, s, g: np.minimum(r, 2.0)),
    "TOKEN_MIS": (TOKEN_MIS, lambda r, s, g: r * within(r, 0.5, 2.0)),
    "SEQUENCE_IS": (SEQUENCE_IS, lambda r, s, g: s + 0 * r),
    "SEQ_TIS": (SEQ_TIS, lambda r, s, g: np.minimum(s, 2.0) + 0 * r),
    "SEQ_MIS": (SEQ_MIS, lambda r, s, g: s * within(s, 0.5, 2.0) + 0 * r),
    "GEO_MIS": (GEO_MIS, lambda r, s, g: r * within(g, 0.9, 1.1)),
}


def weights_of(weight: Weight, made, policy: str = "logp") -> np.ndarray:
    mask = made["mask"].numpy()
    x = np.where(mask, made[policy] - made["logp_behavior"], 0.0)
    total = x.sum(1, keepdims=True)
    return np.where(mask, weight(np.exp(x), np.exp(total), np.exp(total / mask.sum(1, keepdims=True))), 0.0)


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_gradient_is_the_weight_times_the_score(name: str):
    """A response's weight counts once, not T times: the gradient is s A sum_t grad log pi, over N."""
    choices, weight = WEIGHTS[name]
    closed = opened = 0
    for seed in range(20):
        made = tensors(seed=seed, spread=0.7)
        expected = -weights_of(weight, made) * made["advantages"].numpy()[:, None] / 8
        _, gradient = loss_and_gradient(choices, made)
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)
        closed += (expected[made["mask"].numpy()] == 0).sum()
        opened += (expected != 0).sum()
    assert opened > 50 and (closed > 50) == ("MIS" in name)


SIBLINGS: list[tuple[Choices, Choices, set[str]]] = [
    (CISPO, TOKEN_TIS, {"gate"}),
    (PG_IS, TOKEN_TIS, {"gate"}),
    (PG_IS, TOKEN_MIS, {"keep"}),
    (PG_IS, GEO_MIS, {"keep"}),
    (PG_IS, SEQUENCE_IS, {"ratio", "aggregation"}),
    (SEQUENCE_IS, SEQ_TIS, {"gate"}),
    (SEQUENCE_IS, SEQ_MIS, {"keep"}),
]


@pytest.mark.parametrize(("one", "other", "choices"), SIBLINGS)
def test_siblings_differ_in_the_choices_they_should(one: Choices, other: Choices, choices: set[str]):
    assert {name for name in one.__dataclass_fields__ if getattr(one, name) != getattr(other, name)} == choices


REWARDS = torch.tensor([1.0, -0.5, 0.3, 2.0], dtype=torch.float64)


def enumerated_gradient(choices: Choices, logits: torch.Tensor, mu: torch.Tensor) -> np.ndarray:
    """Mean over mu of the gradient of the objective, by every response of two tokens. A row of logits per prefix."""
    leaf = logits.clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for index, tokens in enumerate(product((0, 1), repeat=2)):
        rows = torch.tensor([0, 1 + tokens[0]])
        taken = torch.tensor(tokens)
        logp, behavior = (x.log_softmax(-1)[rows, taken][None] for x in (leaf, mu))
        made = Batch(logp, torch.ones(1, 2, dtype=torch.bool), REWARDS[index : index + 1], behavior)
        total = total - behavior.sum().exp() * policy_loss(choices, made)
    return torch.autograd.grad(total, leaf)[0].numpy()


def test_only_the_weight_of_the_whole_response_is_unbiased():
    """Against the gradient of E_pi[R] by enumeration, pi far from mu. Tokens' weights and every bound are biased."""
    logits = torch.tensor([[2.0, -1.0], [-1.0, 1.5], [1.0, 0.0]], dtype=torch.float64)
    mu = torch.zeros_like(logits)
    leaf = logits.clone().requires_grad_()
    p = leaf.log_softmax(-1).exp()
    mean = sum(p[0, a] * p[1 + a, b] * REWARDS[2 * a + b] for a in (0, 1) for b in (0, 1))
    assert isinstance(mean, torch.Tensor)
    truth = torch.autograd.grad(mean, leaf)[0].numpy()
    found = {name: enumerated_gradient(choices, logits, mu) for name, (choices, _) in WEIGHTS.items()}
    np.testing.assert_allclose(found.pop("SEQUENCE_IS"), truth, rtol=1e-12, atol=1e-15)
    off = {name: float(np.abs(gradient - truth).max()) for name, gradient in found.items()}
    assert min(off.values()) > 1e-2, off


# --- Weights without a ratio of their own: Correction


@pytest.mark.parametrize(
    ("correction", "recipe"),
    [
        (Correction(high=2.0, policy="current"), TOKEN_TIS),
        (Correction(high=float("inf"), ratio=sequence, policy="current"), SEQUENCE_IS),
        (Correction(high=2.0, ratio=sequence, policy="current"), SEQ_TIS),
        (Correction(0.5, 2.0, "drop", policy="current"), TOKEN_MIS),
        (Correction(0.5, 2.0, "drop", sequence, "current"), SEQ_MIS),
    ],
)
def test_a_weight_before_the_score_is_the_recipe(correction: Correction, recipe: Choices):
    """One aggregation for tokens' and responses' weights: the sum over tokens that stands behind both."""
    as_weight = Choices(anchor="current", gate=no_gate, aggregation=response_sum, correction=correction)
    assert not as_weight.needs_proximal
    made = tensors(seed=7, spread=0.7)
    expected = loss_and_gradient(recipe, made)[1]
    np.testing.assert_allclose(loss_and_gradient(as_weight, made)[1], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["TOKEN_TIS", "TOKEN_MIS", "SEQ_TIS", "SEQ_MIS"])
def test_beside_a_clip_the_weight_is_that_of_the_recomputed_policy(name: str):
    level = sequence if name.startswith("SEQ") else token
    correction = Correction(0.5, 2.0, "drop", level) if name.endswith("MIS") else Correction(high=2.0, ratio=level)
    made = tensors(seed=8, spread=0.7)
    weight = weights_of(WEIGHTS[name][1], made, "logp_proximal")
    per_token = loss_and_gradient(replace(METHOD_2, correction=None), made)[1]
    found = loss_and_gradient(replace(METHOD_2, correction=correction), made)[1]
    np.testing.assert_allclose(found, per_token * weight, rtol=1e-12)


NORMALISED = [
    Correction(high=2.0, normalised=True),
    Correction(high=2.0, ratio=sequence, normalised=True),
    Correction(0.5, 2.0, "drop", policy="current", normalised=True),
    Correction(0.9, 1.1, "drop", sequence_mean, normalised=True),
]


@pytest.mark.parametrize("correction", NORMALISED)
def test_normalised_weights_have_a_mean_of_1(correction: Correction):
    made = Batch(**tensors(seed=9, spread=0.7))
    log_ratio = made.log_ratio(f"logp_{correction.policy}", "logp_behavior")
    weight = correction(log_ratio, made.mask).numpy()
    plain = replace(correction, normalised=False)(log_ratio, made.mask).numpy()
    mask = made.mask.numpy()
    average = weight[mask].mean() if correction.ratio is token else (weight * mask).sum(1) @ (1 / mask.sum(1)) / 8
    assert average == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(weight / weight.max(), plain / plain.max(), rtol=1e-12)
    assert plain[mask].mean() != pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("correction", NORMALISED)
def test_normalised_parts_add_up_if_told_the_mean_of_the_whole(correction: Correction):
    choices = replace(METHOD_2, correction=correction)
    assert choices.needs_whole_batch and replace(PG_IS, divide_by="kept").needs_whole_batch
    assert not METHOD_2.needs_whole_batch and not PG_IS.needs_whole_batch
    made = tensors(seed=10, spread=0.7)
    whole = Batch(**made)
    mean = correction.mean(whole.log_ratio(f"logp_{correction.policy}", "logp_behavior"), whole.mask)
    totals = replace(Totals.of(made["mask"]), weight=mean)
    parts = [{name: value[rows] for name, value in made.items()} for rows in (slice(0, 3), slice(3, 8))]
    expected, expected_gradient = loss_and_gradient(choices, made)
    found = [loss_and_gradient(choices, part, totals) for part in parts]
    np.testing.assert_allclose(sum(value for value, _ in found), expected, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([gradient for _, gradient in found]), expected_gradient, rtol=1e-12)
    with pytest.raises(ValueError, match=r"totals.weight is missing; .* divides by the mean weight of the whole batch"):
        loss_and_gradient(choices, parts[0], Totals.of(made["mask"]))


def test_weights_of_0_alone_stay_0():
    made = tensors()
    choices = replace(METHOD_2, correction=Correction(0.0, 1e-9, "drop", normalised=True))
    value, gradient = loss_and_gradient(choices, made)
    assert value == 0 and (gradient == 0).all()


# --- What the sum is divided by


@pytest.mark.parametrize("dropped", ["tokens", "responses"])
def test_each_denominator_of_the_table(dropped: str):
    made = tensors(seed=11, spread=0.7)
    mask, t_max = made["mask"].numpy(), 64
    keep = DivergenceMask(0.05, "k2", over="token" if dropped == "tokens" else "max", policy="current")
    kept = mask & keep(Batch(**made)).numpy().reshape(8, -1)
    terms = np.where(kept, weights_of(WEIGHTS["PG_IS"][1], made) * made["advantages"].numpy()[:, None], 0.0)
    responses = kept.any(1).sum()
    assert responses < 8 and kept.sum() < mask.sum()
    own = (terms.sum(1) / mask.sum(1)).sum()
    own_kept = (terms.sum(1) / np.maximum(kept.sum(1), 1)).sum()
    table = {
        (response_sum, "all"): terms.sum() / 8,
        (response_sum, "kept"): terms.sum() / responses,
        (response_mean, "all"): own / 8,
        (response_mean, "kept"): own_kept / responses,
        (token_mean, "all"): terms.sum() / mask.sum(),
        (token_mean, "kept"): terms.sum() / kept.sum(),
        (constant, "all"): terms.sum() / (8 * t_max),
        (constant, "kept"): terms.sum() / (responses * t_max),
    }
    for (aggregation, divide_by), expected in table.items():
        counted = torch.from_numpy(mask if divide_by == "all" else kept)
        totals = Totals.of(counted, t_max if aggregation is constant else None)
        choices = replace(PG_IS, aggregation=aggregation, keep=keep, divide_by=divide_by)
        assert loss_and_gradient(choices, made, totals)[0] == pytest.approx(-expected, rel=1e-12)
    # verl's engine: kept tokens of each response, all responses
    choices = replace(PG_IS, aggregation=response_mean, keep=keep, divide_by="kept")
    assert loss_and_gradient(choices, made, Totals.of(made["mask"]))[0] == pytest.approx(-own_kept / 8, rel=1e-12)


def test_the_cap_of_one_side_only_and_the_band_of_both():
    """What a small ratio gets: its own weight from the cap, nothing from the band."""
    small, one = np.log(0.1), torch.ones(1, 1, dtype=torch.bool)
    made = dict(logp=torch.tensor([[small]]), logp_behavior=torch.zeros(1, 1).double(), mask=one)
    made |= dict(advantages=torch.ones(1).double())
    assert loss_and_gradient(TOKEN_TIS, made)[1][0, 0] == pytest.approx(-0.1)
    assert loss_and_gradient(TOKEN_MIS, made)[1][0, 0] == 0
    assert loss_and_gradient(replace(TOKEN_TIS, gate=Cap(low=0.5, high=2.0)), made)[1][0, 0] == pytest.approx(-0.5)
