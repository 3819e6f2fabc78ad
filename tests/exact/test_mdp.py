import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rlnotes.exact.mdp import (
    MDP,
    best_finite_horizon_values,
    expected_return,
    finite_horizon_values,
    occupancy,
    performance_difference,
    policy_gradient,
    softmax,
    surrogate,
    transitions,
    values,
    visits,
)
from rlnotes.exact.random_mdps import any_mdp, ending_mdp, random_policy
from tests.cases import cases
from tests.exact.mdp_cases import always, golden, numbers, process, random_cases, rolled_out, two_rooms

# --- Golden values


def test_returns_and_surrogates_equal_the_exact_rationals():
    inputs, expected = golden("G01")
    mdp, old, new = process(inputs["mdp"]), numbers(inputs["pi_old"]), numbers(inputs["pi_new"])
    assert expected_return(mdp, old) == pytest.approx(expected["J_old"], rel=1e-10)
    assert expected_return(mdp, new) == pytest.approx(expected["J_new"], rel=1e-10)
    assert performance_difference(mdp, new, old) == pytest.approx(expected["dJ"], rel=1e-10)
    assert surrogate(mdp, new, old) == pytest.approx(expected["L"], rel=1e-10)
    shift = np.abs(occupancy(mdp, new) - occupancy(mdp, old)).sum()
    assert shift == pytest.approx(expected["state_shift_l1"], rel=1e-10)
    gain = (new * values(mdp, old).a).sum(-1)
    assert np.abs(gain).max() == pytest.approx(expected["C"], rel=1e-10)
    assert np.abs(values(mdp, old).a).max() == pytest.approx(expected["xi"], rel=1e-10)


def test_the_three_state_counterexample_equals_the_exact_rationals():
    inputs, expected = golden("G13")
    gamma, D = float(Fraction(inputs["gamma"])), float(Fraction(inputs["D"]))
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1
    mdp = MDP(P, np.array([[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]]), np.eye(3)[0], gamma)
    old, first = np.full((3, 2), 0.5), np.array([0.5 + D, 0.5 - D, 0.5 + D])
    new = np.stack([first, 1 - first], axis=1)
    assert expected_return(mdp, old) == pytest.approx(expected["J_old"], abs=1e-10)
    assert expected_return(mdp, new) == pytest.approx(expected["J_new"], rel=1e-10)
    assert performance_difference(mdp, new, old) == pytest.approx(expected["dJ"], rel=1e-10)
    assert surrogate(mdp, new, old) == pytest.approx(expected["L"], abs=1e-10)
    shift = np.abs(occupancy(mdp, new) - occupancy(mdp, old)).sum()
    assert shift == pytest.approx(expected["state_shift_l1"], rel=1e-10)


@pytest.mark.parametrize(("step", "gain"), [("alpha_star", "actual_at_alpha_star"), ("alpha", "actual_at_alpha")])
def test_steps_of_conservative_policy_iteration_equal_the_exact_rationals(step: str, gain: str):
    inputs, expected = golden("G05")
    mdp, old, target = process(inputs["mdp"]), numbers(inputs["pi"]), numbers(inputs["pi_prime"])
    size = float(inputs["alpha"]) if step == "alpha" else expected[step]
    new = (1 - size) * old + size * target
    assert expected_return(mdp, new) - expected_return(mdp, old) == pytest.approx(expected[gain], abs=1e-10)
    assert performance_difference(mdp, new, old) == pytest.approx(expected[gain], rel=1e-10)
    assert surrogate(mdp, target, old) == pytest.approx(expected["g"], rel=1e-10)


# --- Two rooms, by hand


def test_a_small_step_is_worse_and_the_full_step_better():
    mdp, old, new = two_rooms(), always(0, 0), always(1, 1)
    np.testing.assert_allclose(values(mdp, old).v, [8.363636, 6.545455], atol=5e-7)
    np.testing.assert_allclose(values(mdp, new).v, [15.824176, 18.021978], atol=5e-7)
    np.testing.assert_allclose(values(mdp, old).a[:, 1], [-2.145455, 1.509091], atol=5e-7)
    np.testing.assert_allclose(occupancy(mdp, old), [0.836364, 0.163636], atol=5e-7)
    np.testing.assert_allclose(occupancy(mdp, new), [0.208791, 0.791209], atol=5e-7)
    assert performance_difference(mdp, new, old) == pytest.approx(7.460539, abs=5e-7)
    assert surrogate(mdp, new, old) == pytest.approx(-15.474380, abs=5e-7)
    for step, gain in ((0.01, -0.150974), (0.1, -1.191281), (0.5, -0.589664), (1, 7.460539)):
        mixed = (1 - step) * old + step * new
        assert expected_return(mdp, mixed) - expected_return(mdp, old) == pytest.approx(gain, abs=5e-7)
        assert performance_difference(mdp, mixed, old) == pytest.approx(gain, abs=5e-7)
        assert surrogate(mdp, mixed, old) == pytest.approx(step * -15.474380, abs=5e-6)


