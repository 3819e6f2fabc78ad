"""Divergences of rows from what a sampler records, against those of full rows."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.bucketed import binary_kl, binary_tv, topk_kl, topk_tv
from rlnotes.estimators.divergences import kl, tv
from rlnotes.objectives import DPPO_TOPK_TV, Batch, policy_loss
from rlnotes.objectives.masks import DivergenceMask, Every, not_truncated, veto
from rlnotes.objectives.one_sided import OneSided, Relaxed
from rlnotes.objectives.rows import RowDivergence
from tests.objectives.batches import tensors

N, T, V = 40, 5, 12
BUCKETED = dict(tv=topk_tv, kl=topk_kl)
FULL = dict(tv=tv, kl=kl)


def rows(seed: int = 0, spread: float = 0.7) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities (N, T, V) of mu and of pi, and tokens (N, T) drawn from mu: rare ones too."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(N, T, V, generator=generator, dtype=torch.float64)
    moved = logits + spread * torch.randn(N, T, V, generator=generator, dtype=torch.float64)
    tokens = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1, generator=generator).view(N, T)
    return logits.log_softmax(-1), moved.log_softmax(-1), tokens


def recorded(mu: Tensor, tokens: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a sampler hands on: tokens, log mu there, and the k likeliest tokens with theirs."""
    top = mu.topk(k, -1)
    return tokens, mu.gather(-1, tokens[..., None])[..., 0], top.indices, top.values


@pytest.mark.parametrize("k", [1, 3, 7, 11])
@pytest.mark.parametrize("kind", ["tv", "kl"])
def test_recorded_tokens_give_the_divergence_of_the_reduced_rows(kind, k: int):
    """004 eqs. (15), (16): the k likeliest, the sampled token, and "other", as from full rows of both policies."""
    mu, pi, tokens = rows()
    given = recorded(mu, tokens, k)
    among = (given[2] == tokens[..., None]).any(-1)
    assert 0 < among.double().mean() < 1 or k == 11
    np.testing.assert_allclose(RowDivergence(kind, k)(pi, *given), BUCKETED[kind](mu, pi, tokens, k), rtol=1e-9)


@pytest.mark.parametrize("k", [None, V, V + 8])
@pytest.mark.parametrize("kind", ["tv", "kl"])
def test_all_tokens_give_the_exact_divergence(kind, k: int | None):
    mu, pi, tokens = rows(1)
    ours = RowDivergence(kind, k)(pi, *recorded(mu, tokens, V))
    np.testing.assert_allclose(ours, FULL[kind](mu, pi), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["tv", "kl"])
def test_more_tokens_see_more(kind):
    """Merging can only hide: from the token alone over k = 1, 2, ... to all."""
    mu, pi, tokens = rows(2)
    given = recorded(mu, tokens, V)
    binary = dict(tv=binary_tv, kl=binary_kl)[kind](given[1], pi.gather(-1, tokens[..., None])[..., 0])
    steps = [binary, *(RowDivergence(kind, k)(pi, *given) for k in range(1, V + 1))]
    for less, more in pairwise(steps):
        assert (more >= less - 1e-9).all()
    assert (steps[-1] > binary + 0.01).double().mean() > 0.5


def test_other_counts():
    """K = 1 in the example of 004 section 4.2: (15) as printed gives 0.095, half of what the sampled token shows."""
    mu = torch.tensor([[[0.99, 1e-4, 0.0099]]], dtype=torch.float64).log()
    pi = torch.tensor([[[0.80, 1e-2, 0.19]]], dtype=torch.float64).log()
    token = torch.tensor([[0]])
    np.testing.assert_allclose(RowDivergence("tv", 1)(pi, *recorded(mu, token, 1)), [[0.19]], rtol=1e-12)


