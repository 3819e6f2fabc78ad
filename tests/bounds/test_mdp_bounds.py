"""The bounds on discounted processes: golden values, scalars by other means, no violation on random cases.

Random cases hardly come near a bound's worst case, so a green random test says little about a constant.
:mod:`tests.bounds.test_mdp_constants` holds each constant from below.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import rel_entr

from rlnotes.bounds import as_printed
from rlnotes.bounds import mdp as bounds
from rlnotes.exact.mdp import MDP, expected_return, occupancy, surrogate, values, visits
from rlnotes.exact.mdp_families import (
    Case,
    conservative_trap,
    crossed_fork,
    rare_cost,
    slow_trap,
)
from rlnotes.exact.random_mdps import any_mdp, far_pair
from tests.bounds.mdp_cases import (
    GOLDEN,
    INEQUALITIES,
    close,
    golden_mdp,
    golden_outputs,
    numbers,
    random_cases,
    spread,
    two_sided,
)

NAMES = [bound.__name__ for bound in bounds.BOUNDS]


def quantities(case: Case) -> dict[str, float]:
    """Everything of G01 and G13, computed."""
    found = {name: bound(*case) for name, bound in zip(NAMES, bounds.BOUNDS, strict=True)}
    shift = bounds.occupancy_shift(*case)
    return {
        "J_old": expected_return(case.mdp, case.old),
        "J_new": expected_return(case.mdp, case.new),
        "dJ": found["max_tv"].true,
        "L": found["max_tv"].surrogate,
        "state_shift_l1": float(shift.left),
        "lemma31_rhs": float(shift.right),
        "C": bounds.largest_gain(*case),
        "xi": bounds.largest_advantage(case.mdp, case.old),
        "avgTV": bounds.mean_tv(*case),
        "maxTV": bounds.largest_tv(*case),
        "thm32_penalty": found["average_tv"].penalty,
        "thm32_rhs": found["average_tv"].lower,
        "trpo4_penalty": found["max_tv"].penalty,
        "coef2_penalty_INVALID": as_printed.max_tv(*case).penalty,
        "sharp_penalty": found["coupled_tv"].penalty,
    }


def test_golden_process():
    inputs = GOLDEN["G01"]["inputs"]
    case = Case(golden_mdp("G01"), numbers(inputs["pi_new"]), numbers(inputs["pi_old"]))
    assert quantities(case) == close(golden_outputs("G01"))


def test_golden_counterexample():
    expected = golden_outputs("G13")
    assert expected.pop("violated") is True
    assert quantities(crossed_fork(0.25, 0.25, 0.25)) == close(expected)


# --- Scalars, by other means


def test_scalars_are_the_sums_and_maxima_that_they_are_named_after():
    for mdp, new, old in random_cases(1):
        a, d = values(mdp, old).a, occupancy(mdp, old)
        gain = [sum(new[s, i] * a[s, i] for i in range(mdp.actions)) for s in range(mdp.states)]
        tv = [np.abs(new[s] - old[s])[new[s] > old[s]].sum() for s in range(mdp.states)]
        kl = [rel_entr(old[s], new[s]).sum() for s in range(mdp.states)]
        assert bounds.largest_gain(mdp, new, old) == close(max(map(abs, gain)))
        assert bounds.half_span(mdp, new, old) == close((max(gain) - min(gain)) / 2)
        assert bounds.largest_tv(mdp, new, old) == close(max(tv))
        assert bounds.largest_kl(mdp, new, old) == close(max(kl))
        assert bounds.mean_tv(mdp, new, old) == close(d @ tv)
        assert bounds.mean_kl(mdp, new, old) == close(sum(x * y for x, y in zip(d, kl, strict=True) if x > 1e-15))


def test_the_largest_kl_is_of_old_relative_to_new():
    mdp, new, old = slow_trap(0.9, 0.25)  # the new policy takes an action that the old one never takes
    assert bounds.largest_kl(mdp, new, old) == pytest.approx(np.log(2) / 2)
    assert bounds.largest_kl(mdp, old, new) == np.inf


def test_the_floor_is_the_worst_of_all_deterministic_policies():
    rng = np.random.default_rng(2)
    for _ in range(20):
        mdp = any_mdp(rng)
        if mdp.actions**mdp.states <= 300:
            choices = product(range(mdp.actions), repeat=mdp.states)
            worst = min(expected_return(mdp, np.eye(mdp.actions)[list(chosen)]) for chosen in choices)
            assert bounds.worst_return(mdp) == pytest.approx(worst, abs=1e-7)


def test_no_change_is_below_the_floor():
    for case in random_cases(3):
        bound = bounds.average_tv(*case)
        assert bound.true >= bound.floor - 1e-7


def test_the_surrogate_and_what_it_misses_make_up_the_improvement():
    """002 eqs. (50) to (53)."""
    for case in random_cases(4):
        true = expected_return(case.mdp, case.new) - expected_return(case.mdp, case.old)
        assert surrogate(*case) + bounds.distribution_shift(*case) == pytest.approx(true, rel=1e-8, abs=1e-10)


def test_the_laws_of_a_step_come_from_all_paths():
    rng = np.random.default_rng(5)
    mdp = any_mdp(rng)
    old, new = far_pair(rng, mdp.states, mdp.actions)
    laws = []
    for pi in (new, old):
        law = np.zeros(mdp.states)
        for s, a, middle, b, last in product(*map(range, (mdp.states, mdp.actions) * 2), range(mdp.states)):
            law[last] += mdp.start[s] * pi[s, a] * mdp.P[s, a, middle] * pi[middle, b] * mdp.P[middle, b, last]
        laws.append(law)
    shifts = bounds.step_shifts(mdp, new, old, 2)
    assert shifts[0] == 0
    assert shifts[2] == pytest.approx(np.abs(laws[0] - laws[1]).sum() / 2)


# --- Random cases


@pytest.mark.parametrize("name", NAMES)
def test_no_random_case_breaks_a_bound(name: str, record_property: Callable[[str, object], None]):
    bound_of, useful, tightness = getattr(bounds, name), [], []
    for case in random_cases(6):
        bound = bound_of(*case)
        assert two_sided(bound), bound
        useful.append(not bound.vacuous)
        tightness.append(bound.tightness)
    record_property("tightness", spread(tightness))
    record_property("not vacuous", float(np.mean(useful)))
    print(f"{name}: {spread(tightness)}, not vacuous {np.mean(useful):.2f}")
    assert np.mean(useful) >= 0.25


@pytest.mark.parametrize("name", INEQUALITIES)
def test_no_random_case_breaks_an_inequality(name: str, record_property: Callable[[str, object], None]):
    tightness = []
    for case in random_cases(7):
        found = INEQUALITIES[name](case)
        assert found.holds
        tightness.append(found.tightness)
    record_property("tightness", spread(tightness))
    print(f"{name}: {spread(tightness)}")


def test_which_bound_is_never_the_larger_one():
    for case in random_cases(8):
        by = {name: getattr(bounds, name)(*case).penalty * (1 - 1e-12) for name in NAMES}
        assert by["half_span_tv"] <= by["average_tv"] + 1e-12
        assert by["coupled_tv"] <= by["max_tv"] + 1e-12
        assert by["max_tv"] <= by["max_kl"] + 1e-12
        assert by["shift_bound"] <= min(by["average_tv"], by["coupled_tv"]) + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_that_stays_is_promised_no_loss(name: str):
    mdp, _, old = next(random_cases(9))
    bound = getattr(bounds, name)(mdp, old, old)
    assert bound.lower == pytest.approx(0, abs=1e-12)


# --- Errors


def test_a_policy_of_another_process_is_refused_by_name():
    mdp, new, old = rare_cost(0.9, 0.1)
    with pytest.raises(ValueError, match="new has shape"):
        bounds.average_tv(mdp, new[:2], old)


def test_families_have_the_process_that_they_describe():
    trap = conservative_trap(0.5)
    assert visits(trap.mdp, trap.old) == pytest.approx([2, 0])
    with pytest.raises(ValueError, match="new"):
        slow_trap(0.9, 1.2)
    with pytest.raises(ValueError, match="gamma"):
        crossed_fork(1.5, 0.1, 0.1)


def test_undiscounted_processes_are_refused():
    mdp, new, old = rare_cost(0.9, 0.1)
    ends = MDP(mdp.P, np.zeros((3, 2)), mdp.start, 1.0)
    with pytest.raises(ValueError, match="gamma is 1"):
        bounds.max_tv(ends, new, old)
