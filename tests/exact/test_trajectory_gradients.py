"""Gradient estimates from episodes, judged by listing every episode."""

import itertools

import numpy as np
import pytest

from rlnotes.estimators.returns import discounted_reward_to_go, gae, reward_to_go
from rlnotes.exact.mdp import MDP, expected_return, policy_gradient, softmax, values, visits
from rlnotes.exact.random_mdps import random_mdp
from rlnotes.exact.trajectory_gradients import best_baseline, moments, per_trajectory, trajectories, with_bell
from tests.cases import cases
from tests.exact.mdp_cases import GOLDEN, two_rooms


def case(seed: int, horizon: int = 3) -> tuple[MDP, np.ndarray]:
    rng = np.random.default_rng(seed)
    mdp = with_bell(random_mdp(rng, 2, 2, rng.uniform(0.3, 1.0)), horizon)
    return mdp, rng.normal(size=(mdp.states, 2))


SEEDS = range(max(3, cases() // 20))


def test_a_bell_cuts_the_return_and_nothing_else():
    rng = np.random.default_rng(0)
    mdp, pi = random_mdp(rng, 3, 2, 0.8), softmax(rng.normal(size=(3, 2)))
    total, now = 0.0, mdp.start
    for t in range(4):
        total += 0.8**t * now @ (pi * mdp.r).sum(-1)
        now = np.einsum("s,sa,sat->t", now, pi, mdp.P)
    stopped = with_bell(mdp, 4)
    assert expected_return(stopped, np.vstack([np.tile(pi, (4, 1)), [0.5, 0.5]])) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_trajectories_are_all_that_can_happen(seed: int):
    mdp, logits = case(seed)
    pi = softmax(logits)
    paths = trajectories(mdp, pi, 3)
    assert paths.probs.sum() == pytest.approx(1, abs=1e-12)
    discounts = mdp.gamma ** np.arange(3)[:, None]
    assert paths.probs @ (discounts * paths.rewards).sum(0) == pytest.approx(expected_return(mdp, pi), abs=1e-12)
    counts = np.zeros(mdp.states)
    np.add.at(counts, paths.states, discounts * paths.probs)
    np.testing.assert_allclose(counts[:-1], visits(mdp, pi)[:-1], atol=1e-12)


def test_chances_are_products_and_short_episodes_are_padded():
    """One live state: stay with .7 (three times at most, by the bell) or leave."""
    P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = with_bell(MDP(P, np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 0.0]), 0.9), 3)
    pi = np.tile([0.7, 0.3], (mdp.states, 1))
    paths = trajectories(mdp, pi, 3)
    found = {
        tuple(actions[valid].tolist()): (chance, rewards.tolist())
        for chance, actions, rewards, valid in zip(
            paths.probs, paths.actions.T, paths.rewards.T, paths.valid.T, strict=True
        )
    }
    assert {actions: chance for actions, (chance, _) in found.items()} == pytest.approx(
        {(1,): 0.3, (0, 1): 0.21, (0, 0, 1): 0.147, (0, 0, 0): 0.343}
    )
    assert found[0, 1][1] == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mean_over_all_trajectories_is_the_gradient_for_every_right_weight(seed: int):
    """By finite differences of J, as well: three ways to one table."""
    mdp, logits = case(seed)
    pi = softmax(logits)
    paths = trajectories(mdp, pi, 3)
    numeric = np.zeros_like(logits)
    for entry in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[entry] = 1e-5
        numeric[entry] = (
            expected_return(mdp, softmax(logits + step)) - expected_return(mdp, softmax(logits - step))
        ) / 2e-5
    v = values(mdp, pi).v
    discounts, never = mdp.gamma ** np.arange(3)[:, None], np.zeros_like(paths.ended)
    to_go = reward_to_go(paths.rewards, mdp.gamma, paths.ended)
    any_baseline = np.random.default_rng(seed).normal(size=mdp.states)
    advantages = gae(paths.rewards, v[paths.states], v[paths.next_states], paths.ended, never, mdp.gamma, 0.6)
    for weights in (
        np.broadcast_to(to_go[0], to_go.shape),
        discounted_reward_to_go(paths.rewards, mdp.gamma, paths.ended),
        discounts * (to_go - any_baseline[paths.states]),
        discounts * advantages,
    ):
        found = moments(paths, pi, weights)
        np.testing.assert_allclose(found.mean, numeric, atol=1e-8)
        np.testing.assert_allclose(found.mean, policy_gradient(mdp, logits), atol=1e-12)


