import itertools
import math

import numpy as np
import pytest

from rlnotes.estimators.divergences import chi2
from rlnotes.exact.mdp import (
    MDP,
    expected_return,
    occupancy,
    performance_difference,
    surrogate,
    transitions,
    values,
)
from rlnotes.exact.pathologies import (
    counted_steps,
    door_and_buttons,
    surrogate_trap,
    trajectory_weight_law,
    two_rooms,
)
from tests.cases import cases
from tests.exact.mdp_cases import GOLDEN, random_cases

G06 = GOLDEN["G06"]


def trap_of(inputs: dict[str, float]):
    return door_and_buttons(inputs["M"], inputs["eta"], inputs["eta2"], inputs["gamma"])


# --- Example 4.1.1


def test_the_trap_has_the_golden_returns_and_surrogate():
    mdp, new, old = trap_of(G06["inputs"]["ex411"])
    expected = G06["outputs"]["ex411"]
    assert expected_return(mdp, old) == pytest.approx(expected["J_pi"], rel=1e-10)
    assert expected_return(mdp, new) == pytest.approx(expected["J_new"], rel=1e-10)
    assert surrogate(mdp, new, old) == pytest.approx(expected["surrogate_gain"], rel=1e-10)
    assert performance_difference(mdp, new, old) == pytest.approx(expected["true_gain"], rel=1e-10)


def test_the_trap_has_the_numbers_of_the_source():
    mdp, new, old = door_and_buttons(damage=100, rare=1e-4)
    assert expected_return(mdp, old) == pytest.approx(8.091e-5, abs=1e-12)
    assert expected_return(mdp, new) == pytest.approx(-90, abs=1e-10)
    assert surrogate(mdp, new, old) == pytest.approx(0.79994, abs=5e-6)
    assert occupancy(mdp, old)[1] == pytest.approx(0.1 * 0.9 * 1e-4, abs=1e-15)  # (1 - gamma) gamma eta
    assert occupancy(mdp, new)[1] == pytest.approx(0.1 * 0.9, abs=1e-15)


def test_the_closed_form_of_the_trap_is_that_of_the_process():
    rng = np.random.default_rng(0)
    for _ in range(cases()):
        damage, rare, careless, gamma, step = rng.uniform(0.1, 50), *rng.uniform(0, 1, 4)
        mdp, new, old = door_and_buttons(damage, rare, careless, gamma)
        mixed = (1 - step) * old + step * new
        predicted, true = surrogate_trap(np.array([step]), damage, rare, careless, gamma)
        assert predicted[0] == pytest.approx(surrogate(mdp, mixed, old), abs=1e-10)
        assert true[0] == pytest.approx(expected_return(mdp, mixed) - expected_return(mdp, old), abs=1e-10)


# --- Two rooms


def test_the_rooms_by_hand():
    """The old policy's values are 92/11 and 72/11, its advantages of the other action -23.6/11 and 16.6/11."""
    mdp, new, old = two_rooms()
    found = values(mdp, old)
    np.testing.assert_allclose(found.v, [92 / 11, 72 / 11], rtol=1e-12)
    np.testing.assert_allclose(found.a, [[0, -23.6 / 11], [0, 16.6 / 11]], atol=1e-12)
    assert performance_difference(mdp, new, old) == pytest.approx(7.460539, abs=5e-7)
    assert surrogate(mdp, new, old) == pytest.approx(-15.474380, abs=5e-7)
    assert (occupancy(mdp, new) * found.a[:, 1]).sum() == pytest.approx(0.746054, abs=5e-7)


@pytest.mark.parametrize(("step", "gain"), [(0.01, -0.150974), (0.1, -1.191281), (0.5, -0.589664), (1, 7.460539)])
def test_a_small_step_between_the_rooms_does_harm_and_a_full_one_gains(step: float, gain: float):
    mdp, new, old = two_rooms()
    mixed = (1 - step) * old + step * new
    assert expected_return(mdp, mixed) - expected_return(mdp, old) == pytest.approx(gain, abs=5e-7)


# --- Example 4.1.2


def return_by_walking(mdp: MDP, steps: int) -> float:
    """The process is deterministic: follow it."""
    state, total = int(mdp.start.argmax()), 0.0
    for t in range(steps):
        total += mdp.gamma**t * mdp.r[state, 0]
        state = int(mdp.P[state, 0].argmax())
    return total


