"""The bounds for data from several policies: golden values, no violation at either level, equality, mutants caught."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds import mixtures as bounds
from rlnotes.bounds.mdp import average_tv, largest_advantage, largest_gain, state_tv
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.mdp import MDP
from rlnotes.exact.mdp_families import crossed_fork
from rlnotes.exact.mixtures import Mixture
from rlnotes.exact.random_mdps import random_policy
from tests.bounds.mdp_cases import close, golden_outputs, random_cases, scaled, spread
from tests.bounds.mixture_cases import Case, golden_case, random_mixtures
from tests.cases import cases


def alone(mdp: MDP, behavior: np.ndarray, new: np.ndarray, current: np.ndarray, copies: int = 1) -> Case:
    """The mixture of one policy, or of copies of it."""
    same = Mixture(np.array([behavior] * copies), np.full(copies, 1 / copies), np.eye(copies))
    return Case(mdp, same, new, current)


@pytest.mark.parametrize("name", ["G02", "G03"])
def test_golden_values(name: str):
    mdp, mixture, new, current = case = golden_case(name)
    expected = golden_outputs(name)
    own = np.stack([exact.values(mdp, pi).a for pi in mixture.policies], axis=1)
    main, split, geppo = bounds.theorem_5_1(*case), bounds.corollary_5_3(*case), bounds.current_advantages(*case)
    assert mixtures.occupancy(mdp, mixture).ravel() == close(expected.pop("d_beta"))
    found = {
        "J_mix": mixtures.expected_return(mdp, mixture),
        "J_k": exact.expected_return(mdp, current),
        "J_k1": exact.expected_return(mdp, new),
        "dJ": main.true,
        "L_beta": main.surrogate,
        "C_beta": bounds.largest_mixture_gain(mdp, mixture, new),
        "A_inf": largest_advantage(mdp, current),
        "E_TV_k1_i": bounds.distance_to_behavior(mdp, mixture, new),
        "U_k": bounds.update_shift(mdp, mixture, new, current),
        "S_k": bounds.staleness(mdp, mixture, current),
        "thm51_rhs": main.lower,
        "cor53_rhs": split.lower,
        "mix_bias_rhs": -float(bounds.mixture_bias(mdp, mixture, current).right),
        "L_with_A_pik": geppo.surrogate,
        "geppo_rhs": geppo.lower,
        "L_wrong_with_A_pii": bounds.surrogate(mdp, mixture, new, own),
    }
    assert found == close(expected)


def test_lemma_4_1_and_the_return_of_a_trajectory_mixture():
    for mdp, mixture, *_ in random_mixtures(1, trajectory=True):
        d, a = mixtures.occupancy(mdp, mixture), mixtures.values(mdp, mixture).a
        for i, pi in enumerate(mixture.policies):
            np.testing.assert_allclose(d[:, i], mixture.alpha[i] * exact.occupancy(mdp, pi), rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(a[:, i], exact.values(mdp, pi).a, rtol=1e-8, atol=1e-10)
        average = mixture.alpha @ [exact.expected_return(mdp, pi) for pi in mixture.policies]
        assert mixtures.expected_return(mdp, mixture) == pytest.approx(average, rel=1e-9, abs=1e-10)


def test_the_general_surrogate_is_the_one_of_the_mixture():
    for mdp, mixture, new, _ in random_mixtures(2):
        general = bounds.surrogate(mdp, mixture, new, mixtures.values(mdp, mixture).a)
        assert general == pytest.approx(mixtures.surrogate(mdp, mixture, new), rel=1e-8, abs=1e-10)


# --- Random cases

BOUNDS: dict[str, Callable[..., Bound]] = {
    "theorem_5_1": bounds.theorem_5_1,
    "corollary_5_3": bounds.corollary_5_3,
    "current_advantages": bounds.current_advantages,
    "average_tv_largest": lambda mdp, mixture, new, _: bounds.average_tv_largest(mdp, mixture, new),
    "average_tv_by_policy": lambda mdp, mixture, new, _: bounds.average_tv_by_policy(mdp, mixture, new),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_no_random_case_breaks_a_bound(name: str, record_property: Callable[[str, object], None]):
    useful, tightness = [], []
    for case in random_mixtures(3, trajectory=True if name.startswith("average") else None):
        bound = BOUNDS[name](*case)
        assert bound.holds, bound
        useful.append(not bound.vacuous)
        tightness.append(bound.tightness)
    record_property("tightness", spread(tightness))
    print(f"{name}: {spread(tightness)}, not vacuous {np.mean(useful):.2f}")
    assert np.mean(useful) >= 0.25


def test_no_random_estimate_of_advantages_breaks_the_bound():
    rng = np.random.default_rng(4)
    for mdp, mixture, new, current in random_mixtures(4):
        a = mixtures.values(mdp, mixture).a
        estimates = a + rng.normal(size=a.shape) * 10 ** rng.uniform(-4, 0)
        bound = bounds.estimated_advantages(mdp, mixture, new, current, estimates)
        assert bound.holds
        assert bound.penalty > bounds.corollary_5_3(mdp, mixture, new, current).penalty


INEQUALITIES: dict[str, Callable[..., Inequality]] = {
    "triangle": bounds.triangle,
    "mixture_bias": lambda mdp, mixture, _, current: bounds.mixture_bias(mdp, mixture, current),
}


@pytest.mark.parametrize("name", INEQUALITIES)
def test_no_random_case_breaks_an_inequality(name: str):
    assert all(INEQUALITIES[name](*case).holds for case in random_mixtures(5))


def test_the_split_is_never_better_and_a_constant_of_its_own_never_worse():
    for case in random_mixtures(6, trajectory=True):
        mdp, mixture, new, _ = case
        assert bounds.corollary_5_3(*case).lower <= bounds.theorem_5_1(*case).lower + 1e-9
        largest, own = bounds.average_tv_largest(mdp, mixture, new), bounds.average_tv_by_policy(mdp, mixture, new)
        assert largest.lower <= own.lower + 1e-9 * (1 + abs(own.lower))
        assert largest.surrogate == pytest.approx(own.surrogate, rel=1e-8, abs=1e-10)


def test_one_policy_is_the_single_policy_theorem():
    for mdp, new, old in random_cases(7):
        case = alone(mdp, old, new, old)
        expected = average_tv(mdp, new, old)
        for bound_of in BOUNDS.values():
            bound = bound_of(*case)
            assert (bound.true, bound.surrogate) == pytest.approx(
                (expected.true, expected.surrogate), rel=1e-7, abs=1e-9
            )
            assert bound.penalty == pytest.approx(expected.penalty, rel=1e-9, abs=1e-12)
            assert bound.floor == pytest.approx(expected.floor, rel=1e-9, abs=1e-9)


def test_a_policy_that_stays_is_promised_no_loss_by_current_advantages_alone():
    """000: at new = current the bounds of Theorem 5.1 and Corollary 5.3 stay below 0 when the data are stale."""
    for mdp, mixture, _, current in [golden_case("G02"), golden_case("G03")]:
        assert bounds.current_advantages(mdp, mixture, current, current).surrogate == pytest.approx(0, abs=1e-12)
        assert bounds.theorem_5_1(mdp, mixture, current, current).lower < -0.1


def test_without_a_future_only_the_bias_is_left():
    """gamma = 0, a bandit: both levels agree and the terms with gamma vanish (000 section 6.1)."""
    for mdp, mixture, new, current in random_mixtures(8):
        bandit = MDP(mdp.P, mdp.r, mdp.start, 0.0)
        kept = Mixture(mixture.policies, mixture.alpha, np.eye(mixture.size))
        step, whole = (bounds.theorem_5_1(bandit, m, new, current) for m in (mixture, kept))
        assert step.lower == pytest.approx(whole.lower, rel=1e-9, abs=1e-12)
        assert step.penalties["2γC/(1-γ)² E TV(new, behavior)"] == 0
        own = np.stack([exact.values(bandit, pi).a for pi in mixture.policies], axis=1)
        assert bounds.surrogate(bandit, mixture, new, own) == pytest.approx(step.surrogate, rel=1e-9, abs=1e-12)


# --- Attained, and mutants


def turned(gamma: float, D: float) -> Case:
    """One state, two buttons: the behaviour presses the bad one by D more often than the current policy."""
    mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, -1.0]]), np.ones(1), gamma)
    behavior = np.array([[0.5 - D, 0.5 + D]])
    return alone(mdp, behavior, behavior, np.full((1, 2), 0.5))


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("D", [0.01, 0.25, 0.5])
def test_the_bias_is_attained(gamma: float, D: float):
    mdp, mixture, _, current = case = turned(gamma, D)
    assert bounds.mixture_bias(mdp, mixture, current).tightness == pytest.approx(1, abs=1e-9)
    assert bounds.theorem_5_1(*case).tightness == pytest.approx(1, abs=1e-9)
    assert bounds.corollary_5_3(*case).tightness == pytest.approx(1, abs=1e-9)


def shifted(copies: int = 1) -> Case:
    """Fresh data, and Theorem 3.2 nearly attained: all of it is the update's shift."""
    mdp, new, old = crossed_fork(0.9, 0.25, 1e-5)
    return alone(mdp, old, new, old, copies)


