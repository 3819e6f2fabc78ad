import numpy as np
import pytest

from rlnotes.exact.mdp import (
    MDP,
    ends,
    expected_return,
    occupancy,
    optimal_policy,
    performance_difference,
    surrogate,
    values,
    visits,
)
from rlnotes.exact.random_mdps import ending_mdp, far_pair, random_policy
from tests.cases import cases
from tests.exact.mdp_cases import always, rolled_out, stay_or_leave


def test_a_policy_that_never_ends_is_named_at_once():
    mdp = stay_or_leave(1.0)
    for function in (values, visits, expected_return):
        with pytest.raises(
            ValueError, match=r"policy never terminates at gamma = 1 from state 0; let it take .* gamma"
        ):
            function(mdp, always(0, 0))
    assert values(stay_or_leave(0.99), always(0, 0)).v[0] == pytest.approx(-100, rel=1e-9)
    assert values(stay_or_leave(0.999), always(0, 0)).v[0] == pytest.approx(-1000, rel=1e-9)


def test_leaving_is_found_without_discount():
    pi, best = optimal_policy(stay_or_leave(1.0))
    np.testing.assert_array_equal(pi[0], [0, 1])
    assert best.v[0] == -1


def test_a_policy_that_ends_is_solved_without_discount():
    mdp, pi = stay_or_leave(1.0), np.array([[0.75, 0.25], [1.0, 0.0]])
    assert values(mdp, pi).v[0] == pytest.approx(-4, abs=1e-12)
    np.testing.assert_allclose(visits(mdp, pi), [4, 0], atol=1e-12)  # an end counts 0


def test_lemma_and_surrogate_hold_without_discount():
    rng = np.random.default_rng(9)
    for _ in range(cases()):
        mdp = ending_mdp(rng, 4, 3)
        old, new = far_pair(rng, 4, 3)
        difference = expected_return(mdp, new) - expected_return(mdp, old)
        assert performance_difference(mdp, new, old) == pytest.approx(difference, abs=1e-10)
        step = 1e-6
        change = expected_return(mdp, (1 - step) * old + step * new) - expected_return(mdp, old)
        assert change / step == pytest.approx(surrogate(mdp, new, old), abs=1e-3)


def test_visits_and_return_without_discount_are_sums_over_time():
    rng = np.random.default_rng(12)
    for _ in range(min(cases(), 10)):  # written out step by step, so slow
        mdp = ending_mdp(rng, 4, 3)
        pi = random_policy(rng, 4, 3)
        counts, total = rolled_out(mdp, pi, 300)
        np.testing.assert_allclose(visits(mdp, pi)[:-1], counts[:-1], rtol=0, atol=1e-10)
        assert expected_return(mdp, pi) == pytest.approx(total, abs=1e-10)


def test_a_trap_off_the_way_spoils_values_but_not_the_return():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 1] = P[2, 0, 2] = 1
    mdp = MDP(P, np.array([[3.0], [0.0], [-1.0]]), np.eye(3)[0], 1.0)
    pi = np.ones((3, 1))
    assert expected_return(mdp, pi) == 3
    np.testing.assert_array_equal(visits(mdp, pi), [1, 0, 0])
    with pytest.raises(ValueError, match="never terminates at gamma = 1 from state 2"):
        values(mdp, pi)
    with pytest.raises(ValueError, match="no policy terminates at gamma = 1 from state 2; let an action lead"):
        optimal_policy(mdp)


def test_a_loop_that_pays_for_ever_has_no_optimum_without_discount():
    P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = MDP(P, np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0]), 1.0)
    with pytest.raises(ValueError, match=r"the best return has no limit at gamma = 1: .* from state 0"):
        optimal_policy(mdp)


def test_a_policy_that_hardly_ever_ends_is_refused_and_not_solved_wrongly():
    for leave in (1e-11, 1e-17):
        pi = np.array([[1 - leave, leave], [1.0, 0.0]])
        with pytest.raises(ValueError, match="1e\\+10 steps or more to terminate at gamma = 1 from state 0"):
            values(stay_or_leave(1.0), pi)
    pi = np.array([[1 - 1e-8, 1e-8], [1.0, 0.0]])
    assert values(stay_or_leave(1.0), pi).v[0] == pytest.approx(-1e8, rel=1e-6)


def test_states_that_never_pay_again_are_ends():
    P = np.zeros((4, 1, 4))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 1] = P[3, 0, 0] = 1
    mdp = MDP(P, np.array([[1.0], [0.0], [0.0], [0.0]]), np.ones(4) / 4, 1.0)
    np.testing.assert_array_equal(ends(mdp), [False, True, True, False])
    np.testing.assert_array_equal(values(mdp, np.ones((4, 1))).v, [1, 0, 0, 1])


def test_the_occupancy_needs_a_discount():
    with pytest.raises(ValueError, match=r"gamma is 1, where visits cannot be normalised; take visits\(\)"):
        occupancy(stay_or_leave(1.0), always(1, 1))
