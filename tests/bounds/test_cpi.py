"""Conservative policy iteration: golden values, the exact mixture identity, step sizes, no violation, equality."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from rlnotes.bounds import cpi
from rlnotes.bounds.mdp import largest_gain
from rlnotes.bounds.result import Bound
from rlnotes.exact.mdp import surrogate
from rlnotes.exact.mdp_families import conservative_trap
from rlnotes.exact.random_mdps import far_pair
from tests.bounds.mdp_cases import GOLDEN, close, golden_mdp, golden_outputs, numbers, random_cases, scaled, spread

GAMMAS = [0.01, 0.5, 0.9, 0.99]
ALPHAS = [1e-3, 0.05, 0.5, 1.0]
BOUNDS = {"conservative": cpi.conservative, "kakade_langford": cpi.kakade_langford}


def test_golden_values():
    inputs, mdp = GOLDEN["G05"]["inputs"], golden_mdp("G05")
    old, other, alpha = numbers(inputs["pi"]), numbers(inputs["pi_prime"]), float(inputs["alpha"])
    g, gain = cpi.policy_advantage(mdp, old, other), largest_gain(mdp, other, old)
    best = cpi.step_size(mdp.gamma, g, gain)
    at_best, at_alpha = cpi.conservative(mdp, old, other, best), cpi.conservative(mdp, old, other, alpha)
    found = {
        "g": g,
        "eps": gain,
        "alpha_star": best,
        "bound_at_alpha_star": at_best.lower,
        "actual_at_alpha_star": at_best.true,
        "bound59_at_alpha": at_alpha.lower,
        "KL2002_at_alpha": cpi.kakade_langford(mdp, old, other, alpha).lower,
        "actual_at_alpha": at_alpha.true,
    }
    assert found == close(golden_outputs("G05"))


def test_the_surrogate_of_a_step_is_linear_in_its_size():
    """002 eq. (57)."""
    rng = np.random.default_rng(1)
    for mdp, other, old in random_cases(1):
        alpha = float(rng.random())
        expected = alpha * cpi.policy_advantage(mdp, old, other)
        assert surrogate(mdp, cpi.step(old, other, alpha), old) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_step_outside_of_the_two_policies_is_refused(alpha: float):
    with pytest.raises(ValueError, match="alpha is"):
        cpi.step(np.eye(2), np.eye(2), alpha)


# --- Step sizes


def most_promising(penalty: Callable[..., np.ndarray], gamma: float, g: float, gain: float) -> float:
    """By search: a grid, then Brent's method around its best point."""
    grid = np.linspace(0, 1, 2001)
    promise = grid * g - penalty(gamma, gain, grid)
    best = int(promise.argmax())
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda alpha: float(penalty(gamma, gain, alpha)) - alpha * g,
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.x)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("size", "penalty"),
    [
        (cpi.step_size, cpi.conservative_penalty),
        (cpi.kakade_langford_step_size, cpi.kakade_langford_penalty),
    ],
)
def test_the_step_size_promises_most(size: Callable[..., float], penalty: Callable[..., np.ndarray]):
    rng = np.random.default_rng(2)
    for _ in range(100):
        gamma, gain = float(rng.uniform(0.01, 0.99)), float(rng.uniform(0.1, 10))
        g = gain / (1 - gamma) * float(rng.uniform(-0.2, 1))
        assert size(gamma, g, gain) == pytest.approx(most_promising(penalty, gamma, g, gain), abs=1e-6)


@pytest.mark.parametrize("size", [cpi.step_size, cpi.kakade_langford_step_size])
def test_a_step_that_promises_nothing_is_not_taken(size: Callable[..., float]):
    assert size(0.9, -1.0, 0.5) == 0
    assert size(0.9, 0.0, 0.5) == 0
    assert size(0.9, 0.0, 0.0) == 0
    assert size(0.0, 0.3, 0.5) == 1
    assert size(0.0, -0.3, 0.5) == 0


