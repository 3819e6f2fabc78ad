"""The three clips of 000 section 7.2 for old data: gradients by hand, where each closes, and where they agree."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from rlnotes.objectives import METHOD_1, METHOD_2, RECIPES, STALE_PPO, Batch, Choices, policy_loss
from rlnotes.objectives.gates import Clip, ClipAround
from rlnotes.objectives.ratios import sequence, sequence_mean
from tests.cases import cases
from tests.objectives.batches import Tensors, loss_and_gradient, tensors

EPS = 0.2
MECHANISMS = dict(stale_ppo=STALE_PPO, method_1=METHOD_1, method_2=METHOD_2)


def ratios_of(made: Tensors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """pi / mu and pi_k / mu, 1 outside the mask, and A (N, 1)."""
    new, center = (
        np.exp(np.where(made["mask"], made[name] - made["logp_behavior"], 0.0)) for name in ("logp", "logp_proximal")
    )
    return new, center, made["advantages"].numpy()[:, None]


def by_hand(name: str, new: np.ndarray, center: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Term and its derivative by log pi: that of r A = (pi / mu) A where the clip is open, and 0 where it is closed.

    ``low`` and ``high`` are the ends in terms of pi / mu.
    """
    low, high = dict(
        stale_ppo=(1 - EPS, 1 + EPS), method_1=(center - EPS, center + EPS), method_2=(0.8 * center, 1.2 * center)
    )[name]
    closed = np.where(a > 0, new > high, (new < low) & (a < 0))
    end = np.where(a > 0, high, low)
    return np.where(closed, end, new) * a, np.where(closed, 0.0, new) * a


@pytest.mark.parametrize("name", MECHANISMS)
def test_value_and_gradient_are_those_by_hand(name: str):
    opened = shut = 0
    for seed in range(20):
        made = tensors(seed=seed, spread=1.0)
        term, slope = by_hand(name, *ratios_of(made))
        mask = made["mask"].numpy()
        value, gradient = loss_and_gradient(MECHANISMS[name], made)
        np.testing.assert_allclose(value, -np.where(mask, term, 0).sum() / len(mask), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradient, -np.where(mask, slope, 0) / len(mask), rtol=1e-12, atol=1e-15)
        opened, shut = opened + (slope[mask] != 0).sum(), shut + (slope[mask] == 0).sum()
    assert min(opened, shut) > 50


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_gradient_is_the_slope_of_the_loss(name: str):
    """Central differences, in the middle of every region: no ratio of this batch is within 1e-4 of an end."""
    made, h = tensors(seed=1, spread=1.0), 1e-5
    _, gradient = loss_and_gradient(MECHANISMS[name], made)
    for row, column in made["mask"].nonzero().tolist():
        ends = []
        for step in (h, -h):
            moved = made["logp"].clone()
            moved[row, column] += step
            ends.append(loss_and_gradient(MECHANISMS[name], made | dict(logp=moved))[0])
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(gradient[row, column], abs=1e-8)


