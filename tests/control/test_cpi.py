"""Conservative policy iteration: golden values, promises kept, the greedy policy by listing, counted processes."""

import itertools
import subprocess
import sys
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlnotes.bounds import cpi as bounds
from rlnotes.bounds.mdp import largest_gain
from rlnotes.control import cpi
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import MDP, ends, expected_return, optimal_policy, surrogate, visits
from rlnotes.exact.mdp_families import conservative_trap
from rlnotes.exact.pathologies import two_rooms
from rlnotes.exact.random_mdps import random_mdp, random_policy
from tests.bounds.mdp_cases import GOLDEN, close, golden_mdp, golden_outputs, numbers

ENV = gymnasium.make("FrozenLake-v1", max_episode_steps=1000)
LAKE = from_gymnasium(ENV, gamma=0.9)
ANYHOW = np.full((16, 4), 0.25)
SIZES = (bounds.step_size, bounds.kakade_langford_step_size)


def pair(seed: int, gamma: float = 0.8) -> tuple[MDP, np.ndarray]:
    rng = np.random.default_rng(seed)
    return random_mdp(rng, 4, 3, gamma), random_policy(rng, 4, 3)


# --- Steps


def test_golden_step():
    mdp, inputs, expected = golden_mdp("G05"), GOLDEN["G05"]["inputs"], golden_outputs("G05")
    old, other = numbers(inputs["pi"]), numbers(inputs["pi_prime"])

    def look(pi: np.ndarray) -> cpi.Look:
        return cpi.Look(other, bounds.policy_advantage(mdp, pi, other), largest_gain(mdp, other, pi))

    (at_best,) = cpi.iterate(mdp, old, 1, look, bounds.step_size)
    (at_alpha,) = cpi.iterate(mdp, old, 1, look, lambda *_: float(inputs["alpha"]))
    found = {
        "g": at_best.g,
        "eps": at_best.look.epsilon,
        "alpha_star": at_best.alpha,
        "actual_at_alpha_star": at_best.true,
        "KL2002_at_alpha": at_alpha.promised,
        "actual_at_alpha": at_alpha.true,
    }
    assert found == close({name: expected[name] for name in found})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_an_exact_run_keeps_its_promises_and_ends_at_the_optimum(size: Any, seed: int):
    mdp, pi = pair(seed, gamma=0.6)
    updates = list(cpi.iterate(mdp, pi, 3000, lambda pi: cpi.look_at(mdp, mdp, pi), size))
    assert all(update.true >= update.promised - 1e-12 for update in updates)
    assert all(update.promised >= 0 for update in updates)
    after = updates[-1].J
    assert after == pytest.approx(mdp.start @ optimal_policy(mdp)[1].v, abs=1e-6)
    assert after == pytest.approx(expected_return(mdp, updates[-1].pi))
    assert sum(update.true for update in updates) == pytest.approx(after - expected_return(mdp, pi))


def test_a_step_by_the_source_gains_at_least_half_of_its_surrogate():
    mdp, pi = pair(7)
    for update in cpi.iterate(mdp, pi, 200, lambda pi: cpi.look_at(mdp, mdp, pi), bounds.step_size):
        assert update.true >= update.alpha * update.g / 2 - 1e-12


def test_a_step_moves_by_its_size_towards_the_other_policy():
    mdp, pi = pair(3)
    (update,) = cpi.iterate(mdp, pi, 1, lambda pi: cpi.look_at(mdp, mdp, pi), lambda *_: 0.25)
    np.testing.assert_allclose(update.pi - pi, 0.25 * (update.look.other - pi), atol=1e-15)


def test_a_promise_that_is_too_large_would_be_broken():
    """On the chain that attains the bound, half of epsilon is too little."""
    mdp, other, old = conservative_trap(0.9)
    honest = cpi.Look(other, bounds.policy_advantage(mdp, old, other), largest_gain(mdp, other, old))
    for look, kept in ((honest, True), (honest._replace(epsilon=honest.epsilon / 2), False)):
        (update,) = cpi.iterate(mdp, old, 1, lambda pi, look=look: look, lambda *_: 0.5)
        assert (update.true >= update.promised - 1e-12) == kept


