"""The gates one by one: value and gradient against their formulas, ends included."""

import numpy as np
import pytest
import torch

from rlnotes.objectives.gates import Cap, Clip, Gate, Soft, SoftOneSided, no_gate
from rlnotes.objectives.ratios import sequence, sequence_mean, token

RATIOS = np.array([0.0625, 0.5, 0.8, 1.0, 1.25, 3.0, 4.0, 50.0])


def value_and_gradient(gate: Gate, ratios: np.ndarray, advantage: float) -> tuple[np.ndarray, np.ndarray]:
    """Of every ratio alone; the gradient is by its logarithm, that is by log pi."""
    logp = torch.from_numpy(np.log(ratios)).requires_grad_()
    surrogate = gate(token(logp[None], torch.ones(1, len(ratios)))[0], torch.full((len(ratios),), advantage).double())
    (gradient,) = torch.autograd.grad(surrogate.sum(), logp)
    return surrogate.detach().numpy(), gradient.numpy()


@pytest.mark.parametrize("dual", [None, 3.5])
def test_a_clip_is_closed_where_it_has_no_gradient(dual: float | None):
    gate, r = Clip(0.25, 0.5, dual), torch.from_numpy(RATIOS)
    for advantage in (1.5, -1.5, 0.0):
        _, gradient = value_and_gradient(gate, RATIOS, advantage)
        closed = gate.closed(r, torch.full_like(r, advantage)).numpy()
        assert (closed == ((gradient == 0) & (advantage != 0))).all(), (advantage, gradient)


@pytest.mark.parametrize("advantage", [1.5, -1.5])
def test_the_cap_weighs_by_the_clamped_ratio(advantage: float):
    value, gradient = value_and_gradient(Cap(low=0.5, high=3.0), RATIOS, advantage)
    expected = np.clip(RATIOS, 0.5, 3.0) * advantage
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@pytest.mark.parametrize("advantage", [1.5, -1.5])
def test_without_its_cap_it_is_the_plain_ratio(advantage: float):
    for ours, plain in zip(
        value_and_gradient(Cap(high=float("inf")), RATIOS, advantage),
        value_and_gradient(no_gate, RATIOS, advantage),
        strict=True,
    ):
        np.testing.assert_allclose(ours, plain, rtol=1e-12)


@pytest.mark.parametrize(("advantage", "tau"), [(1.5, 2.0), (-1.5, 5.0)])
def test_the_soft_gate_is_sech_squared(advantage: float, tau: float):
    """002 eq. (120), whose printed right side has lost its sech^2: 4 s (1 - s) = sech^2(tau (r - 1) / 2)."""
    value, gradient = value_and_gradient(Soft(2.0, 5.0), RATIOS, advantage)
    np.testing.assert_allclose(value, 4 / tau / (1 + np.exp(-tau * (RATIOS - 1))) * advantage, rtol=1e-12)
    gate = np.cosh(tau * (RATIOS - 1) / 2) ** -2.0
    np.testing.assert_allclose(gradient, gate * RATIOS * advantage, rtol=1e-9, atol=1e-30)
    assert gate[3] == 1


def test_the_soft_gate_closes_on_both_sides_where_the_clip_closes_on_one():
    """A > 0 and a small ratio: the clip lets the token come back at full weight, the soft gate holds it."""
    _, clipped = value_and_gradient(Clip(), np.array([0.01]), 1.0)
    _, soft = value_and_gradient(Soft(10.0, 10.0), np.array([0.01]), 1.0)
    assert clipped[0] == pytest.approx(0.01)
    assert 0 < soft[0] < 1e-5


