"""Closed forms over a response's length, against what is drawn and against the loss that trains."""

import math

import numpy as np
import pytest
import torch

from rlnotes.exact.gaussian_ratios import closed_share, law
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.ratios import sequence, sequence_mean, token

RATIOS = dict(token=token, sequence=sequence, sequence_mean=sequence_mean)


def drawn(mean: float, spread: float, tokens: int, level: str) -> torch.Tensor:
    """Ratios of 40 000 responses."""
    noise = torch.randn(40_000, tokens, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_ratio = mean + spread * noise
    return RATIOS[level](log_ratio, torch.ones_like(log_ratio, dtype=torch.bool))


@pytest.mark.parametrize("level", RATIOS)
def test_the_law_is_that_of_drawn_responses(level):
    found, expected = drawn(0.01, 0.1, 16, level).log()[:, 0], law(0.01, 0.1, 16, level)
    assert found.mean().item() == pytest.approx(expected.mean, abs=4 * float(expected.spread) / 200)
    assert found.std().item() == pytest.approx(expected.spread, rel=0.02)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("level", RATIOS)
def test_the_share_is_that_of_ratios_without_a_gradient(level, positive):
    ratio = drawn(0.01, 0.1, 16, level)[:, :1].requires_grad_()
    advantages = torch.full_like(ratio, 1.0 if positive else -1.0).detach()
    (slope,) = torch.autograd.grad(Clip(0.05, 0.05)(ratio, advantages).sum(), ratio)
    share = closed_share(0.01, 0.1, 16, level, 0.05, positive)
    assert (slope == 0).double().mean().item() == pytest.approx(share, abs=0.01)


def test_the_mean_of_the_noise_stays_when_the_noise_has_averaged_out():
    """exp of a Gaussian has mean 1 at mean -spread^2 / 2: the geometric mean tends to exp of that."""
    spread = 0.05
    far = law(-(spread**2) / 2, spread, 1e8, "sequence_mean")
    assert math.exp(far.mean) == pytest.approx(1 - 0.00125, abs=1e-5) and far.spread < 1e-5
    few, many = closed_share(-(spread**2) / 2, spread, np.array([10.0, 1e6]), "sequence_mean", 3e-4, False)
    assert few < 0.6 and many == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 0.1, 4, "word", 0.2, True), "level is 'word'; choose one of token, sequence, sequence_mean"),
        ((0.0, 0.0, 4, "token", 0.2, True), "spread is 0.0; a standard deviation must be positive"),
        ((0.0, 0.1, 0, "token", 0.2, True), "tokens has 0; a response has at least 1"),
        ((0.0, 0.1, 4, "token", 1.0, True), "epsilon is 1.0; it must lie between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        closed_share(*arguments)
