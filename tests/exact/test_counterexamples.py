"""The counterexamples that only the errata need, by hand and by an independent search."""

import numpy as np
import pytest
from pytest import approx
from scipy.optimize import approx_fprime, minimize

from rlnotes.exact.counterexamples import (
    fair_gamble,
    late_choice,
    reward_to_go_gradient,
    smallest_td_error,
    two_kinds_of_answers,
)
from rlnotes.exact.mdp import MDP, expected_return, policy_gradient, softmax, values
from rlnotes.exact.token_divergences import context_kl, mean_by_position, sequence_kl
from rlnotes.exact.tokens import on_answers, sequences
from tests.bounds.mdp_cases import GOLDEN


def test_the_late_choice_by_hand():
    """p = .6: the slope by the logit of the paying action is gamma p (1 - p) = .216, and .24 as printed."""
    mdp, logits = late_choice(0.9), np.log([[0.5, 0.5], [0.6, 0.4], [0.5, 0.5]])
    assert policy_gradient(mdp, logits)[1] == approx([0.216, -0.216])
    assert reward_to_go_gradient(mdp, logits)[1] == approx([0.24, -0.24])
    slopes = approx_fprime(logits.ravel(), lambda x: expected_return(mdp, softmax(x.reshape(3, 2))))
    assert policy_gradient(mdp, logits).ravel() == approx(slopes, abs=1e-7)


def test_the_printed_gradient_is_the_golden_one():
    """A chain of three steps that always advances; action 1 pays."""
    bundle = GOLDEN["G07"]
    given = bundle["inputs"]
    steps, logits = given["H"], np.array(given["logits"])
    P = np.repeat(np.eye(steps + 1)[np.minimum(np.arange(steps + 1) + 1, steps)][:, None], 2, axis=1)
    r = np.zeros((steps + 1, 2))
    r[:steps, 1] = given["rew"]
    mdp = MDP(P, r, np.eye(steps + 1)[0], given["gamma"])
    table = np.zeros((steps + 1, 2))
    table[:steps, 1] = logits
    assert reward_to_go_gradient(mdp, table)[:steps, 1] == approx(bundle["outputs"]["grad_eq35_as_printed"], rel=1e-10)
    assert policy_gradient(mdp, table)[:steps, 1] == approx(bundle["outputs"]["grad_eq36_correct"], rel=1e-10)


def test_without_a_discount_the_printed_gradient_is_right():
    logits = np.array([[0.3, 0.0], [-0.2, 0.5], [0.0, 0.0]])
    assert reward_to_go_gradient(late_choice(1.0), logits) == approx(policy_gradient(late_choice(1.0), logits))


def test_the_printed_gradient_of_a_policy_that_never_ends_is_refused():
    endless = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), np.ones(1), 0.9)
    with pytest.raises(ValueError, match="never terminates at gamma = 1 from state 0"):
        reward_to_go_gradient(endless, np.zeros((1, 2)))


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_the_critic_of_a_fair_gamble_is_pulled_to_the_middle(gamma: float):
    """At V(0) = 0 and V(1) = -V(2) = v the mean square is gamma^2 v^2 + (1 - v)^2, smallest at 1 / (1 + gamma^2)."""
    mdp, pi = fair_gamble(gamma), np.ones((4, 1))
    found, shrunk = smallest_td_error(mdp, pi), 1 / (1 + gamma**2)
    assert found == approx([0, shrunk, -shrunk, 0], abs=1e-12)
    assert values(mdp, pi).v == approx([0, 1, -1, 0], abs=1e-12)

    def mean_square(v: np.ndarray) -> float:
        errors = [gamma * v[1] - v[0], gamma * v[2] - v[0], 1 - v[1], -1 - v[2]]
        return float(np.square(errors).mean())

    assert found[:3] == approx(minimize(mean_square, np.ones(3), tol=1e-12).x, abs=1e-5)


def test_where_nothing_is_random_the_smallest_td_error_is_that_of_the_values():
    mdp, pi = late_choice(0.9), np.array([[1.0, 0.0]] * 3)
    assert smallest_td_error(mdp, pi) == approx(values(mdp, pi).v)


def test_a_state_without_visits_has_no_value_to_find():
    mdp = fair_gamble(0.9)
    with pytest.raises(ValueError, match="never visits state 0"):
        smallest_td_error(MDP(mdp.P, mdp.r, np.eye(4)[1], 0.9), np.ones((4, 1)))


def test_the_mean_kl_of_an_answer_depends_on_its_first_token():
    horizon, shift = 6, 0.1
    model, target, behavior = two_kinds_of_answers(horizon, shift)
    kl = context_kl(model, behavior, target)
    coin = -np.log(1 - 4 * shift**2) / 2
    mean = on_answers(model, [rows[..., None] for rows in kl]).mean(-1)[0]
    first = sequences(2, horizon)[:, 0]
    assert mean == approx(first * coin * (horizon - 1) / horizon)
    assert sequence_kl(model, behavior, target) == approx((horizon - 1) * coin / 2)
    assert mean_by_position(model, kl, behavior) == approx([0] + [coin / 2] * (horizon - 1))


def test_a_coin_cannot_move_by_a_half():
    with pytest.raises(ValueError, match=r"shift is 0\.5"):
        two_kinds_of_answers(3, 0.5)