@pytest.mark.parametrize(("advantage", "tau"), [(1.5, 2.0), (-1.5, 5.0)])
def test_the_one_sided_soft_gate_is_soft_one_way_and_open_the_other(advantage: float, tau: float):
    value, gradient = value_and_gradient(SoftOneSided(2.0, 5.0), RATIOS, advantage)
    away = RATIOS > 1 if advantage > 0 else RATIOS < 1
    soft = 1 + 4 / tau * (1 / (1 + np.exp(-tau * (RATIOS - 1))) - 1 / 2)
    np.testing.assert_allclose(value, np.where(away, soft, RATIOS) * advantage, rtol=1e-12)
    gate = np.where(away, np.cosh(tau * (RATIOS - 1) / 2) ** -2.0, 1.0)
    np.testing.assert_allclose(gradient, gate * RATIOS * advantage, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("advantage", [1.5, -1.5])
def test_its_branches_meet_at_ratio_one_and_the_smaller_one_counts(advantage: float):
    gate, near = SoftOneSided(2.0, 5.0), np.array([1 - 1e-6, 1.0, 1 + 1e-6])
    value, gradient = value_and_gradient(gate, near, advantage)
    assert value[1] == gradient[1] == advantage
    np.testing.assert_allclose(value, near * advantage, rtol=1e-12)  # no jump
    np.testing.assert_allclose(gradient, near * advantage, rtol=1e-10)  # no kink
    shifted = value_and_gradient(Soft(2.0, 5.0), RATIOS, advantage)[0]
    shifted += advantage - shifted[RATIOS == 1]
    smaller = np.minimum(shifted, RATIOS * advantage)
    np.testing.assert_allclose(value_and_gradient(gate, RATIOS, advantage)[0], smaller, rtol=1e-12)


def test_the_one_sided_soft_gate_lets_what_went_wrong_come_back_as_the_clip_does():
    for ratio, advantage in ((0.01, 1.0), (50.0, -1.0)):
        _, found = value_and_gradient(SoftOneSided(10.0, 10.0), np.array([ratio]), advantage)
        _, clipped = value_and_gradient(Clip(), np.array([ratio]), advantage)
        assert found[0] == pytest.approx(ratio * advantage) == pytest.approx(clipped[0])
    for ratio, advantage in ((50.0, 1.0), (0.01, -1.0)):  # the other way it is as shut as the soft gate
        _, found = value_and_gradient(SoftOneSided(10.0, 10.0), np.array([ratio]), advantage)
        _, soft = value_and_gradient(Soft(10.0, 10.0), np.array([ratio]), advantage)
        assert found[0] == soft[0] and abs(soft[0]) < 1e-5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cap(high=-1.0), "low is 0.0 and high is -1.0; 0 <= low <= high is needed"),
        (lambda: Cap(low=2.0, high=1.0), "low is 2.0 and high is 1.0"),
        (lambda: Cap(high=float("nan")), "high is nan"),
        (lambda: Soft(0.0), "tau_positive is 0.0"),
        (lambda: Soft(1.0, -1.0), "tau_negative is -1.0"),
        (lambda: SoftOneSided(0.0), "tau_positive is 0.0"),
    ],
)
def test_impossible_gates_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("ratio", [token, sequence, sequence_mean])
def test_within_the_range_of_floats_a_ratio_is_exp(ratio):
    log_ratio = torch.tensor([[0.5, -40.0, 60.0]], requires_grad=True)
    made = ratio(log_ratio, torch.ones(1, 3))
    exponents = dict(token=[0.5, -40.0, 60.0], sequence=[20.5] * 3, sequence_mean=[20.5 / 3] * 3)[ratio.__name__]
    np.testing.assert_allclose(made.detach()[0], np.exp(exponents), rtol=1e-5)


def test_beyond_it_the_gradient_of_log_pi_still_passes():
    for log_ratio, limit in ((1e4, 80.7), (-1e4, -80.7), (3e38, 80.7), (-3e38, -80.7)):
        x = torch.tensor([[log_ratio]], requires_grad=True)
        made = token(x, torch.ones(1, 1))
        (gradient,) = torch.autograd.grad(made.sum(), x)
        assert float(gradient) == float(made.detach())
        assert float(made.detach().log()) == pytest.approx(limit, abs=0.1)
