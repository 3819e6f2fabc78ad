"""What the sources print and is wrong: that it fails, by how much, and what is right instead."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnotes.bounds import as_printed, cpi
from rlnotes.bounds import mdp as bounds
from rlnotes.bounds import mixtures as mixture_bounds
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.mdp import performance_difference
from rlnotes.exact.mdp_families import (
    crossed_fork,
    replaced_at_once,
    slow_trap,
)
from tests.bounds.mdp_cases import close, random_cases
from tests.bounds.mixture_cases import golden_case, random_mixtures


def exact_fork(gamma: Fraction, D: Fraction) -> tuple[Fraction, Fraction]:
    """J(new) - J(old) of the crossed fork, and the printed lower bound, in fractions and from the definition."""
    half = Fraction(1, 2)
    ends = [(half - D) - (half + D), (half + D) - (half - D)]  # mean reward of new at each end
    new = gamma / (1 - gamma) * ((half + D) * ends[0] + (half - D) * ends[1])
    predicted = gamma / (1 - gamma) * (half * ends[0] + half * ends[1])  # A is the reward there, and 0 at the fork
    return new, predicted - 2 * gamma * D**2 / (1 - gamma) ** 2


def test_004_theorem_2_1_fails_in_exact_fractions():
    true, printed = exact_fork(Fraction(1, 4), Fraction(1, 4))
    assert (true, printed) == (Fraction(-1, 12), Fraction(-1, 18))
    assert true < printed
    bound = as_printed.max_tv(*crossed_fork(0.25, 0.25, 0.25))
    assert (bound.true, bound.lower) == close((-1 / 12, -1 / 18))
    assert not bound.holds
    assert bounds.max_tv(*crossed_fork(0.25, 0.25, 0.25)).holds


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(0.001, 0.999), st.floats(0.001, 0.45))
def test_004_theorem_2_1_fails_at_every_gamma_with_common_support(gamma: float, share: float):
    """The distance is a share of (1 - gamma) / gamma, up to which it fails; ``support`` is small beside it."""
    D = min(0.45, share * (1 - gamma) / gamma)
    case = slow_trap(gamma, D, support=1e-5 * D)
    assert (case.old[case.new > 0] > 0).all()
    bound = as_printed.max_tv(*case)
    assert bound.surrogate - bound.true > 1.3 * bound.penalty
    assert bounds.max_tv(*case).holds and bounds.coupled_tv(*case).holds


@pytest.mark.parametrize(
    ("gamma", "D", "support", "gap"), [(0.9, 0.05, 1e-3, 0.6113586359), (0.9, 0.01, 1e-6, 0.0330270)]
)
def test_the_printed_bound_fails_by_known_amounts(gamma: float, D: float, support: float, gap: float):
    bound = as_printed.max_tv(*slow_trap(gamma, D, support))
    assert bound.surrogate - bound.true == pytest.approx(gap, rel=1e-5)
    assert not bound.holds


def test_003_forgets_the_normalisation():
    for case in random_cases(10):
        found = as_printed.performance_difference(*case)
        assert found == pytest.approx((1 - case.mdp.gamma) * performance_difference(*case), rel=1e-8, abs=1e-12)


def test_a_weighted_sum_of_returns_is_not_the_return_of_a_step_mixture():
    """000 section 5.2: 8.159422 and 8.001984."""
    for name, apart in [("G02", 0.0), ("G03", 8.159422262357515 - 8.00198388536267)]:
        mdp, mixture, _, current = golden_case(name)
        true = mixtures.expected_return(mdp, mixture) - exact.expected_return(mdp, current)
        assert true - as_printed.mixture_bias(mdp, mixture, current) == pytest.approx(apart, abs=1e-9)


def test_each_policys_own_advantages_break_the_bound_at_step_level():
    case = replaced_at_once(0.9, 0.02, 0.1)
    bound = as_printed.own_advantages(*case)
    assert (bound.true, bound.surrogate, bound.penalty) == pytest.approx((0, 0.018, 0.00648), abs=1e-10)
    assert not bound.holds
    right = mixture_bounds.theorem_5_1(*case, current=case.mixture.policies[1])
    assert right.holds and right.surrogate == pytest.approx(0, abs=1e-12)


def test_at_trajectory_level_own_advantages_are_right():
    for mdp, mixture, new, _ in random_mixtures(11, trajectory=True):
        bound = as_printed.own_advantages(mdp, mixture, new)
        assert bound.surrogate == pytest.approx(mixtures.surrogate(mdp, mixture, new), rel=1e-8, abs=1e-10)


def test_the_printed_step_size_is_not_always_a_step():
    """002 eqs. (61), (63)."""
    assert as_printed.step_size(0.9, -1.0, 0.5) == pytest.approx(-0.005555555555555)
    assert np.isnan(as_printed.step_size(0.9, 0.0, 0.0))
    assert as_printed.step_size(0.9, 1.0, 0.5) == pytest.approx(cpi.step_size(0.9, 1.0, 0.5))
