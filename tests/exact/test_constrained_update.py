"""000's three clips and the constrained update they stand for, against greedy filling, grids and finite differences."""

from itertools import product
from typing import get_args

import numpy as np
import pytest

from rlnotes.bounds import mixtures as mixture_bounds
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.checks import SupportError
from rlnotes.exact.constrained_update import (
    Mechanism,
    StaleData,
    clip_band,
    clipped_term,
    clipped_update,
    constrained_update,
)
from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture
from tests.cases import cases

MECHANISMS = get_args(Mechanism)
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def random_data(seed: int, states: int = 2, behaviors: int = 2, actions: int = 4, drift: float = 0.7) -> StaleData:
    rng = np.random.default_rng(seed)
    current = rng.dirichlet(np.ones(actions), states)
    old = current * np.exp(drift * rng.normal(size=(behaviors, states, actions)))
    weights = rng.dirichlet(np.ones(states * behaviors)).reshape(states, behaviors)
    advantages = rng.normal(size=(states, behaviors, actions))
    return StaleData(weights, old / old.sum(-1, keepdims=True), current, advantages)


def bandit(current: list[float], advantages: list[float], behavior: list[float] | None = None) -> StaleData:
    old = current if behavior is None else behavior
    return StaleData(np.ones((1, 1)), np.array([[old]]), np.array([current]), np.array([[advantages]]))


def greedy(data: StaleData, shift: float) -> np.ndarray:
    """The constrained optimum by filling: mass moves to a state's best action first where it gains most."""
    mass = data.weights.sum(1)
    gain = np.einsum("si,sia->sa", data.weights, data.advantages) / mass[:, None]
    policy, best = data.current.copy(), gain.argmax(1)
    moves = sorted(product(*map(range, policy.shape)), key=lambda at: gain[at] - gain[at[0]].max())
    for s, a in moves:
        moved = min(policy[s, a], shift / mass[s])
        if a != best[s]:
            policy[s, a] -= moved
            policy[s, best[s]] += moved
            shift -= moved * mass[s]
    return policy


@pytest.mark.parametrize("seed", range(min(cases(), 40)))
def test_the_constrained_update_is_what_greedy_filling_finds(seed: int):
    data = random_data(seed, states=3, behaviors=2, actions=4)
    for shift in (0.0, 0.03, 0.1, 0.6):
        found = constrained_update(data, shift)
        np.testing.assert_allclose(found, greedy(data, shift), atol=1e-7)
        assert data.update_shift(found) <= shift + 1e-9


def test_with_no_limit_every_state_takes_its_best_action():
    data = random_data(0, states=3)
    found = constrained_update(data, 1.0)
    assert (found.argmax(-1) == np.einsum("si,sia->sa", data.weights, data.advantages).argmax(-1)).all()
    np.testing.assert_allclose(found.max(-1), 1)


@every_mechanism
@pytest.mark.parametrize("seed", range(6))
def test_no_policy_on_a_grid_beats_the_clipped_update_or_is_a_nearer_maximiser(mechanism: Mechanism, seed: int):
    data = random_data(seed, states=1, behaviors=2, actions=3, drift=1.0)
    found = clipped_update(data, mechanism, 0.2)
    best = data.clipped(mechanism, 0.2, found)
    steps = 100
    grid = [np.array([[i, j, steps - i - j]]) / steps for i in range(steps + 1) for j in range(steps + 1 - i)]
    values = np.array([data.clipped(mechanism, 0.2, policy) for policy in grid])
    assert values.max() <= best + 1e-8
    assert values.max() >= best - 0.1  # the grid is fine enough to have caught a wrong optimum
    as_good = [data.update_shift(policy) for policy, value in zip(grid, values, strict=True) if value > best - 1e-9]
    assert all(shift >= data.update_shift(found) - 1e-6 for shift in as_good)


