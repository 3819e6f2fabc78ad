"""Rejection by a divergence, by a band of ratios, by a veto, and by several at once."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.objectives import GRPO, PG_IS, Batch, policy_loss
from rlnotes.objectives.masks import DivergenceMask, Every, MismatchBand, Policy, not_truncated, veto
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from tests.objectives.batches import Tensors, loss_and_gradient, tensors


def log_ratios(made: Batch, policy: str) -> list[np.ndarray]:
    """Log policy - log mu of each response's own tokens."""
    numerator = made.logp if policy == "current" else made.logp_proximal
    assert numerator is not None and made.logp_behavior is not None
    return [(x - y)[m].numpy() for x, y, m in zip(numerator, made.logp_behavior, made.mask, strict=True)]


ESTIMATES = dict(k1=lambda x: -x, k2=lambda x: x**2 / 2, k3=lambda x: np.exp(x) - 1 - x)


@pytest.mark.parametrize("policy", ["current", "proximal"])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("over", ["token", "sum", "mean", "max"])
def test_a_divergence_mask_compares_what_it_says(over, estimator, policy: Policy):
    """001 appendix A: KL(mu, policy) from samples of mu, token by token."""
    made = Batch(**tensors(seed=1, responses=30, spread=0.5))
    values = [ESTIMATES[estimator](x) for x in log_ratios(made, policy)]
    if over != "token":
        values = [np.array([getattr(np, over)(x)]) for x in values]
    low, high = np.quantile(np.concatenate(values), [0.2, 0.7])
    kept = DivergenceMask(high, estimator, over, low, policy)(made)
    assert tuple(kept.shape) == ((30, 6) if over == "token" else (30,))
    for row, value in enumerate(values):
        ours = kept[row][made.mask[row]] if over == "token" else kept[row : row + 1]
        assert ours.tolist() == ((value >= low) & (value <= high)).tolist()
    assert 0 < np.mean([(x >= low).all() & (x <= high).all() for x in values]) < 1


def test_the_largest_k2_is_the_largest_log_ratio():
    """001: no token with abs(log rho) above delta."""
    made, delta = Batch(**tensors(seed=2, spread=0.3)), 0.4
    expected = [bool((abs(x) <= delta).all()) for x in log_ratios(made, "current")]
    assert DivergenceMask(delta**2 / 2, "k2")(made).tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_the_largest_is_that_of_the_responses_own_tokens():
    """k1 may be negative, and what stands outside the mask is not a token with 0."""
    logp = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    mask = torch.tensor([[True, False], [True, True]])
    made = Batch(logp, mask, torch.ones(2), torch.tensor([[-1.0, 0.0], [-1.0, 0.0]]))  # k1 = -1, then 0
    assert DivergenceMask(-0.5, "k1")(made).tolist() == [True, False]


def test_k1_keeps_the_ratio_between_two_ends():
    made = Batch(**tensors(seed=3, spread=0.5))
    low, high = 0.9, 1.3
    right = DivergenceMask(-math.log(low), "k1", least=-math.log(high))
    for over, ratio in dict(token=token, sum=sequence, mean=sequence_mean).items():
        mask = replace(right, over=over)
        kept, band = mask(made).reshape(8, -1), MismatchBand(low, high, ratio, "current")(made)
        assert torch.equal(kept & made.mask, band & made.mask)
        assert 0 < (kept & made.mask).sum() < made.mask.sum()


def test_one_token_too_unlikely_is_a_veto():
    """1e-4 and just below it, once in a response of three tokens; elsewhere any ratio will do."""
    ratios = torch.tensor([[1.0, 1.001e-4, 50.0], [1.0, 0.999e-4, 50.0], [1.0, 1.0, 1e-9]], dtype=torch.float64)
    mask = torch.tensor([[True] * 3, [True] * 3, [True, True, False]])
    zero = torch.zeros_like(ratios)
    made = Batch(zero, mask, torch.ones(3), zero, logp_proximal=ratios.log())
    assert veto()(made).tolist() == [True, False, True]
    assert veto(policy="current")(made).tolist() == [True, True, True]
    assert veto(0.5)(made).tolist() == [False, False, True]