def test_golden_without_gamma_to_the_t_the_mean_is_another():
    item = GOLDEN["G07"]
    H, gamma = item["inputs"]["H"], item["inputs"]["gamma"]
    P, r = np.zeros((H + 1, 2, H + 1)), np.zeros((H + 1, 2))
    for t in range(H):
        P[t, :, t + 1] = 1
    P[H, :, H] = 1
    r[:H, 1] = item["inputs"]["rew"]
    mdp = MDP(P, r, np.eye(H + 1)[0], gamma)
    pi = softmax(np.stack([np.zeros(H + 1), [*item["inputs"]["logits"], 0.0]], -1))
    paths = trajectories(mdp, pi, H)
    right = moments(paths, pi, discounted_reward_to_go(paths.rewards, gamma, paths.ended)).mean
    printed = moments(paths, pi, reward_to_go(paths.rewards, gamma, paths.ended)).mean
    np.testing.assert_allclose(right[:H, 1], item["outputs"]["grad_eq36_correct"], atol=1e-12)
    np.testing.assert_allclose(printed[:H, 1], item["outputs"]["grad_eq35_as_printed"], atol=1e-12)


def test_the_variance_is_that_of_sampled_episodes():
    mdp, logits = case(1)
    pi = softmax(logits)
    paths = trajectories(mdp, pi, 3)
    weights = discounted_reward_to_go(paths.rewards, mdp.gamma, paths.ended)
    rng = np.random.default_rng(0)
    drawn = per_trajectory(paths, pi, weights)[rng.choice(len(paths.probs), 100_000, p=paths.probs)]
    assert moments(paths, pi, weights).variance == pytest.approx(drawn.var(0).sum(), rel=0.02)


def test_no_baseline_has_less_variance_than_the_best_one():
    mdp = with_bell(two_rooms(), 3)
    pi = np.tile([0.8, 0.2], (mdp.states, 1))
    paths = trajectories(mdp, pi, 3)
    discounts, to_go = mdp.gamma ** np.arange(3)[:, None], reward_to_go(paths.rewards, mdp.gamma, paths.ended)

    def variance(b: np.ndarray) -> float:
        return moments(paths, pi, discounts * (to_go - b[paths.states])).variance

    best = best_baseline(paths, pi, to_go, discounts)
    for s, change in itertools.product(range(mdp.states - 1), (-0.01, 0.01)):
        other = best.copy()
        other[s] += change
        # the second state is where the first time cannot be: its baseline is never used
        assert variance(other) > variance(best) if s != 1 else variance(other) == pytest.approx(variance(best))
    assert variance(best) < 0.9 * variance(values(mdp, pi).v)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="horizon is 0; at least one step"):
        with_bell(two_rooms(), 0)
    with pytest.raises(ValueError, match="after 5 steps and has not ended; raise most_steps"):
        trajectories(two_rooms(), np.full((2, 2), 0.5), 5)
    with pytest.raises(ValueError, match="more than 200000 trajectories"):
        trajectories(with_bell(two_rooms(), 12), np.full((25, 2), 0.5), 12)
    with pytest.raises(ValueError, match="every start is an end"):
        trajectories(MDP(np.ones((1, 2, 1)), np.zeros((1, 2)), np.ones(1), 0.9), np.full((1, 2), 0.5), 1)
    mdp = with_bell(two_rooms(), 2)
    pi = np.full((5, 2), 0.5)
    with pytest.raises(ValueError, match="weights has shape"):
        moments(trajectories(mdp, pi, 2), pi, np.ones(2))