def test_the_counted_steps_have_the_golden_returns():
    inputs, expected = G06["inputs"]["ex412"], G06["outputs"]["ex412"]
    anything = np.random.default_rng(0).dirichlet((1, 1), inputs["H"] + 2)
    printed = counted_steps(inputs["H"], inputs["gamma"], endless=True)
    assert expected_return(printed, anything[:-1]) == pytest.approx(expected["G0_correct"], rel=1e-12)
    once = counted_steps(inputs["H"], inputs["gamma"], endless=False)
    assert expected_return(once, anything) == pytest.approx(expected["G0_as_printed"], rel=1e-12)
    assert return_by_walking(printed, 500) == pytest.approx(expected["G0_correct"], rel=1e-12)
    assert return_by_walking(once, 500) == pytest.approx(expected["G0_as_printed"], rel=1e-12)


@pytest.mark.parametrize("horizon", [0, -1])
def test_a_count_of_nothing_is_refused(horizon: int):
    with pytest.raises(ValueError, match=f"horizon is {horizon}"):
        counted_steps(horizon, 0.9, endless=False)


def test_trajectory_weights_equal_a_walk_over_all_sequences():
    p, q, horizon = 0.3, 0.55, 7
    law, listed = trajectory_weight_law(horizon, p, q), {}
    for actions in itertools.product((0, 1), repeat=horizon):
        weight = math.prod(q / p if a else (1 - q) / (1 - p) for a in actions)
        listed.setdefault(sum(actions), [weight, 0.0])[1] += math.prod(p if a else 1 - p for a in actions)
    np.testing.assert_allclose(law.values, [listed[k][0] for k in range(horizon + 1)], rtol=1e-12)
    np.testing.assert_allclose(law.probabilities, [listed[k][1] for k in range(horizon + 1)], rtol=1e-12)


def test_the_variance_of_the_weights_is_golden_and_a_power_of_chi_square():
    inputs, expected = G06["inputs"]["ex412"], G06["outputs"]["ex412"]
    p, q, horizon = inputs["p"], inputs["q"], inputs["H"]
    law = trajectory_weight_law(horizon, p, q)
    assert law.probabilities @ law.values == pytest.approx(1, abs=1e-12)
    variance = law.probabilities @ law.values**2 - 1
    assert variance == pytest.approx(expected["var_w"], rel=1e-12)
    base = 1 + float(chi2(np.log([1 - q, q]), np.log([1 - p, p])))
    assert base == pytest.approx(expected["base"], rel=1e-12)
    assert variance == pytest.approx(base**horizon - 1, rel=1e-12)


@pytest.mark.parametrize(("p", "q", "name"), [(0.0, 0.5, "p"), (0.5, 1.0, "q"), (0.5, np.nan, "q")])
def test_choices_without_chance_are_refused(p: float, q: float, name: str):
    with pytest.raises(ValueError, match=f"{name} is "):
        trajectory_weight_law(3, p, q)


# --- What the chapter on these processes also uses


def test_one_step_of_two_policies_differs_by_at_most_twice_their_total_variation():
    for _, mdp, new, old in random_cases(30):
        step = np.abs(transitions(mdp, new) - transitions(mdp, old)).sum(-1)
        policies = np.abs(new - old).sum(-1)
        assert (step <= policies + 1e-12).all()
    mdp, new, old = door_and_buttons(damage=1, rare=0.2)
    step = np.abs(transitions(mdp, new) - transitions(mdp, old)).sum(-1)
    assert step[0] == pytest.approx(np.abs(new - old)[0].sum())  # the door leads to a place of its own: attained
    assert step[1] == 0 < np.abs(new - old)[1].sum()  # both buttons lead to the end


def test_chapter_00_the_surrogate_of_the_trap_has_the_right_direction_for_small_steps_only():
    steps = np.linspace(0, 0.2, 2001)
    predicted, true = surrogate_trap(steps, damage=5, rare=0.01, gamma=1)
    assert steps[true.argmax()] == pytest.approx(0.078, abs=0.001)
    assert (np.diff(predicted) > 0).all()
    assert predicted[200] / true[200] == pytest.approx(1.147, abs=0.001)  # at 0.02
    assert predicted[1600] == pytest.approx(0.148, abs=0.001) and true[1600] == pytest.approx(-0.004, abs=0.001)