@pytest.mark.parametrize("over", ["token", "sum", "mean", "max"])
def test_what_stands_outside_the_mask_does_not_matter(over):
    made = tensors(seed=4)
    for garbage in (math.nan, math.inf, -math.inf):
        spoilt: Tensors = dict(made)
        for name in ("logp", "logp_behavior", "logp_proximal", "logp_reference", "entropy"):
            spoilt[name] = torch.where(made["mask"], made[name], garbage)
        for estimator in ("k1", "k2", "k3"):
            mask = DivergenceMask(0.05, estimator, over, -0.05)
            kept, clean = (mask(x).reshape(8, -1) & x.mask for x in (Batch(**spoilt), Batch(**made)))
            assert torch.equal(kept, clean)


def test_far_off_is_dropped_and_nothing_is_nan():
    """Log ratios of 1e4, where exp overflows."""
    for sign in (1.0, -1.0):
        logp = torch.tensor([[-1.0, -1.0]])
        made = Batch(logp, torch.ones(1, 2).bool(), torch.ones(1), logp + sign * 1e4 * torch.tensor([[1.0, 0.0]]))
        for over in ("sum", "mean", "max"):
            assert DivergenceMask(10.0, "k3", over)(made).tolist() == [False]
        assert DivergenceMask(10.0, "k3", "token")(made).tolist() == [[False, True]]


def test_every_mask_must_keep_it():
    made = Batch(**tensors(seed=5, responses=30, spread=0.5))
    masks = (not_truncated, MismatchBand(0.4, 2.5, token, "current"), DivergenceMask(1.0, "k3", "sum"))
    expected = made.mask.clone()
    for keep in masks:
        kept = keep(made)
        expected &= kept if kept.dim() == 2 else kept[:, None]
    assert torch.equal(Every(masks)(made), expected)
    assert all(not torch.equal(Every(masks[:i] + masks[i + 1 :])(made), expected) for i in range(3))
    assert torch.equal(Every(())(made), made.mask)


def test_which_of_them_ask_for_the_recomputed_policy():
    asking = [veto(), DivergenceMask(0.1, policy="proximal"), Every((not_truncated, veto()))]
    content = [veto(policy="current"), DivergenceMask(0.1), MismatchBand(0.5, 2.0, policy="current")]
    content.append(Every((not_truncated, DivergenceMask(0.1))))
    assert all(replace(GRPO, keep=keep).needs_proximal for keep in asking)
    assert not any(replace(GRPO, keep=keep).needs_proximal for keep in content)


def test_no_gradient_flows_through_a_mask():
    made = tensors(seed=6, spread=0.5)
    for keep in (DivergenceMask(0.1, "k3", "mean"), MismatchBand(0.7, 1.5, token, "current")):
        kept = keep(Batch(**made)).reshape(8, -1)
        _, gradient = loss_and_gradient(replace(PG_IS, keep=keep), made)
        np.testing.assert_allclose(gradient, loss_and_gradient(PG_IS, made)[1] * kept.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DivergenceMask(0.1, "k4"), "estimator is 'k4'; choose k1, k2 or k3"),  # pyright: ignore
        (lambda: DivergenceMask(0.1, over="response"), "over is 'response'; choose 'token', 'sum'"),  # pyright: ignore
        (
            lambda: DivergenceMask(-0.2, "k1", least=-0.1),
            r"least is -0\.1 and delta is -0\.2",
        ),
        (lambda: DivergenceMask(math.nan), "delta is nan"),
    ],
)
def test_impossible_masks_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_several_masks_lack_is_named():
    made = {name: value for name, value in tensors().items() if name != "logp_proximal"}
    with pytest.raises(ValueError, match="logp_proximal is missing"):
        policy_loss(replace(GRPO, keep=Every((veto(),))), Batch(**made))
    with pytest.raises(ValueError, match=r"keep returned shape .* it must be bool"):
        policy_loss(replace(GRPO, keep=Every((lambda batch: batch.advantages,))), Batch(**tensors()))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_dropped_token_of_weight_e_to_the_1000_leaves_no_nan_in_the_gradient(sign: float):
    choices = replace(PG_IS, keep=DivergenceMask(10.0, "k2", "token"))
    logp = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    mu = logp.detach() - sign * 1000 * torch.tensor([[1.0, 0.0]])
    loss = policy_loss(choices, Batch(logp, torch.ones(1, 2).bool(), torch.ones(1), mu))
    (gradient,) = torch.autograd.grad(loss, logp)
    assert loss.isfinite() and gradient.isfinite().all()
    assert gradient[0, 0] == 0 != gradient[0, 1]