def test_every_smaller_coefficient_is_caught():
    mutants = [
        (bounds.theorem_5_1, shifted(), "2γC/(1-γ)² E TV(new, behavior)"),
        (bounds.theorem_5_1, turned(0.9, 0.25), "2ξ/(1-γ) S"),
        (bounds.corollary_5_3, shifted(), "C1 U"),
        (bounds.corollary_5_3, turned(0.9, 0.25), "C2 S"),
        (bounds.current_advantages, shifted(2), "2γC/(1-γ)² E TV(new, behavior)"),
        (BOUNDS["average_tv_largest"], shifted(2), "2γ max C/(1-γ)² E TV"),
        (BOUNDS["average_tv_by_policy"], shifted(2), "policy 0"),
        (BOUNDS["average_tv_by_policy"], shifted(2), "policy 1"),
    ]
    for bound_of, case, key in mutants:
        bound = bound_of(*case)
        assert key in bound.penalties
        assert bound.holds
        assert not scaled(bound, 0.98, key).holds
        assert not scaled(bound, 0.5, key).holds


def test_an_advantage_that_is_off_everywhere_attains_its_penalty():
    mdp, mixture, new, _ = golden_case("G03")
    a = mixtures.values(mdp, mixture).a
    moved = bounds.surrogate(mdp, mixture, new, a + 0.03) - bounds.surrogate(mdp, mixture, new, a)
    assert moved == pytest.approx(float(forms.advantage_replacement(mdp.gamma, 0.03)))
    stays = alone(mdp, new, new, new)
    bound = bounds.estimated_advantages(*stays, exact.values(mdp, new).a[:, None] + 0.03)
    assert bound.tightness == pytest.approx(1)
    assert not scaled(bound, 0.99, "ε_A/(1-γ)").holds


