"""The filter of stale data keeps what it says, and bounds less than one may think."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.estimators.divergences import log_probs, tv, tv_estimate
from rlnotes.objectives import GRPO, Batch
from rlnotes.objectives.masks import StalenessFilter
from tests.objectives.batches import loss_and_gradient, tensors


def batch(ratios: list[list[float]], mask: list[list[bool]]) -> Batch:
    """pi_k over mu is ``ratios``; pi is far from both."""
    log_ratio = torch.tensor(ratios, dtype=torch.float64).log()
    mu = torch.full_like(log_ratio, -3.0)
    return Batch(mu + 7, torch.tensor(mask), torch.ones(len(ratios)).double(), mu, mu + log_ratio)


def test_tokens_or_whole_responses_by_their_own_ratio():
    """The product over a response can be near 1 where tokens are not, and far where each is near."""
    every = [True, True, True]
    made = batch(
        [[1.25, 0.8, 1.0], [1.15, 1.15, 1.15], [1.0, 0.85, 0.5], [1.19, 9.0, 9.0], [0.79, 1.0, 1.0]],
        [every, every, every, [True, False, False], every],
    )
    assert (StalenessFilter(0.2)(made) & made.mask).tolist() == [
        [False, True, True],
        [True, True, True],
        [True, True, False],
        [True, False, False],
        [False, True, True],
    ]
    assert StalenessFilter(0.2, "response")(made).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("level", ["token", "response"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 3.0])
def test_what_it_keeps_is_within_its_promise_and_what_it_drops_is_not(level, epsilon):
    made = Batch(**tensors(seed=5, responses=64, spread=0.5))
    kept = StalenessFilter(epsilon, level)(made)
    mu, old = made.logp_behavior, made.logp_proximal
    assert mu is not None and old is not None
    for row in range(64):
        inside = made.mask[row]
        gap = (old - mu)[row][inside].numpy()
        far = np.abs(np.exp(gap if level == "token" else gap.sum()) - 1)
        assert (kept[row][inside].numpy() if level == "token" else kept[row].numpy()).tolist() == (
            far <= epsilon
        ).tolist()
    assert bool(kept[made.mask].any() if level == "token" else kept.any()) == (epsilon > 0)


def test_a_small_mean_over_what_is_kept_bounds_no_distance_of_policies():
    """000 section 7.4 with epsilon .1. Only the first token is kept: the mean obeys, two distances do not."""
    mu, old, epsilon = np.array([0.6, 0.3, 0.1]), np.array([0.57, 0.05, 0.38]), 0.1
    made = batch([[ratio] for ratio in old / mu], [[True]] * 3)
    kept = StalenessFilter(epsilon)(made)[:, 0].numpy()
    assert kept.tolist() == [True, False, False]
    law = np.where(kept, mu, 0) / mu[kept].sum()  # of what is left of samples of mu
    seen = float((law * tv_estimate(np.log(old / mu))).sum())
    assert seen == pytest.approx(0.025) and seen <= epsilon / 2
    assert tv(np.log(old), np.log(mu)) == pytest.approx(0.28)
    assert tv(np.log(old), log_probs(law)) == pytest.approx(0.43)


def test_no_epsilon_is_small_enough():
    """An epsilon of 0 keeps one token of three, and the policies are half a unit apart."""
    tiny = 1e-9
    mu, old = np.array([0.5, 0.5 - tiny, tiny]), np.array([0.5, tiny, 0.5 - tiny])
    made = batch([[ratio] for ratio in old / mu], [[True]] * 3)
    assert StalenessFilter(0.0)(made)[:, 0].tolist() == [True, False, False]
    assert tv(np.log(old), np.log(mu)) == pytest.approx(0.5)


def test_it_asks_for_the_recomputed_policy_and_drops_from_the_gradient():
    choices = replace(GRPO, keep=StalenessFilter(0.2))
    assert choices.needs_proximal
    given = tensors(seed=6, spread=0.5)
    _, plain = loss_and_gradient(GRPO, given)
    _, filtered = loss_and_gradient(choices, given)
    kept = StalenessFilter(0.2)(Batch(**given)).numpy()
    np.testing.assert_allclose(filtered, plain * kept, rtol=1e-12)
    mask = given["mask"].numpy()
    assert (plain[mask & ~kept] != 0).any() and (filtered[mask & kept] != 0).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StalenessFilter(-0.1), "epsilon is -0.1; it must not be negative"),
        (lambda: StalenessFilter(float("nan")), "epsilon is nan"),
        (lambda: StalenessFilter(0.1, "sequence"), "level is 'sequence'; choose 'token' or 'response'"),  # type: ignore
        (
            lambda: StalenessFilter(0.1)(replace(batch([[1.0]], [[True]]), logp_proximal=None)),
            "logp_proximal is missing",
        ),
    ],
)
def test_impossible_filters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
