"""DPPO, tokens that are too far away and move on; minimal masks, and relaxed clips. 004 sections 4 to 6."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.objectives import (
    DPPO_KL,
    DPPO_SYMMETRIC,
    DPPO_TOPK_KL,
    DPPO_TOPK_TV,
    DPPO_TV,
    NEGATIVE_MASK,
    PG_IS,
    RELAX_BOTH,
    Batch,
    Choices,
)
from rlnotes.objectives.gates import Cap, Clip
from rlnotes.objectives.masks import ClipMask, DivergenceMask
from rlnotes.objectives.one_sided import OneSided, Relaxed
from tests.objectives.batches import loss_and_gradient
from tests.objectives.by_hand import assert_gradient, away, binary_kl, binary_tv, likely, numbers

BINARY_TV = DivergenceMask(0.15, "binary_tv", "token")


# --- DPPO


@pytest.mark.parametrize("cap", [np.inf, 1.2])
@pytest.mark.parametrize(("recipe", "of", "delta"), [(DPPO_TV, binary_tv, 0.15), (DPPO_KL, binary_kl, 0.05)])
def test_dppo_drops_what_is_far_and_moves_away(recipe: Choices, of, delta: float, cap: float):
    """004 eqs. (11) to (14)."""
    made = likely()
    x = numbers(made)
    kept = ~(away(x) & (of(x["mu"], x["pi"]) > delta))
    assert_gradient(recipe if cap == np.inf else replace(recipe, gate=Cap(high=cap)), made, kept, cap)


@pytest.mark.parametrize(("recipe", "delta"), [(DPPO_TOPK_TV, 0.2), (DPPO_TOPK_KL, 0.05)])
def test_dppo_reads_the_divergence_of_rows(recipe: Choices, delta: float):
    """004 eqs. (15), (16): the direction is still that of the token drawn."""
    made = likely(1)
    kept = ~(away(numbers(made)) & (made["divergence"].numpy() > delta))
    assert_gradient(recipe, made, kept)


@pytest.mark.parametrize(("measure", "of", "delta"), [("binary_tv", binary_tv, 0.15), ("binary_kl", binary_kl, 0.05)])
def test_dppo_around_the_recomputed_policy(measure, of, delta: float):
    """004 section 5.2: divergence and direction since pi_k; the weight is still pi / mu."""
    made = likely(2)
    x = numbers(made)
    keep = OneSided(DivergenceMask(delta, measure, "token", anchor="proximal"), "proximal")
    assert keep.needs_proximal and not OneSided(BINARY_TV).needs_proximal
    kept = ~(away(x, "pi_k") & (of(x["pi_k"], x["pi"]) > delta))
    assert (kept != ~(away(x) & (of(x["mu"], x["pi"]) > delta))).any()
    assert_gradient(replace(PG_IS, keep=keep), made, kept)


def test_the_symmetric_variant_drops_both_ways():
    made = likely(3)
    x = numbers(made)
    assert_gradient(DPPO_SYMMETRIC, made, binary_tv(x["mu"], x["pi"]) <= 0.15)


def one(mu: float, pi: float, advantage: float, pi_k: float | None = None) -> Batch:
    """A response of one token."""
    made = (torch.tensor([[p]], dtype=torch.float64).log() for p in (pi, mu, mu if pi_k is None else pi_k))
    logp, logp_behavior, logp_proximal = made
    a = torch.tensor([advantage], dtype=torch.float64)
    return Batch(logp, torch.ones(1, 1, dtype=torch.bool), a, logp_behavior, logp_proximal)


@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("pi", [0.1, 0.34, 0.36, 0.5, 0.64, 0.66, 0.9])
def test_the_regions_of_dppo(pi: float, advantage: float):
    """mu = 0.5 and delta = 0.15. A = 0 is kept, and so is all that is pulled back."""
    expected = not ((advantage > 0 and pi > 0.65) or (advantage < 0 and pi < 0.35))
    assert OneSided(BINARY_TV)(one(0.5, pi, advantage)).item() is expected
    assert BINARY_TV(one(0.5, pi, advantage)).item() is (0.35 < pi < 0.65)


def test_the_two_tokens_of_the_paper():
    """004 section 4.2: PPO stops the rare token, at ratio 100 and TV 0.0099, and not the likely one, at TV 0.19."""
    rare, dominant = one(1e-4, 1e-2, 1.0), one(0.99, 0.80, -1.0)
    clip, dppo = ClipMask(0.2, 0.2), OneSided(BINARY_TV)
    assert (clip(rare).item(), clip(dominant).item()) == (False, True)
    assert (dppo(rare).item(), dppo(dominant).item()) == (True, False)


def test_at_the_threshold_a_token_is_kept():
    """D > delta is dropped: 0.25 is exact."""
    mask = replace(BINARY_TV, delta=0.25)
    assert mask(one(0.5, 0.25, -1.0)).item() is True
    assert replace(mask, delta=math.nextafter(0.25, 0))(one(0.5, 0.25, -1.0)).item() is False


def test_a_clip_is_a_one_sided_band():
    """The mask of PPO with ratios for a divergence: the two families meet where one threshold on log r is meant."""
    made = Batch(**likely(4))
    band = OneSided(DivergenceMask(0.2, "abs", "token"))
    clip = ClipMask(1 - math.exp(-0.2), math.exp(0.2) - 1)
    assert torch.equal(band(made) & made.mask, clip(made) & made.mask)
    assert (~clip(made) & made.mask).sum() > 0


# --- The least that helps, and what is let go


@pytest.mark.parametrize("delta", [0.5, 0.8])
def test_the_negative_mask_drops_likely_tokens_that_have_fallen(delta: float):
    """004 section 5.3, and its control on the other side."""
    made = likely(8, responses=200, spread=2.0)
    x = numbers(made)
    negative = replace(NEGATIVE_MASK, keep=OneSided(DivergenceMask(delta, "binary_tv", "token"), side="negative"))
    assert (negative == NEGATIVE_MASK) == (delta == 0.5)
    assert_gradient(negative, made, ~((x["a"] < 0) & (x["mu"] - x["pi"] >= delta)))
    positive = replace(PG_IS, keep=OneSided(DivergenceMask(delta, "binary_tv", "token"), side="positive"))
    assert_gradient(positive, made, ~((x["a"] > 0) & (x["pi"] - x["mu"] >= delta)))


def test_the_negative_mask_around_the_recomputed_policy():
    made = likely(9, responses=200, spread=2.0)
    x = numbers(made)
    inside = DivergenceMask(0.5, "binary_tv", "token", anchor="proximal")
    keep = OneSided(inside, "proximal", "negative")
    assert_gradient(replace(PG_IS, keep=keep), made, ~((x["a"] < 0) & (x["pi_k"] - x["pi"] >= 0.5)))


@pytest.mark.parametrize("end", ["both", "high", "low"])
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_a_relaxed_clip_lets_rare_tokens_go(alpha: float, end):
    """004 section 6: epsilon is infinite at one end or both, for tokens with mu < alpha."""
    made = likely(10)
    x = numbers(made)
    ratio, rare = x["pi"] / x["mu"], x["mu"] < alpha
    high, low = (np.where(rare & (end in ("both", own)), np.inf, eps) for own, eps in (("high", 0.28), ("low", 0.2)))
    kept = ~(((x["a"] > 0) & (ratio > 1 + high)) | ((x["a"] < 0) & (ratio < 1 - low)))
    relaxed = replace(RELAX_BOTH, keep=Relaxed(ClipMask(0.2, 0.28), alpha, end))
    assert (relaxed == RELAX_BOTH) == (alpha == 0.1 and end == "both")
    assert_gradient(relaxed, made, kept)


def test_relaxed_for_none_or_for_all():
    made = likely(11)
    _, clipped = loss_and_gradient(replace(PG_IS, gate=Clip(0.2, 0.28)), made)
    _, none = loss_and_gradient(replace(PG_IS, keep=Relaxed(ClipMask(0.2, 0.28), 0.0)), made)
    _, all_ = loss_and_gradient(replace(PG_IS, keep=Relaxed(ClipMask(0.2, 0.28), 1.0)), made)
    np.testing.assert_allclose(none, clipped, rtol=1e-12)
    np.testing.assert_allclose(all_, loss_and_gradient(PG_IS, made)[1], rtol=1e-12)