def test_it_declines_the_two_rooms_and_finds_another_way():
    mdp, other, old = two_rooms()

    def fixed(pi: np.ndarray) -> cpi.Look:
        return cpi.Look(other, bounds.policy_advantage(mdp, pi, other), largest_gain(mdp, other, pi))

    (declined,) = cpi.iterate(mdp, old, 1, fixed, bounds.step_size)
    assert declined.alpha == 0 and declined.true == 0
    *_, last = cpi.iterate(mdp, old, 1000, lambda pi: cpi.look_at(mdp, mdp, pi), bounds.step_size)
    after = last.J
    assert after == pytest.approx(expected_return(mdp, other), abs=1e-6)


# --- The greedy policy


@pytest.mark.parametrize("seed", range(5))
def test_no_policy_has_a_larger_surrogate_than_the_greedy_one(seed: int):
    mdp, pi = pair(seed)
    seen = cpi.look_at(mdp, mdp, pi)
    listed = [surrogate(mdp, np.eye(3)[list(rows)], pi) for rows in itertools.product(range(3), repeat=4)]
    assert seen.g == pytest.approx(max(listed))
    assert seen.epsilon == pytest.approx(largest_gain(mdp, seen.other, pi))


def test_where_nothing_is_to_be_gained_the_old_row_stays():
    pi = np.array([[0.3, 0.7], [0.3, 0.7]])
    np.testing.assert_array_equal(cpi.greedy(np.array([[0.0, 0.0], [0.2, -0.1]]), pi), [[0.3, 0.7], [1.0, 0.0]])


# --- From walks


def test_many_walks_count_the_true_process():
    seen = cpi.counted(ENV, ANYHOW, 0.9, 8000, np.random.default_rng(0))
    np.testing.assert_array_equal(seen.start, LAKE.start)
    assert seen.gamma == 0.9
    lasting = ~ends(LAKE)
    tries = 8000 * visits(replace(LAKE, gamma=1.0), ANYHOW)[lasting] / 4  # of each action
    error = np.abs(seen.P - LAKE.P).max((1, 2))[lasting]
    assert (error < 5 * np.sqrt(0.25 / tries)).all()
    assert seen.r[14].max() == pytest.approx(1 / 3, abs=0.1) and np.count_nonzero(seen.r) == 3
    assert expected_return(seen, ANYHOW) == pytest.approx(expected_return(LAKE, ANYHOW), rel=0.3)


def test_what_was_never_tried_stays_where_it_is():
    left = np.eye(4)[[0] * 16]
    seen = cpi.counted(ENV, left, 0.9, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(seen.P[:, 1:], np.broadcast_to(np.eye(16)[:, None], (16, 3, 16)))
    assert not seen.r.any()


def test_the_same_seed_walks_the_same_way():
    seen = [cpi.counted(ENV, ANYHOW, 0.9, 50, np.random.default_rng(seed)).P for seed in (1, 1, 2)]
    assert (seen[0] == seen[1]).all() and (seen[0] != seen[2]).any()


def test_walks_that_chose_a_policy_praise_it_and_others_are_fair():
    rng, own, others, true = np.random.default_rng(0), [], [], []
    for _ in range(40):
        choosers, judges = (cpi.counted(ENV, ANYHOW, 0.9, 200, rng) for _ in range(2))
        seen = cpi.look_at(choosers, judges, ANYHOW)
        own.append(bounds.policy_advantage(choosers, ANYHOW, seen.other))
        others.append(seen.g)
        true.append(bounds.policy_advantage(LAKE, ANYHOW, seen.other))
    assert np.mean(own) > 1.5 * np.mean(true)
    assert abs(np.mean(others) - np.mean(true)) < 3 * np.std(others) / np.sqrt(40)


class Ring(gymnasium.Env):
    """One state that ends every walk, and from which every walk starts."""

    P = (([(1.0, 0, 1.0, True)],),)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}


def test_walks_that_cannot_be_counted_are_refused():
    with pytest.raises(ValueError, match="episodes is 0; a mean needs at least one"):
        cpi.counted(ENV, ANYHOW, 0.9, 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="walks end in state 0 and go on from it"):
        cpi.counted(Ring(), np.array([[1.0]]), 0.9, 2, np.random.default_rng(0))


def test_it_needs_no_torch():
    code = "import sys, rlnotes.control.cpi; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
