import dataclasses

import numpy as np
import pytest
from scipy.optimize import linprog

from rlnotes.exact.mdp import (
    MDP,
    best_finite_horizon_values,
    expected_return,
    finite_horizon_values,
    optimal_policy,
    values,
)
from rlnotes.exact.random_mdps import any_mdp, ending_mdp
from tests.cases import cases
from tests.exact.mdp_cases import always, two_rooms


def optimum_by_linear_program(mdp: MDP) -> np.ndarray:
    """V* by the linear program: smallest v with v >= Q(., a) for every action."""
    rows = [np.eye(mdp.states) - mdp.gamma * mdp.P[:, a] for a in range(mdp.actions)]
    answer = linprog(
        np.ones(mdp.states), A_ub=-np.concatenate(rows), b_ub=-mdp.r.T.ravel(), bounds=(None, None), method="highs"
    )
    assert answer.success
    return answer.x


def test_the_optimum_equals_the_linear_program():
    rng = np.random.default_rng(6)
    for _ in range(min(cases(), 100)):
        mdp = any_mdp(rng)
        pi, best = optimal_policy(mdp)
        np.testing.assert_allclose(best.v, optimum_by_linear_program(mdp), rtol=1e-6, atol=1e-6)
        assert best.a.max() <= 1e-8
        np.testing.assert_array_equal(np.sort(pi, axis=-1)[:, -1], 1)
        np.testing.assert_allclose(best.v, values(mdp, pi).v, rtol=1e-12)


def test_the_optimum_without_discount_equals_the_linear_program():
    rng = np.random.default_rng(7)
    for _ in range(min(cases(), 50)):
        mdp = ending_mdp(rng, 5, 3)
        live = mdp.states - 1
        rows = np.concatenate([np.eye(live) - mdp.P[:-1, a, :-1] for a in range(mdp.actions)])
        answer = linprog(np.ones(live), A_ub=-rows, b_ub=-mdp.r[:-1].T.ravel(), bounds=(None, None), method="highs")
        np.testing.assert_allclose(optimal_policy(mdp)[1].v[:-1], answer.x, rtol=1e-6, atol=1e-6)


def test_one_state_that_pays_for_ever_is_worth_a_hundred():
    mdp = MDP(np.ones((1, 1, 1)), np.ones((1, 1)), np.ones(1), 0.99)
    assert optimal_policy(mdp)[1].v[0] == pytest.approx(100, abs=1e-9)
    # a rule that stops when values change by less than 0.01 stops after 460 sweeps, 0.98 short
    assert finite_horizon_values(mdp, np.ones((1, 1)), 460)[-1, 0] == pytest.approx(99.017823, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_without_rewards_everything_is_worth_nothing(gamma: float):
    mdp = MDP(two_rooms().P, np.zeros((2, 2)), np.ones(2) / 2, gamma)
    np.testing.assert_array_equal(optimal_policy(mdp)[1].q, 0)
    assert expected_return(mdp, np.full((2, 2), 0.5)) == 0


def test_a_published_two_state_example_is_solved_exactly():
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.8, 0.2], [0.1, 0.9]]])
    mdp = MDP(P, np.array([[5.0, 10.0], [-1.0, 2.0]]), np.array([1.0, 0.0]), 0.99)
    pi, best = optimal_policy(mdp)
    np.testing.assert_array_equal(pi, always(1, 0))
    np.testing.assert_allclose(best.v, [392.299107, 386.160714], atol=5e-7)
    # the sweep where a rule on the span of the change stops
    np.testing.assert_allclose(best_finite_horizon_values(mdp, 47)[-1], [150.866738, 144.728304], atol=5e-7)


def test_ties_keep_the_old_action():
    rng = np.random.default_rng(8)
    one = any_mdp(rng)
    copied = MDP(np.repeat(one.P[:, :1], 2, axis=1), np.repeat(one.r[:, :1], 2, axis=1), one.start, one.gamma)
    noise = copied.r + np.array([0, 1e-14])
    for r in (copied.r, noise):
        pi, _ = optimal_policy(dataclasses.replace(copied, r=r))
        np.testing.assert_array_equal(pi, always(*[0] * one.states))


def test_an_outcome_list_is_averaged():
    end = [0.0, 1.0]
    mdp = MDP(np.array([[end], [end]]), np.array([[0.8 * 1 + 0.2 * -1], [0.0]]), np.array([1.0, 0.0]), 1.0)
    assert optimal_policy(mdp)[1].v[0] == pytest.approx(0.6, abs=1e-12)
