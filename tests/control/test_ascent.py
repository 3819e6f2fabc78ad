import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlnotes.control.ascent import ascend, logit_gradient, predicted_change, sample, weighted_returns
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import expected_return, policy_gradient, softmax, surrogate, values, visits
from tests.exact.mdp_cases import random_cases

GAMMA = 0.9


def lake():
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=1000)
    return env, from_gymnasium(env, GAMMA)


def test_gradient_and_surrogate_follow_from_weighted_returns():
    for rng, mdp, old, new in random_cases(20):
        logits = rng.normal(size=old.shape)
        old = softmax(logits)
        table = weighted_returns(mdp, old)
        np.testing.assert_allclose(logit_gradient(table, old), policy_gradient(mdp, logits), atol=1e-8)
        assert predicted_change(table, new, old) == pytest.approx(surrogate(mdp, new, old), rel=1e-7, abs=1e-7)


def test_the_exact_gradient_is_that_of_finite_differences_on_the_lake():
    _, mdp = lake()
    logits = np.random.default_rng(0).normal(size=(mdp.states, mdp.actions))
    found = logit_gradient(weighted_returns(mdp, softmax(logits)), softmax(logits))
    for place in ((0, 2), (6, 0), (14, 1)):
        ahead, behind = logits.copy(), logits.copy()
        ahead[place] += 1e-5
        behind[place] -= 1e-5
        slope = (expected_return(mdp, softmax(ahead)) - expected_return(mdp, softmax(behind))) / 2e-5
        assert found[place] == pytest.approx(slope, abs=1e-8)


def test_an_exact_step_of_any_size_loses_nothing_in_any_state():
    """Since A (exp(c pi A) - 1) is never negative, the mean old advantage of the new policy is not either."""
    for rng, mdp, _, _ in random_cases(21):
        logits = rng.normal(size=mdp.r.shape)
        rate = 10 ** rng.uniform(-2, 2)
        new = softmax(logits + rate * policy_gradient(mdp, logits))
        before, after = values(mdp, softmax(logits)), values(mdp, new)
        scale = 1 + np.abs(before.q).max()
        assert (after.v >= before.v - 1e-9 * scale).all()


def test_samples_agree_with_the_exact_table_within_their_noise():
    env, mdp = lake()
    pi = softmax(np.random.default_rng(1).normal(size=(mdp.states, mdp.actions)))
    batches = [sample(env, pi, GAMMA, 100, np.random.default_rng(seed)) for seed in range(60)]
    tables = np.array([batch.table for batch in batches])
    error = tables.std(0, ddof=1) / np.sqrt(len(tables))
    exact = weighted_returns(mdp, pi)
    assert (np.abs(tables.mean(0) - exact)[error > 0] < 5 * error[error > 0]).all()
    assert exact[error == 0] == pytest.approx(0, abs=1e-3)
    returns = np.array([batch.mean_return for batch in batches])
    assert abs(returns.mean() - expected_return(mdp, pi)) < 5 * returns.std(ddof=1) / np.sqrt(len(returns))


class TwoSteps(gymnasium.Env):
    """A world without chance: state 0, then state 1, then the end; each step pays its action plus 1."""

    P = tuple([[(1.0, state + 1, action + 1.0, state == 1)] for action in range(2)] for state in range(3))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return 0, {}


def test_the_table_by_hand():
    pi = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])  # pays 2, then 1
    found = sample(TwoSteps(), pi, 0.5, 3, np.random.default_rng(0))
    np.testing.assert_allclose(found.table, [[0, 2.5], [0.5 * 1, 0], [0, 0]])
    assert found.mean_return == 2.5
    assert found.steps == 6


def test_the_same_generator_plays_the_same_games():
    env, mdp = lake()
    pi = softmax(np.zeros((mdp.states, mdp.actions)))
    first, again = (sample(env, pi, GAMMA, 50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.table, again.table)
    assert first.steps == again.steps != sample(env, pi, GAMMA, 50, np.random.default_rng(4)).steps


def test_no_episodes_are_refused():
    env, _ = lake()
    with pytest.raises(ValueError, match="episodes is 0"):
        sample(env, np.full((16, 4), 0.25), GAMMA, 0, np.random.default_rng(0))


def test_updates_add_up_and_miss_the_shift_of_visits():
    _, mdp = lake()
    updates = list(ascend(mdp, 10, 5, lambda pi: weighted_returns(mdp, pi)))
    assert [update.step for update in updates] == [1, 2, 3, 4, 5]
    start = expected_return(mdp, np.full((mdp.states, mdp.actions), 0.25))
    assert sum(update.true for update in updates) == pytest.approx(updates[-1].J - start, abs=1e-12)
    for before, update in itertools.pairwise(updates):
        assert update.promised == pytest.approx(update.predicted, abs=1e-12)
        shift = visits(mdp, update.pi) - visits(mdp, before.pi)
        missed = shift @ (update.pi * values(mdp, before.pi).a).sum(-1)
        assert update.true - update.predicted == pytest.approx(missed, abs=1e-12)


def test_a_sampled_update_promises_what_its_own_table_says():
    env, mdp = lake()
    rng, again = np.random.default_rng(0), np.random.default_rng(0)
    (update,) = ascend(mdp, 30, 1, lambda pi: sample(env, pi, GAMMA, 200, rng).table)
    old = np.full((mdp.states, mdp.actions), 0.25)
    table = sample(env, old, GAMMA, 200, again).table
    np.testing.assert_allclose(update.pi, softmax(30 * logit_gradient(table, old)), atol=1e-12)
    assert update.promised == pytest.approx(predicted_change(table, update.pi, old), abs=1e-12)
    assert update.predicted == pytest.approx(surrogate(mdp, update.pi, old), abs=1e-12)
    assert update.promised > update.predicted > 0  # it was chosen by the same episodes that now judge it


def test_an_action_that_is_never_taken_promises_nothing():
    old, new = np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]])
    assert predicted_change(np.array([[2.0, 0.0]]), new, old) == pytest.approx(2 * (0.25 - 1))