def test_the_sharper_step_is_larger_and_at_most_a_known_size():
    for mdp, other, old in random_cases(3):
        g, gain = cpi.policy_advantage(mdp, old, other), largest_gain(mdp, other, old)
        plain, sharp = cpi.step_size(mdp.gamma, g, gain), cpi.kakade_langford_step_size(mdp.gamma, g, gain)
        assert plain <= sharp * (1 + 1e-9) + 1e-12
        assert sharp <= (np.sqrt(2) - 1) * (1 - mdp.gamma) / mdp.gamma + 1e-9


def test_the_promise_at_the_best_step_is_the_square_over_four_penalties():
    for mdp, other, old in random_cases(4):
        g, gain = cpi.policy_advantage(mdp, old, other), largest_gain(mdp, other, old)
        alpha = cpi.step_size(mdp.gamma, g, gain)
        if 0 < alpha < 1:
            promise = cpi.conservative(mdp, old, other, alpha).lower
            assert promise == pytest.approx(g**2 / (4 * float(cpi.conservative_penalty(mdp.gamma, gain, 1))), rel=1e-6)
            assert promise > 0


# --- Random and extremal cases


@pytest.mark.parametrize("name", BOUNDS)
def test_no_random_case_breaks_a_bound(name: str, record_property: Callable[[str, object], None]):
    rng, useful, tightness = np.random.default_rng(5), [], []
    for mdp, *_ in random_cases(5):
        old, other = far_pair(rng, mdp.states, mdp.actions)
        bound = BOUNDS[name](mdp, old, other, float(10 ** rng.uniform(-3, 0)))
        assert bound.holds, bound
        assert replace(bound, true=-bound.true, surrogate=-bound.surrogate).holds
        useful.append(not bound.vacuous)
        tightness.append(bound.tightness)
    record_property("tightness", spread(tightness))
    print(f"{name}: {spread(tightness)}, not vacuous {np.mean(useful):.2f}")
    assert np.mean(useful) >= 0.25


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_two_state_chain_attains_kakade_and_langford(gamma: float, alpha: float):
    mdp, other, old = conservative_trap(gamma)
    sharp, plain = cpi.kakade_langford(mdp, old, other, alpha), cpi.conservative(mdp, old, other, alpha)
    assert sharp.tightness == pytest.approx(1, abs=1e-9)
    assert plain.tightness == pytest.approx((1 - gamma) / (1 - gamma * (1 - alpha)), abs=1e-9)


def mutants(bound: Bound) -> list[Bound]:
    return [scaled(bound, 0.99), scaled(bound, 0.5)]


def test_a_smaller_constant_is_caught():
    mdp, other, old = conservative_trap(0.9)
    for bound in (cpi.kakade_langford(mdp, old, other, 0.5), cpi.conservative(mdp, old, other, 1e-4)):
        assert bound.holds
        assert not any(mutant.holds for mutant in mutants(bound))


def test_a_power_of_the_step_too_many_is_caught():
    mdp, other, old = conservative_trap(0.9)
    bound = cpi.kakade_langford(mdp, old, other, 0.5)
    assert not scaled(bound, 0.5, next(iter(bound.penalties))).holds  # alpha^3 at alpha = 1/2
    # 1 - gamma (1 - alpha) may not become 1
    assert not scaled(bound, 1 - 0.9 * 0.5).holds


def test_closed_forms_broadcast_and_agree_at_hand():
    assert cpi.conservative_penalty(0.5, 3, 0.5) == pytest.approx(3)
    assert cpi.kakade_langford_penalty(0.5, 3, 0.5) == pytest.approx(2)
    alphas = np.linspace(0, 1, 5)
    assert cpi.conservative_penalty(0.5, 3, alphas).shape == (5,)
    assert cpi.kakade_langford_penalty(np.array([[0.1], [0.5]]), 3, alphas).shape == (2, 5)