# --- Random processes against definitions written out


def test_visits_and_return_are_sums_over_time():
    rng = np.random.default_rng(0)
    for _ in range(min(cases(), 30)):  # written out step by step, so slow
        mdp = dataclasses.replace(any_mdp(rng), gamma=0.5)
        pi = random_policy(rng, mdp.states, mdp.actions)
        counts, total = rolled_out(mdp, pi, 60)
        np.testing.assert_allclose(visits(mdp, pi), counts, rtol=0, atol=1e-12)
        np.testing.assert_allclose(occupancy(mdp, pi), 0.5 * counts, rtol=0, atol=1e-12)
        assert expected_return(mdp, pi) == pytest.approx(total, abs=1e-12)


def test_values_solve_the_bellman_equations():
    for _, mdp, pi, _ in random_cases(1):
        found = values(mdp, pi)
        for s in range(mdp.states):
            assert found.v[s] == pytest.approx(pi[s] @ found.q[s], abs=1e-9)
            for a in range(mdp.actions):
                ahead = sum(mdp.P[s, a, t] * found.v[t] for t in range(mdp.states))
                assert found.q[s, a] == pytest.approx(mdp.r[s, a] + mdp.gamma * ahead, abs=1e-9)
                assert found.a[s, a] == pytest.approx(found.q[s, a] - found.v[s], abs=1e-9)


def test_the_occupancy_is_a_distribution_that_flows():
    for _, mdp, pi, _ in random_cases(2):
        d = occupancy(mdp, pi)
        assert d.sum() == pytest.approx(1, abs=1e-12)
        flow = (1 - mdp.gamma) * mdp.start
        for s in range(mdp.states):
            flow = flow + mdp.gamma * d[s] * (pi[s] @ mdp.P[s])
        np.testing.assert_allclose(d, flow, rtol=0, atol=1e-12)
        assert expected_return(mdp, pi) == pytest.approx(d @ (pi * mdp.r).sum(-1) / (1 - mdp.gamma), abs=1e-10)


def test_the_performance_difference_lemma_holds():
    for _, mdp, old, new in random_cases(3):
        difference = expected_return(mdp, new) - expected_return(mdp, old)
        assert performance_difference(mdp, new, old) == pytest.approx(difference, abs=1e-10)
        assert performance_difference(mdp, old, old) == pytest.approx(0, abs=1e-10)


def test_the_surrogate_matches_the_return_to_first_order():
    for _, mdp, old, new in random_cases(4):
        step = 1e-5
        change = expected_return(mdp, (1 - step) * old + step * new) - expected_return(mdp, old)
        second_order = 4 * np.abs(values(mdp, old).a).max() * (step / (1 - mdp.gamma)) ** 2
        assert abs(change - step * surrogate(mdp, new, old)) <= second_order + 1e-12
        assert surrogate(mdp, old, old) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("ending", [False, True])
def test_the_policy_gradient_equals_finite_differences(ending: bool):
    rng = np.random.default_rng(5)
    for _ in range(min(cases(), 50)):
        mdp = ending_mdp(rng, 4, 3) if ending else dataclasses.replace(any_mdp(rng), gamma=0.9)
        logits = rng.normal(size=mdp.r.shape)
        numeric = np.zeros_like(logits)
        for where in np.ndindex(logits.shape):
            shift = np.zeros_like(logits)
            shift[where] = 1e-5
            up, down = (expected_return(mdp, softmax(logits + sign * shift)) for sign in (1, -1))
            numeric[where] = (up - down) / 2e-5
        np.testing.assert_allclose(policy_gradient(mdp, logits), numeric, rtol=0, atol=1e-8)


def test_the_gradient_of_a_later_state_is_discounted():
    # reward only in the second of two steps: p = 0.6, gamma = 0.9, slope gamma p (1 - p)
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = P[1, :, 2] = P[2, :, 2] = 1
    mdp = MDP(P, np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.eye(3)[0], 0.9)
    logits = np.zeros((3, 2))
    logits[1, 1] = np.log(0.6 / 0.4)
    assert policy_gradient(mdp, logits)[1, 1] == pytest.approx(0.216, abs=1e-12)


def test_softmax_survives_large_logits_and_ignores_a_shift():
    logits = np.array([[1000.0, 999.0], [-1000.0, 0.0]])
    pi = softmax(logits)
    np.testing.assert_allclose(pi[0], [1 / (1 + np.exp(-1)), 1 / (1 + np.e)], rtol=1e-12)
    np.testing.assert_allclose(softmax(logits + 7), pi, rtol=1e-12)


# --- Finite horizon


