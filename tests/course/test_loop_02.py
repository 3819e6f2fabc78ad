"""The loop of chapter 02 reaches its threshold on five of five seeds, and does what the chapter says of it."""

import gymnasium
import numpy as np
import pytest

from rlnotes.control.ascent import ascend, logit_gradient, predicted_change, sample, weighted_returns
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import MDP, expected_return, optimal_policy, softmax, surrogate

ENV = gymnasium.make("FrozenLake-v1", max_episode_steps=1000)
LAKE: MDP = from_gymnasium(ENV, gamma=0.99)


@pytest.mark.parametrize("seed", range(5))
def test_chapter_02_sampled_gradients_learn_the_lake(seed: int):
    rng = np.random.default_rng(seed)
    updates = list(ascend(LAKE, 10, 120, lambda pi: sample(ENV, pi, LAKE.gamma, 200, rng).table))
    assert updates[0].J < 0.02
    assert updates[-1].J >= 0.48
    promised, predicted, true = (
        sum(getattr(update, name) for update in updates) for name in ("promised", "predicted", "true")
    )
    assert 3.5 * true < promised < 4.9 * true  # walks that chose a step overpraise it
    assert 0.9 * true < predicted < true  # small steps: the shift of visits is small


def test_chapter_02_the_exact_twin_learns_the_lake():
    updates = list(ascend(LAKE, 10, 120, lambda pi: weighted_returns(LAKE, pi)))
    assert all(update.true >= 0 for update in updates)
    assert 0.51 < updates[-1].J < LAKE.start @ optimal_policy(LAKE)[1].v


def test_chapter_02_promise_surrogate_and_truth_part_as_the_step_grows():
    twin = list(ascend(LAKE, 10, 60, lambda pi: weighted_returns(LAKE, pi)))

    def step(old: np.ndarray, table: np.ndarray, rate: float) -> tuple[float, float, float]:
        new = softmax(np.log(old) + rate * logit_gradient(table, old))
        true = expected_return(LAKE, new) - expected_return(LAKE, old)
        return predicted_change(table, new, old), surrogate(LAKE, new, old), true

    old = twin[39].pi
    _, small, true = step(old, weighted_returns(LAKE, old), 1)
    assert small == pytest.approx(true, rel=0.02)
    _, large, true = step(old, weighted_returns(LAKE, old), 1000)
    assert true > 3 * large > 0
    old = twin[59].pi
    for seed in range(3):
        promised, _, true = step(old, sample(ENV, old, LAKE.gamma, 200, np.random.default_rng(seed)).table, 1000)
        assert promised > 0.2 and true < promised / 4


def test_chapter_02_a_large_rate_makes_some_runs_stop_learning():
    ends = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        *_, last = ascend(LAKE, 100, 40, lambda pi, rng=rng: sample(ENV, pi, LAKE.gamma, 200, rng).table)
        slope = logit_gradient(weighted_returns(LAKE, last.pi), last.pi)
        ends.append((last.J, float(np.linalg.norm(slope))))
    assert sum(J < 0.4 for J, _ in ends) == 2
    assert all(slope < 0.01 for _, slope in ends)