def test_the_largest_ratio_is_not_needed_in_the_error_of_advantages():
    """000 section 5.4 has M eps_A with M >= every ratio. Ratios have mean 1, so M is at least 1, and eps_A will do."""
    rng = np.random.default_rng(9)
    for mdp, mixture, new, _ in [golden_case("G02"), golden_case("G03")]:
        error = rng.uniform(-0.1, 0.1, (mdp.states, mixture.size, mdp.actions))
        added = abs(bounds.surrogate(mdp, mixture, new, error))
        ratio = float((new[None] / mixture.policies).max())
        assert ratio > 1
        largest = float(np.abs(error).max())
        assert added <= forms.advantage_replacement(mdp.gamma, largest)
        assert added <= forms.advantage_replacement(mdp.gamma, largest, ratio)


# --- Observation 5.2


def test_no_policy_is_closer_to_all_than_the_common_radius():
    rng = np.random.default_rng(10)
    for _ in range(cases()):
        policies = np.array([random_policy(rng, 3, 4) for _ in range(int(rng.integers(2, 5)))])
        radius = bounds.common_radius(policies)
        tried = random_policy(rng, 3, 4)
        weights = rng.dirichlet(np.ones(len(policies)))
        for pi in (tried, np.einsum("m,msa->sa", weights, policies)):
            assert state_tv(pi, policies).max() >= radius - 1e-12
        middle = policies[:2].mean(0)
        assert state_tv(middle, policies[:2]).max() == pytest.approx(bounds.common_radius(policies[:2]))


def test_one_policy_is_at_no_distance_to_itself():
    assert bounds.common_radius(np.full((1, 2, 2), 0.5)) == 0


# --- Errors


@pytest.mark.parametrize("bound_of", [bounds.average_tv_largest, bounds.average_tv_by_policy])
def test_a_bound_by_policy_refuses_a_step_mixture(bound_of: Callable[..., Any]):
    mdp, mixture, new, _ = golden_case("G03")
    with pytest.raises(ValueError, match="kernel is not the identity"):
        bound_of(mdp, mixture, new)


def test_each_policy_has_a_constant_of_its_own():
    mdp, mixture, new, _ = golden_case("G02")
    by_policy = bounds.average_tv_by_policy(mdp, mixture, new)
    for i, pi in enumerate(mixture.policies):
        tv = exact.occupancy(mdp, pi) @ state_tv(new, pi)
        expected = mixture.alpha[i] * 2 * mdp.gamma * largest_gain(mdp, new, pi) * tv / (1 - mdp.gamma) ** 2
        assert by_policy.penalties[f"policy {i}"] == pytest.approx(expected)