def test_cut_off_values_are_sums_over_the_steps_left():
    rng = np.random.default_rng(10)
    for _ in range(min(cases(), 30)):
        mdp = any_mdp(rng)
        pi = random_policy(rng, mdp.states, mdp.actions)
        found = finite_horizon_values(mdp, pi, 7)
        assert found.shape == (8, mdp.states)
        for h in (0, 1, 7):
            assert mdp.start @ found[h] == pytest.approx(rolled_out(mdp, pi, h)[1], abs=1e-12)
        best = best_finite_horizon_values(mdp, 7)
        assert (best >= found - 1e-12).all()
        np.testing.assert_allclose(best[1], mdp.r.max(-1))


def test_the_best_cut_off_value_is_the_best_of_all_plans():
    rng = np.random.default_rng(11)
    mdp = dataclasses.replace(ending_mdp(rng, 3, 2), gamma=0.9)
    plans = [always(*(code >> np.arange(3) & 1)) for code in range(8)]
    two_steps = [
        (first * mdp.r).sum(-1) + 0.9 * transitions(mdp, first) @ (second * mdp.r).sum(-1)
        for first in plans
        for second in plans
    ]
    np.testing.assert_allclose(best_finite_horizon_values(mdp, 2)[2], np.max(two_steps, axis=0), atol=1e-12)


# --- What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": np.ones((2, 2, 3)) / 3}, r"P has shape \(2, 2, 3\); shape \(2, 2, 2\) is needed"),
        ({"P": np.ones((2, 2)) / 2}, r"P has shape \(2, 2\); shape \(any, any, any\) is needed"),
        ({"P": np.ones((0, 2, 0))}, r"P has shape \(0, 2, 0\); at least one state and one action"),
        ({"P": two_rooms().P * 0.9}, r"P\[0, 0\] sums to 0.9; divide the row by its sum"),
        ({"P": two_rooms().P - [0.3, -0.3]}, r"P\[0, 1, 0\] is -0.0999.*; a probability cannot be negative"),
        ({"P": np.where(two_rooms().P == 0.9, np.nan, two_rooms().P)}, r"P\[0, 0, 0\] is nan; pass finite numbers"),
        ({"r": np.ones(2)}, r"r has shape \(2,\); shape \(2, 2\) is needed"),
        ({"r": np.array([[0, 0], [0, np.inf]])}, r"r\[1, 1\] is inf; pass finite numbers"),
        ({"start": np.ones(3) / 3}, r"start has shape \(3,\); shape \(2\) is needed"),
        ({"start": np.ones(2)}, r"start sums to 2; divide"),
        ({"gamma": 1.01}, r"gamma is 1.01; the discount must lie in \[0, 1\]"),
        ({"gamma": -0.1}, r"gamma is -0.1; the discount must lie in \[0, 1\]"),
        ({"gamma": float("nan")}, r"gamma is nan; the discount must lie in \[0, 1\]"),
    ],
)
def test_a_process_that_is_none_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(two_rooms(), **change)


@pytest.mark.parametrize(
    ("pi", "message"),
    [
        (np.ones((3, 2)) / 2, r"pi has shape \(3, 2\); shape \(2, 2\) is needed"),
        (np.array([[0.5, 0.5], [0.5, 0.4]]), r"pi\[1\] sums to 0.9; divide the row by its sum"),
        (np.array([[0.5, 0.5], [1.5, -0.5]]), r"pi\[1, 1\] is -0.5; a probability cannot be negative"),
        (np.array([[0.5, 0.5], [np.nan, 1]]), r"pi\[1, 0\] is nan; pass finite numbers"),
    ],
)
def test_a_policy_that_is_none_is_refused(pi: np.ndarray, message: str):
    for function in (values, expected_return, occupancy, visits, transitions):
        with pytest.raises(ValueError, match=message):
            function(two_rooms(), pi)
    with pytest.raises(ValueError, match=message):
        finite_horizon_values(two_rooms(), pi, 3)
    good = always(0, 0)
    for function in (performance_difference, surrogate):
        with pytest.raises(ValueError, match=message.replace("pi", "new", 1)):
            function(two_rooms(), pi, good)
        with pytest.raises(ValueError, match=message.replace("pi", "old", 1)):
            function(two_rooms(), good, pi)


def test_bad_logits_and_horizons_are_refused():
    with pytest.raises(ValueError, match=r"logits has shape \(2, 3\); shape \(2, 2\) is needed"):
        policy_gradient(two_rooms(), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"logits\[0, 1\] is -inf; pass finite numbers"):
        softmax(np.array([[0, -np.inf]]))
    for function in (
        lambda: finite_horizon_values(two_rooms(), always(0, 0), -1),
        lambda: best_finite_horizon_values(two_rooms(), -1),
    ):
        with pytest.raises(ValueError, match="horizon is -1; a number of steps cannot be negative"):
            function()


def test_a_process_does_not_change_with_the_arrays_it_came_from():
    P = two_rooms().P.copy()
    mdp = MDP(P, np.zeros((2, 2)), np.array([1.0, 0.0]), 0.9)
    P[:] = 0
    assert mdp.P.sum() == 4
    with pytest.raises(ValueError, match="read-only"):
        mdp.r[0, 0] = 1
