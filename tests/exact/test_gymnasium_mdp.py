from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import (
    MDP,
    best_finite_horizon_values,
    ends,
    expected_return,
    finite_horizon_values,
    optimal_policy,
    transitions,
    values,
)

LAKE, BIG_LAKE, CLIFF = "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1"
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))  # older versions are refused


def load(name: str, gamma: float) -> MDP:
    return from_gymnasium(gymnasium.make(name), gamma)


def table(P: Any, start: list[float]) -> Any:
    """An environment that is nothing but a table."""
    return SimpleNamespace(unwrapped=SimpleNamespace(P=P, initial_state_distrib=np.array(start)))


def success_with_limit(name: str, pi: np.ndarray) -> float:
    """Chance that ``pi`` reaches the goal of a lake before the time limit."""
    limit = gymnasium.make(name).spec.max_episode_steps  # type: ignore[union-attr]
    mdp = load(name, 1.0)
    return float(mdp.start @ finite_horizon_values(mdp, pi, limit)[-1])  # type: ignore[arg-type]


# --- Published numbers, each with its discount and its limit


@pytest.mark.parametrize(
    ("gamma", "value", "with_limit"), [(0.9, 0.068891, 0.729766), (0.99, 0.542026, 0.740165), (1.0, 14 / 17, 0.740165)]
)
def test_the_lake_is_worth_what_its_discount_says(gamma: float, value: float, with_limit: float):
    mdp = load(LAKE, gamma)
    pi, best = optimal_policy(mdp)
    assert mdp.start @ best.v == pytest.approx(value, abs=5e-7)
    assert expected_return(mdp, pi) == pytest.approx(value, abs=5e-7)
    assert success_with_limit(LAKE, pi) == pytest.approx(with_limit, abs=5e-7)


def test_the_best_under_the_time_limit_depends_on_the_time_left():
    for name, limit, best in ((LAKE, 100, 0.744190), (BIG_LAKE, 200, 0.913220)):
        assert gymnasium.make(name).spec.max_episode_steps == limit  # type: ignore[union-attr]
        mdp = load(name, 1.0)
        assert mdp.start @ best_finite_horizon_values(mdp, limit)[-1] == pytest.approx(best, abs=5e-7)
    big = load(BIG_LAKE, 1.0)
    assert big.start @ optimal_policy(big)[1].v == pytest.approx(1, abs=1e-9)


def test_always_left_is_cut_off_in_three_states_with_a_small_chance():
    mdp = load(LAKE, 1.0)
    left = np.eye(4)[[0] * 16]
    after = mdp.start @ np.linalg.matrix_power(transitions(mdp, left), 100)
    over = ends(mdp)
    assert set(np.flatnonzero(over)) == {5, 7, 11, 12, 15}
    assert set(np.flatnonzero(after * over)) == {12}
    assert set(np.flatnonzero(after * ~over)) == {0, 4, 8}
    assert after[~over].sum() == pytest.approx(0.001319, abs=5e-7)


def test_cliff_and_taxi_have_their_shortest_ways():
    cliff = load(CLIFF, 1.0)
    assert cliff.start @ optimal_policy(cliff)[1].v == pytest.approx(-13, abs=1e-9)
    taxi = load(TAXI, 1.0)
    # 20 for the passenger, less 1 for every other step: by breadth-first search over the table
    assert taxi.start @ optimal_policy(taxi)[1].v == pytest.approx(taxi_by_search(), abs=1e-9)


def taxi_by_search() -> float:
    """Mean best return of Taxi: 20 - (shortest way - 1), from backward search, penalties never being of use."""
    base: Any = gymnasium.make(TAXI).unwrapped
    steps = {s: 1 for s in base.P for a in base.P[s] for _, _, reward, done in base.P[s][a] if done and reward == 20}
    while True:
        found = {
            s: 1 + min(steps[t] for a in base.P[s] for _, t, _, _ in base.P[s][a] if t in steps)
            for s in base.P
            if s not in steps and any(t in steps for a in base.P[s] for _, t, _, _ in base.P[s][a])
        }
        if not found:
            break
        steps |= found
    return sum(base.initial_state_distrib[s] * (21 - steps[s]) for s in base.P if base.initial_state_distrib[s] > 0)


