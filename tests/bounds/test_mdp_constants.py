"""Constants of the bounds on processes: each is attained, or nearly so, by a family, and no smaller one passes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from rlnotes.bounds import mdp as bounds
from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.result import Inequality
from rlnotes.exact.mdp_families import (
    Case,
    crossed_fork,
    forgotten_way,
    late_spoiler,
    rare_cost,
    slow_trap,
)
from tests.bounds.mdp_cases import (
    INEQUALITIES,
    scaled,
    two_sided,
)

GAMMAS = [0.01, 0.1, 0.25, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999]
DISTANCES = [1e-3, 0.05, 0.25, 0.5, 0.6, 0.75, 1.0]
NAMES = [bound.__name__ for bound in bounds.BOUNDS]


# --- Attained


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, DISTANCES)))
def test_the_coupled_bound_is_attained_at_every_gamma_and_distance(gamma: float, D: float):
    case = slow_trap(gamma, D)
    bound = bounds.coupled_tv(*case)
    assert bounds.largest_tv(*case) == pytest.approx(D)
    assert bound.tightness == pytest.approx(1, abs=1e-9)
    assert bounds.shift_bound(*case).tightness == pytest.approx(1, abs=1e-9)
    assert bounds.coupled_occupancy_shift(*case).tightness == pytest.approx(1, abs=1e-9)
    coupling = bounds.coupling(*case, steps=20)
    np.testing.assert_allclose(coupling.left, coupling.right, rtol=1e-9)


def test_the_coupled_bound_without_its_minimum_is_not_attained_beyond_one_half():
    """gamma = 9/10, D = 3/4, by hand: the gap is 540/31, and 4 xi gamma D^2 / (...) is 810/31."""
    bound = bounds.coupled_tv(*slow_trap(0.9, 0.75))
    assert bound.surrogate - bound.true == pytest.approx(540 / 31)
    assert bound.penalty == pytest.approx(540 / 31)
    without = scaled(bound, 2 * 0.75)  # 4 xi gamma D^2 / (...)
    assert without.penalty == pytest.approx(810 / 31)


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, DISTANCES)))
def test_lemma_3_1_and_half_the_span_are_attained(gamma: float, D: float):
    case = rare_cost(gamma, D)
    assert bounds.occupancy_shift(*case).tightness == pytest.approx(1, abs=1e-9)
    assert bounds.half_span_tv(*case).tightness == pytest.approx(1, abs=1e-9)
    assert bounds.average_tv(*case).tightness == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, [0.01, 0.25, 0.5])))
def test_theorem_3_2_is_attained_in_the_limit(gamma: float, D: float):
    bound = bounds.average_tv(*crossed_fork(gamma, D, 1e-4 * D * (1 - gamma)))
    assert 0.999 < bound.tightness <= 1 + 1e-9


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_coefficient_four_is_right_for_small_distances(gamma: float):
    assert 0.999 < bounds.max_tv(*slow_trap(gamma, 1e-3 * (1 - gamma))).tightness <= 1


def test_the_kl_bound_is_attained_for_small_gamma_and_distance():
    assert 0.999 < bounds.max_kl(*crossed_fork(1e-4, 1e-2, 1e-2)).tightness <= 1


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 0.99])
def test_the_bounds_by_rewards_are_attained_up_to_a_factor_gamma(gamma: float):
    case = late_spoiler(gamma, m=1e-3, p=1e-9, q=1e-5)
    for bound_of in (bounds.average_kl, bounds.average_tv_of_rewards):
        assert 0.998 * gamma < bound_of(*case).tightness <= gamma


def test_the_simulation_lemma_is_attained_at_the_first_step():
    shifts = bounds.simulation_lemma(*slow_trap(0.9, 0.25), steps=3)
    np.testing.assert_allclose(np.asarray(shifts.left)[:2], [0, 0.25])
    np.testing.assert_allclose(np.asarray(shifts.right), [0, 0.25, 0.5, 0.75])


# --- Mutants: a smaller constant, or KL the other way round, does not pass the same check

EXTREMAL: dict[str, tuple[Case, float]] = {
    "shift_bound": (slow_trap(0.9, 0.25), 0.999),
    "average_tv": (crossed_fork(0.9, 0.25, 1e-5), 0.99),
    "half_span_tv": (crossed_fork(0.9, 0.25, 1e-5), 0.99),
    "max_tv": (slow_trap(0.9, 1e-4), 0.99),
    "max_kl": (crossed_fork(1e-3, 0.02, 0.02), 0.99),
    "coupled_tv": (slow_trap(0.9, 0.75), 0.999),
    "average_kl": (late_spoiler(0.99, m=1e-3, p=1e-9, q=1e-5), 0.98),
    "average_tv_of_rewards": (late_spoiler(0.99, m=1e-3, p=1e-9, q=1e-5), 0.98),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_constant_is_caught(name: str):
    case, factor = EXTREMAL[name]
    bound = getattr(bounds, name)(*case)
    assert two_sided(bound)
    assert not two_sided(scaled(bound, factor))
    assert not two_sided(scaled(bound, 0.5))


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("occupancy_shift", rare_cost(0.9, 0.3)),
        ("coupled_occupancy_shift", slow_trap(0.9, 0.75)),
        ("simulation_lemma", slow_trap(0.9, 0.25)),
        ("coupling", slow_trap(0.9, 0.25)),
    ],
)
def test_a_smaller_inequality_is_caught(name: str, case: Case):
    found = INEQUALITIES[name](case)
    assert found.holds
    assert not Inequality(found.left, np.multiply(0.999, found.right)).holds


def test_the_mean_kl_the_other_way_round_is_caught():
    case = forgotten_way(0.9, q=0.01, r=1e-9)
    assert bounds.average_kl(*case).holds
    swapped = forms.mean_divergence(0.9, 1.0, bounds.mean_kl(case.mdp, case.old, case.new))
    assert np.isfinite(swapped)
    assert not replace(bounds.average_kl(*case), penalties={"swapped": float(swapped)}).holds


def test_one_power_of_the_distance_too_many_is_caught():
    """The mean TV may not be squared with C in front, nor C be left out of the linear bound."""
    case = crossed_fork(0.9, 0.25, 1e-5)
    squared = forms.shift_penalty(
        0.9, bounds.largest_gain(*case), forms.occupancy_shift(0.9, bounds.mean_tv(*case) ** 2)
    )
    assert not replace(bounds.average_tv(*case), penalties={"squared": float(squared)}).holds