@pytest.mark.parametrize("block", range(4))
def test_method_2_alone_moves_epsilon_times_the_larger_of_the_good_and_the_bad_mass(block: int):
    met = 0
    for seed in range(block * cases() // 20, (block + 1) * cases() // 20):
        data = random_data(seed, states=1, behaviors=1, actions=5)
        good = float(data.current[0, data.advantages[0, 0] > 0].sum())
        if good == 0 or 0.2 * good > 1 - good:  # the terms cannot all be closed at once
            continue
        met += 1
        shift = data.update_shift(clipped_update(data, "method 2", 0.2))
        assert shift == pytest.approx(0.2 * max(good, 1 - good), abs=1e-6)
        assert shift >= 0.1 - 1e-6
    assert met >= 3


@pytest.mark.parametrize("block", range(4))
def test_method_1_alone_moves_by_the_larger_of_what_good_actions_gain_and_bad_ones_can_lose(block: int):
    met = 0
    for seed in range(block * cases() // 20, (block + 1) * cases() // 20):
        data = random_data(seed, states=1, behaviors=1, actions=5)
        mu, current, bad = data.behaviors[0, 0], data.current[0], data.advantages[0, 0] < 0
        gain, loss = 0.2 * mu[~bad].sum(), np.minimum(current, 0.2 * mu)[bad].sum()
        if bad.all() or gain > current[bad].sum():  # the terms cannot all be closed at once
            continue
        met += 1
        shift = data.update_shift(clipped_update(data, "method 1", 0.2))
        assert shift == pytest.approx(max(gain, loss), abs=1e-6)
    assert met >= 3


def nearest_maximiser_of_method_2(data: StaleData, epsilon: float) -> np.ndarray:
    """In one state: every term to its ceiling; then the best takes what is over, or the worst give what is short."""
    current, advantages = data.current[0], data.advantages[0, 0]
    policy = current * np.where(advantages > 0, 1 + epsilon, 1 - epsilon)
    short = policy.sum() - 1
    for a in np.argsort(advantages):
        given = min(max(short, 0), policy[a])
        policy[a], short = policy[a] - given, short - given
    policy[advantages.argmax()] += max(-short, 0)
    return policy


@pytest.mark.parametrize("seed", range(min(cases() // 5, 40)))
def test_of_the_nearest_maximisers_it_is_the_one_with_the_largest_surrogate(seed: int):
    data = random_data(seed, states=1, behaviors=1, actions=5)
    good = float(data.current[0, data.advantages[0, 0] > 0].sum())
    if good == 0 or 0.2 * good > 1 - good:
        return
    expected = nearest_maximiser_of_method_2(data, 0.2)
    found = clipped_update(data, "method 2", 0.2)
    assert data.update_shift(found) == pytest.approx(data.update_shift(expected[None]), abs=1e-7)
    assert data.surrogate(found) == pytest.approx(data.surrogate(expected[None]), abs=1e-6)


@every_mechanism
def test_a_rare_good_action_takes_every_maximiser_beyond_the_constraint(mechanism: Mechanism):
    data = bandit([0.01, 0.49, 0.5], [50.485, -1.015, -0.015])
    found = clipped_update(data, mechanism, 0.2)
    np.testing.assert_allclose(found, [[0.208, 0.392, 0.4]], atol=1e-6)
    assert data.update_shift(found) > 0.19 > 0.1
    always = np.array([[1.0, 0.0, 0.0]])
    assert data.clipped(mechanism, 0.2, always) == pytest.approx(data.clipped(mechanism, 0.2, found), abs=1e-8)
    np.testing.assert_allclose(constrained_update(data, 0.1), [[0.11, 0.39, 0.5]], atol=1e-8)


@every_mechanism
@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_those_of_finite_differences(mechanism: Mechanism, seed: int):
    data = random_data(seed)
    rng = np.random.default_rng(seed)
    logits = np.log(data.current) + 0.3 * rng.normal(size=data.current.shape)
    found = data.clipped_gradient(mechanism, 0.2, exact.softmax(logits))
    for at in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[at] = 1e-6
        ends = [data.clipped(mechanism, 0.2, exact.softmax(logits + sign * step)) for sign in (1, -1)]
        assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("seed", range(min(cases(), 30)))
def test_the_minimum_never_exceeds_the_surrogate(seed: int):
    data, rng = random_data(seed), np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(4), 2)
    for mechanism in MECHANISMS:
        assert data.clipped(mechanism, 0.2, policy) <= data.surrogate(policy) + 1e-12


def test_at_ratio_one_the_three_bands_are_one_and_elsewhere_they_are_not():
    bands = [clip_band(mechanism, np.array([1.0, 20.0, 0.05]), 0.2) for mechanism in MECHANISMS]
    np.testing.assert_allclose([low[0] for low, _ in bands], 0.8)
    np.testing.assert_allclose([high[0] for _, high in bands], 1.2)
    np.testing.assert_allclose([band[0][1] for band in bands], [0.8, 19.8, 16.0])
    np.testing.assert_allclose([band[1][2] for band in bands], [1.2, 0.25, 0.06])


def test_clips_and_gradients_are_those_of_the_recipes():
    torch = pytest.importorskip("torch")
    from rlnotes.objectives import METHOD_1, METHOD_2, STALE_PPO, Batch, policy_loss

    rng = np.random.default_rng(0)
    ratio_k, ratio, advantage = np.exp(rng.normal(size=60)), np.exp(rng.normal(size=60)), rng.normal(size=60)
    for mechanism, recipe in zip(MECHANISMS, (STALE_PPO, METHOD_1, METHOD_2), strict=True):
        value, is_open = clipped_term(ratio, advantage, clip_band(mechanism, ratio_k, 0.2))
        for i in range(60):
            at = torch.tensor([[np.log(ratio[i])]], requires_grad=True)
            own = torch.tensor([advantage[i]])
            behavior, proximal = torch.zeros(1, 1).double(), torch.tensor([[np.log(ratio_k[i])]])
            batch = Batch(at, torch.ones(1, 1) > 0, own, behavior, proximal)
            loss = policy_loss(recipe, batch)
            (slope,) = torch.autograd.grad(loss, at)
            assert -loss.item() == pytest.approx(value[i], abs=1e-12)
            assert -slope.item() == pytest.approx(ratio[i] * advantage[i] * is_open[i], abs=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_surrogate_shift_and_staleness_are_those_of_the_bounds(sigma: float):
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(3), (3, 2))
    mdp = MDP(P, rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3)), 0.9)
    alpha = np.array([0.3, 0.7])
    mixture = Mixture(
        rng.dirichlet(np.ones(2), (2, 3)), alpha, mixtures.step_kernel(np.full(2, sigma), np.array([alpha, alpha]))
    )
    current, new = rng.dirichlet(np.ones(2), (2, 3))
    values = mixtures.values(mdp, mixture)
    data = StaleData(mixtures.occupancy(mdp, mixture), mixture.policies, current, values.a)
    assert data.surrogate(new) / (1 - 0.9) == pytest.approx(mixtures.surrogate(mdp, mixture, new))
    assert data.update_shift(new) == pytest.approx(mixture_bounds.update_shift(mdp, mixture, new, current))
    assert data.staleness() == pytest.approx(mixture_bounds.staleness(mdp, mixture, current))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clip_band("method 3", np.ones(1), 0.2), "mechanism is 'method 3'; choose one of ppo"),  # type: ignore[arg-type]
        (lambda: clip_band("ppo", np.ones(1), 2.0), "epsilon is 2.0"),
        (lambda: constrained_update(random_data(0), -0.1), "shift is -0.1"),
        (lambda: StaleData(np.ones((2, 1)) / 2, np.ones((1, 1, 2)) / 2, np.ones((1, 2)) / 2, np.zeros((1, 1, 2))), "w"),
    ],
)
def test_what_cannot_be_is_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_action_that_the_behaviour_never_takes_is_named_unless_nothing_is_sampled_there():
    with pytest.raises(SupportError, match="behavior 0 never takes action 2 in state 0"):
        bandit([0.5, 0.25, 0.25], [1.0, 0.0, -1.0], behavior=[0.5, 0.5, 0.0])
    behaviors = np.array([[[0.5, 0.5]], [[1.0, 0.0]]])
    unused = StaleData(np.array([[1.0, 0.0]]), behaviors, np.array([[0.5, 0.5]]), np.zeros((1, 2, 2)))
    assert unused.staleness() == 0
    assert np.isfinite(unused.ratios(np.array([[0.2, 0.8]]))).all()