def test_the_direction_is_from_the_sampler():
    """Support that mu lacks costs nothing, as behind top-p; what pi lacks is infinitely far."""
    mu = torch.tensor([[[0.5, 0.5, 0.0]]]).log()
    pi = torch.tensor([[[0.25, 0.25, 0.5]]]).log()
    token = torch.tensor([[0]])
    np.testing.assert_allclose(RowDivergence("kl")(pi, *recorded(mu, token, 3)), [[math.log(2)]], rtol=1e-6)
    np.testing.assert_allclose(RowDivergence("kl", 2)(pi, *recorded(mu, token, 2)), [[math.log(2)]], rtol=1e-6)
    assert RowDivergence("kl")(mu, *recorded(pi, token, 3)).isinf().all()
    assert RowDivergence("tv")(mu, *recorded(pi, token, 3)).tolist() == [[0.5]]


def test_rounding_of_what_is_left_over_does_no_harm():
    """float32 rows whose recorded tokens hold all but 1e-9: "other" is rounding, and may be below 0."""
    mu, pi, tokens = (x if x.dtype == torch.int64 else (40 * x).log_softmax(-1).float() for x in rows(3, 0.01))
    given = recorded(mu, tokens.clamp(max=V - 1), 4)
    assert ((1 - given[3].exp().sum(-1)) <= 0).any()
    for kind in ("tv", "kl"):
        ours = RowDivergence(kind, 4)(pi, *given)
        finite = given[1] > -15  # the token drawn is one that mu gives a probability
        np.testing.assert_allclose(ours[finite], FULL[kind](mu.double(), pi.double())[finite], atol=3e-6)


def test_it_carries_no_gradient():
    mu, pi, tokens = rows(4)
    for k in (3, None):
        assert not RowDivergence("kl", k)(pi.requires_grad_(), *recorded(mu, tokens, V)).requires_grad


def test_what_was_not_recorded_is_an_error():
    mu, pi, tokens = rows(5)
    given = recorded(mu, tokens, 4)
    with pytest.raises(ValueError, match=r"recorded mu's 4 likeliest tokens and this divergence needs 5; .*top_logp=5"):
        RowDivergence("tv", 5)(pi, *given)
    with pytest.raises(ValueError, match=r"mu's 0 likeliest tokens and this divergence needs 12"):
        RowDivergence("tv")(pi, *given[:2], None, None)
    with pytest.raises(ValueError, match="kind is 'js'; choose 'tv' or 'kl'"):
        RowDivergence("js")  # pyright: ignore
    with pytest.raises(ValueError, match="k is 0; choose at least 1"):
        RowDivergence("tv", 0)


# --- As a field of the batch


def test_who_asks_for_it():
    spec = RowDivergence("kl", 7)
    mask = DivergenceMask(0.1, spec)
    for keep in (mask, OneSided(mask), Relaxed(OneSided(mask)), Every((veto(), OneSided(mask), mask))):
        assert replace(DPPO_TOPK_TV, keep=keep).needs_divergence == spec
    for keep in (None, DivergenceMask(0.1), not_truncated, Every((veto(), not_truncated)), OneSided(veto())):
        assert replace(DPPO_TOPK_TV, keep=keep).needs_divergence is None
    with pytest.raises(ValueError, match=r"masks ask for the divergences .* a batch holds one"):
        Every((mask, DivergenceMask(0.1, RowDivergence("tv", 7))))


def test_a_batch_without_it_is_an_error():
    made = {name: value for name, value in tensors().items() if name != "divergence"}
    with pytest.raises(ValueError, match="divergence is missing; this objective needs it"):
        policy_loss(DPPO_TOPK_TV, Batch(**made))


def test_it_may_be_infinite_but_not_nan():
    made = tensors()
    first = torch.zeros_like(made["mask"])
    first[0, 0] = True
    endless = Batch(**made | dict(divergence=made["divergence"].masked_fill(first, torch.inf)))
    assert not DivergenceMask(1e9, RowDivergence("kl"), "mean")(endless)[0]
    for wrong in (torch.nan, -torch.inf):
        with pytest.raises(ValueError, match=rf"divergence is {wrong} at \[0, 0\], under the mask"):
            Batch(**made | dict(divergence=made["divergence"].masked_fill(first, wrong)))
    with pytest.raises(ValueError, match=r"divergence has shape \(8, 1\)"):
        Batch(**made | dict(divergence=made["divergence"][:, :1]))
    with pytest.raises(ValueError, match="divergence carries a gradient"):
        Batch(**made | dict(divergence=made["divergence"].clone().requires_grad_()))