# --- The table


def test_outcomes_that_name_a_state_twice_are_added_up():
    mdp = load(LAKE, 0.9)
    assert mdp.P[0, 0, 0] == pytest.approx(2 / 3, abs=1e-12)
    assert mdp.P[0, 0, 4] == pytest.approx(1 / 3, abs=1e-12)


@pytest.mark.parametrize("name", [LAKE, BIG_LAKE, CLIFF, TAXI])
def test_every_row_is_the_distribution_of_the_table(name: str):
    mdp, base = load(name, 0.9), gymnasium.make(name).unwrapped
    np.testing.assert_allclose(mdp.P.sum(-1), 1, rtol=0, atol=1e-12)
    rows: Any = base.P  # type: ignore[attr-defined]
    lasting = ends(mdp)
    for s in range(0, len(rows), 7):
        for a in range(mdp.actions):
            assert mdp.r[s, a] == pytest.approx(sum(p * reward for p, _, reward, _ in rows[s][a]), abs=1e-12)
            over = sum(p for p, _, _, done in rows[s][a] if done)
            assert mdp.P[s, a] @ lasting == pytest.approx(over, abs=1e-12)
    np.testing.assert_allclose(mdp.start[: len(rows)], base.initial_state_distrib)  # type: ignore[attr-defined]


def test_an_end_is_added_only_where_the_table_has_none():
    assert [load(name, 0.9).states for name in (LAKE, BIG_LAKE, CLIFF, TAXI)] == [16, 64, 49, 501]
    assert load(TAXI, 0.9).start[-1] == 0


def test_the_order_of_outcomes_does_not_matter():
    outcomes = [(0.8, 1, 1.0, True), (0.2, 1, -1.0, True)]
    for order in (outcomes, outcomes[::-1]):
        mdp = from_gymnasium(table({0: {0: order}, 1: {0: [(1.0, 1, 0.0, True)]}}, [1, 0]), 1.0)
        assert mdp.states == 2
        assert optimal_policy(mdp)[1].v[0] == pytest.approx(0.6, abs=1e-12)


def test_a_terminal_outcome_pays_once_even_where_its_state_goes_on():
    # the end of the episode leads into a state that would pay 5 for ever
    mdp = from_gymnasium(table({0: {0: [(1.0, 1, 2.0, True)]}, 1: {0: [(1.0, 1, 5.0, False)]}}, [1, 0]), 0.9)
    found = values(mdp, np.ones((3, 1)))
    np.testing.assert_allclose(found.v, [2, 50, 0], rtol=1e-12)


def test_a_terminal_state_that_would_go_on_for_nothing_is_no_end():
    # the state that the episode ends in pays nothing itself, but the table moves on to one that does
    rows = {0: {0: [(1.0, 1, 2.0, True)]}, 1: {0: [(1.0, 2, 0.0, False)]}, 2: {0: [(1.0, 2, 5.0, False)]}}
    found = values(from_gymnasium(table(rows, [1, 0, 0]), 0.9), np.ones((4, 1)))
    np.testing.assert_allclose(found.v, [2, 45, 50, 0], rtol=1e-12)


def test_a_terminal_self_loop_that_pays_is_left_after_one_payment():
    mdp = from_gymnasium(table({0: {0: [(1.0, 0, 3.0, True)]}}, [1]), 1.0)
    assert values(mdp, np.ones((2, 1))).v[0] == 3


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(
        ValueError, match=r"CartPole.* has no table P; take a tabular environment such as FrozenLake-v1"
    ):
        from_gymnasium(gymnasium.make("CartPole-v1"), 0.9)
    bare = SimpleNamespace(unwrapped=SimpleNamespace(P={0: {0: [(1.0, 0, 0.0, True)]}}))
    with pytest.raises(ValueError, match="has no table initial_state_distrib"):
        from_gymnasium(bare, 0.9)


def test_a_table_whose_chances_do_not_add_up_is_refused():
    with pytest.raises(ValueError, match=r"P\[0, 0\] sums to 0.5; divide the row by its sum"):
        from_gymnasium(table({0: {0: [(0.5, 0, 0.0, False)]}}, [1]), 0.9)
