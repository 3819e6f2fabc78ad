"""Masks of responses and of tokens, and what the loss does with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.objectives import GRPO, MINIRL, PG_IS, Batch, Choices, policy_loss
from rlnotes.objectives.gates import Clip, Correction
from rlnotes.objectives.masks import ClipMask, MismatchBand, OffPolicyMask, ProximalMask, not_truncated
from tests import golden
from tests.golden.comparison import batch, batch_arrays
from tests.objectives.batches import loss_and_gradient, tensors


def rows(ratios: list[float], advantages: list[float]) -> Batch:
    """Responses of one token; pi over pi_k is ``ratios``, and mu is far from both."""
    logp = torch.tensor(ratios, dtype=torch.float64).log()[:, None]
    zero = torch.zeros_like(logp)
    return Batch(logp, torch.ones_like(logp).bool(), torch.tensor(advantages).double(), zero + 7, zero)


def test_the_four_cases_of_the_proximal_mask():
    """004 appendix D: what A pushes out of the interval is dropped, what it pulls back is not. A = 0 is kept."""
    made = rows([1.3, 1.3, 0.7, 0.7, 1.0, 1.27, 9.0], [1, -1, 1, -1, 1, 1, 0])
    assert ProximalMask(0.2, 0.28)(made)[:, 0].tolist() == [False, True, True, False, True, True, True]
    assert ClipMask(0.2, 0.28)(made)[:, 0].tolist() == [True, False, True, False, True, True, True]  # from mu, e^7 away


@pytest.mark.parametrize("name", ["ppo", "ppo_recompute", "pg_no_mask"])
@pytest.mark.parametrize("batch_name", ["mild", "extreme", "stale", "toolmask"])
def test_the_masks_are_those_of_stable_rl(name: str, batch_name: str):
    masks = dict(ppo=ClipMask(0.2, 0.28), ppo_recompute=ProximalMask(0.2, 0.28), pg_no_mask=lambda made: made.mask)
    made = batch(batch_arrays(batch_name, "rollout_logp", proximal=True))
    counts = made.mask & (made.token_advantages != 0)
    theirs = torch.from_numpy(golden.arrays()[f"stable_rl/{name}@{batch_name}/trust_mask"]).bool()
    assert torch.equal(masks[name](made)[counts], theirs[counts])


@pytest.mark.parametrize("wrong", [ProximalMask(0.2, 0.28), ClipMask(0.28, 0.2), ClipMask(0.2, 0.2)])
def test_another_mask_is_not_that_of_stable_rl(wrong: ClipMask):
    made = batch(batch_arrays("stale", "rollout_logp", proximal=True))
    counts = made.mask & (made.token_advantages != 0)
    theirs = torch.from_numpy(golden.arrays()["stable_rl/ppo@stale/trust_mask"]).bool()
    assert not torch.equal(wrong(made)[counts], theirs[counts])


def test_without_a_gate_the_mask_has_the_gradient_of_the_clip():
    """Only where the clip is closed do the values differ: the mask counts 0 there, the clip its bound."""
    made = tensors(seed=3)
    _, clipped = loss_and_gradient(replace(PG_IS, gate=Clip(0.2, 0.28)), made)
    _, masked = loss_and_gradient(replace(PG_IS, keep=ClipMask(0.2, 0.28)), made)
    np.testing.assert_allclose(masked, clipped, rtol=1e-12)
    assert (clipped[made["mask"].numpy()] == 0).any()


def test_minirl_and_decoupled_ppo_have_one_gradient_where_nothing_is_truncated():
    made = tensors(seed=4)
    decoupled = Choices(
        anchor="proximal",
        gate=Clip(0.2, 0.28),
        aggregation=MINIRL.aggregation,
        correction=Correction(high=float("inf")),
    )
    _, ours = loss_and_gradient(MINIRL, made)
    _, theirs = loss_and_gradient(decoupled, made)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert (ours[made["mask"].numpy()] == 0).any()
    _, truncated = loss_and_gradient(replace(decoupled, correction=Correction(high=1.1)), made)
    assert np.abs(truncated - ours).max() > 0.01


def test_which_masks_ask_for_the_recomputed_policy():
    asking = [ProximalMask(), ClipMask(anchor="proximal"), MismatchBand(0.5, 2.0), OffPolicyMask(0.1, "proximal")]
    content = [ClipMask(), OffPolicyMask(0.1), not_truncated, None, lambda made: made.mask]
    assert all(replace(GRPO, keep=keep).needs_proximal for keep in asking)
    assert not any(replace(GRPO, keep=keep).needs_proximal for keep in content)


def test_a_mask_on_tokens_and_one_on_responses():
    made = tensors()
    rng = np.random.default_rng(0)
    of_tokens = torch.from_numpy(rng.random(made["mask"].shape) < 0.5)
    of_responses = torch.from_numpy(rng.random(len(of_tokens)) < 0.5)
    _, plain = loss_and_gradient(GRPO, made)
    for kept in (of_tokens, of_responses):
        _, gradient = loss_and_gradient(replace(GRPO, keep=lambda _, kept=kept: kept), made)
        expected = plain * (kept if kept.dim() == 2 else kept[:, None]).numpy()
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_a_mask_of_another_shape_is_refused():
    made = Batch(**tensors(responses=4))
    for kept in (torch.ones(4, 1).bool(), torch.ones(6).bool(), torch.ones(4)):
        with pytest.raises(ValueError, match=r"keep returned shape .* it must be bool, \(4,\) for responses"):
            policy_loss(replace(GRPO, keep=lambda _, kept=kept: kept), made)


def test_truncated_responses_are_dropped_and_asked_for():
    made = tensors()
    _, gradient = loss_and_gradient(replace(GRPO, keep=not_truncated), made)
    dropped = made["truncated"].numpy()
    assert (gradient[dropped] == 0).all() and (gradient[~dropped] != 0).any()
    with pytest.raises(ValueError, match="truncated is missing; this mask drops what it names"):
        not_truncated(replace(Batch(**made), truncated=None))
    with pytest.raises(ValueError, match=r"truncated has shape \(8, 1\)"):
        Batch(**(made | dict(truncated=made["truncated"][:, None])))


def test_the_off_policy_mask_reads_the_sign_under_the_mask():
    """The first token may be outside the mask, with any advantage there."""
    logp = torch.tensor([[0.0, -1.0], [0.0, -1.0]])
    mask = torch.tensor([[False, True], [False, True]])
    advantages = torch.tensor([[torch.nan, -1.0], [-1.0, 1.0]])
    made = Batch(logp, mask, advantages, torch.zeros(2, 2))
    assert OffPolicyMask(0.5)(made).tolist() == [False, True]