def test_without_staleness_the_three_are_one():
    """pi_k = mu: the same value and gradient. Away from it no two have the same gradient."""
    for seed in range(20):
        made = tensors(seed=seed, spread=0.5)
        fresh = made | dict(logp_proximal=made["logp_behavior"])
        (value, gradient), *others = (loss_and_gradient(choices, fresh) for choices in MECHANISMS.values())
        for other_value, other_gradient in others:
            np.testing.assert_allclose(other_value, value, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(other_gradient, gradient, rtol=1e-12)
        assert (gradient[made["mask"].numpy()] == 0).any()
    made = tensors(seed=3, spread=1.0)
    stale = [loss_and_gradient(choices, made)[1] for choices in MECHANISMS.values()]
    assert not any(np.allclose(stale[i], stale[j], equal_nan=True) for i, j in [(0, 1), (0, 2), (1, 2)])


def pushed(choices: Choices, center: float, move: float, a: float) -> bool:
    """True if a token with pi_k / mu = ``center`` and pi / pi_k = ``move`` gets a gradient."""
    logp = torch.tensor([[-1.0]], dtype=torch.float64)
    proximal = logp - np.log(move)
    behavior = proximal - np.log(center)
    mask = torch.ones(1, 1, dtype=torch.bool)
    made: Tensors = dict(logp=logp, mask=mask, advantages=torch.tensor([a]), logp_behavior=behavior)
    return bool(loss_and_gradient(choices, made | dict(logp_proximal=proximal))[1][0, 0])


@pytest.mark.parametrize("a", [1.0, -1.0])
def test_where_each_of_them_closes(a: float):
    """In terms of the move pi / pi_k: (1 +- eps) / c, 1 +- eps / c, and 1 +- eps, for c = pi_k / mu."""
    rng = np.random.default_rng(0)
    for center in np.exp(rng.normal(0, 1.5, cases())):
        ends = dict(stale_ppo=(1 + a * EPS) / center, method_1=1 + a * EPS / center, method_2=1 + a * EPS)
        for name, end in ends.items():
            if end <= 0:  # eps is more than c: however far pi falls, |pi - pi_k| stays below eps mu
                assert pushed(MECHANISMS[name], center, 1e-9, a)
                continue
            assert pushed(MECHANISMS[name], center, end * (1 - a * 1e-9), a)
            assert not pushed(MECHANISMS[name], center, end * (1 + a * 1e-9), a)


@pytest.mark.parametrize(
    ("center", "a", "open_at_the_start"),
    [
        (5.0, 1.0, dict(stale_ppo=False, method_1=True, method_2=True)),
        (5.0, -1.0, dict(stale_ppo=True, method_1=True, method_2=True)),
        (0.01, 1.0, dict(stale_ppo=True, method_1=True, method_2=True)),
        (0.01, -1.0, dict(stale_ppo=False, method_1=True, method_2=True)),
    ],
    ids=["stale, A > 0", "stale, A < 0", "given up, A > 0", "given up, A < 0"],
)
def test_old_data_is_closed_before_the_update_has_begun(center: float, a: float, open_at_the_start: dict[str, bool]):
    """pi = pi_k: standard PPO counts what past updates did against this one, in the direction they went."""
    assert {name: pushed(choices, center, 1.0, a) for name, choices in MECHANISMS.items()} == open_at_the_start


def test_a_stale_sample_tightens_method_1_and_a_rare_one_loosens_it():
    """c = 5: 4 % up instead of 20 %. c = 0.01: 21 times instead of 1.2, and down to nothing."""
    assert pushed(METHOD_1, 5.0, 1.039, 1.0) and not pushed(METHOD_1, 5.0, 1.041, 1.0)
    assert pushed(METHOD_2, 5.0, 1.199, 1.0) and not pushed(METHOD_2, 5.0, 1.201, 1.0)
    assert pushed(METHOD_1, 0.01, 20.9, 1.0) and not pushed(METHOD_1, 0.01, 21.1, 1.0)
    assert not pushed(METHOD_2, 0.01, 1.3, 1.0)
    assert pushed(METHOD_1, 0.01, 1e-6, -1.0) and not pushed(METHOD_2, 0.01, 0.7, -1.0)


def test_what_is_bounded_by_construction():
    """Inside method 1's interval |pi - pi_k| <= eps mu; inside method 2's |pi - pi_k| <= eps pi_k."""
    made = tensors(seed=2, spread=1.0)
    new, center, a = ratios_of(made)
    outward = made["mask"].numpy() & ((new - center) * a > 0)
    for name, limit in (("method_1", EPS), ("method_2", EPS * center)):
        free = loss_and_gradient(MECHANISMS[name], made)[1] != 0
        assert (abs(new - center) <= limit + 1e-12)[free & outward].all()
        assert (abs(new - center) > limit)[~free & outward].all()
        assert (free & outward).any() and (~free & outward).any()


# --- ClipAround


@pytest.mark.parametrize("ratio", [sequence, sequence_mean])
def test_the_centre_is_at_the_level_of_the_ratio(ratio):
    made = tensors(seed=3, spread=0.3)
    mask, a = made["mask"].numpy(), made["advantages"].numpy()
    new, center = (
        np.where(mask, made[name] - made["logp_behavior"], 0.0).sum(1) / (1 if ratio is sequence else mask.sum(1))
        for name in ("logp", "logp_proximal")
    )
    new, center = np.exp(new), np.exp(center)
    terms = np.minimum(new * a, np.clip(new, center - EPS, center + EPS) * a)
    value, _ = loss_and_gradient(Choices(ratio=ratio, gate=ClipAround(EPS)), made)
    np.testing.assert_allclose(value, -terms.mean(), rtol=1e-12)


def test_around_1_it_is_the_clip():
    ratio = torch.linspace(0.1, 3, 30).double()
    for a in (1.0, 0.0, -2.0):
        advantages = torch.full_like(ratio, a)
        ours = ClipAround(0.3).around(torch.ones_like(ratio))(ratio, advantages)
        assert torch.equal(ours, Clip(0.3, 0.3)(ratio, advantages))


def test_what_it_needs_is_asked_for():
    assert METHOD_1.needs_proximal and not STALE_PPO.needs_proximal
    made = {name: value for name, value in tensors().items() if name != "logp_proximal"}
    with pytest.raises(ValueError, match="logp_proximal is missing; this objective needs it"):
        policy_loss(METHOD_1, Batch(**made))
    with pytest.raises(ValueError, match=r"epsilon is -0\.1; it must not be negative"):
        ClipAround(-0.1)
    for anchor in ("proximal", "current"):
        with pytest.raises(ValueError, match="ClipAround clips pi / mu around pi_k / mu: choose 'behavior', or Clip"):
            replace(METHOD_1, anchor=anchor)


# --- At the edge


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", RECIPES)
def test_two_ratios_far_off_at_once_make_no_nan(name: str, dtype: torch.dtype):
    """Log pi / pi_k and log pi_k / mu; e^60 squared is beyond float32."""
    far = (-1e4, -60.0, 0.0, 60.0, 1e4)
    for of_pi, of_pi_k, advantage in product(far, far, (-2.0, 0.0, 2.0)):
        fields = dict(logp=0.0, logp_proximal=-of_pi, logp_behavior=-of_pi - of_pi_k, divergence=np.inf)
        made: Tensors = {key: torch.tensor([[value]], dtype=dtype) for key, value in fields.items()}
        made |= dict(mask=torch.ones(1, 1, dtype=torch.bool), advantages=torch.tensor([advantage], dtype=dtype))
        value, gradient = loss_and_gradient(RECIPES[name], made)
        assert np.isfinite(value) and np.isfinite(gradient).all()
