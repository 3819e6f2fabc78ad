import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rlnotes.exact import mdp as exact
from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import (
    Mixture,
    augmented,
    component_average,
    expected_return,
    lift,
    occupancy,
    old_mass,
    step_kernel,
    surrogate,
    values,
)
from rlnotes.exact.random_mdps import any_mdp, ending_mdp, random_policy, step_mixture, trajectory_mixture
from tests.cases import cases
from tests.exact.mdp_cases import GOLDEN, numbers, process


def golden(name: str) -> tuple[MDP, Mixture, np.ndarray, np.ndarray, dict[str, Any]]:
    """Process, mixture, pi_k, pi_{k+1} and outputs of an item; a missing kernel is the identity."""
    item = GOLDEN[name]
    inputs, outputs = item["inputs"], item["outputs"]
    mdp = process(inputs["mdp"])
    alpha = numbers(inputs["alpha"])
    kernel = numbers(inputs["q"]) if "q" in inputs else np.eye(len(alpha))
    expected = {
        key: float(Fraction(value["exact"])) if isinstance(value, dict) else value for key, value in outputs.items()
    }
    mixture = Mixture(numbers(inputs["old_policies"]), alpha, kernel)
    return mdp, mixture, numbers(inputs["pi_k"]), numbers(inputs["pi_k1"]), expected


def random_cases(seed: int, trajectory: bool | None = None):
    """(process, mixture, generator), at both levels unless ``trajectory`` says which."""
    rng = np.random.default_rng(seed)
    for number in range(cases()):
        mdp = any_mdp(rng)
        make = trajectory_mixture if (number % 2 == 0 if trajectory is None else trajectory) else step_mixture
        yield mdp, make(rng, mdp.states, mdp.actions, int(rng.integers(1, 4))), rng


def by_trajectories(mdp: MDP, mixture: Mixture, steps: int) -> tuple[np.ndarray, float]:
    """Discounted visits (S, M) and return of ``steps`` steps by listing every path of states, indices and actions."""
    S, A, M = mdp.states, mdp.actions, mixture.size
    counts, total = np.zeros((S, M)), 0.0
    states, indices = list(itertools.product(range(S), repeat=steps)), list(itertools.product(range(M), repeat=steps))
    for path, index, actions in itertools.product(states, indices, itertools.product(range(A), repeat=steps)):
        chance = mdp.start[path[0]] * mixture.alpha[index[0]]
        for t in range(steps):
            chance *= mixture.policies[index[t], path[t], actions[t]]
            if t + 1 < steps:
                chance *= mdp.P[path[t], actions[t], path[t + 1]] * mixture.kernel[index[t], index[t + 1]]
        for t in range(steps):
            counts[path[t], index[t]] += chance * mdp.gamma**t
            total += chance * mdp.gamma**t * mdp.r[path[t], actions[t]]
    return counts, total


# --- Golden values


@pytest.mark.parametrize("name", ["G02", "G03"])
def test_mixtures_equal_the_exact_rationals(name: str):
    mdp, mixture, current, new, expected = golden(name)
    assert expected_return(mdp, mixture) == pytest.approx(expected["J_mix"], rel=1e-10)
    np.testing.assert_allclose(occupancy(mdp, mixture).ravel(), expected["d_beta"], rtol=1e-10, atol=0)
    assert surrogate(mdp, mixture, new) == pytest.approx(expected["L_beta"], rel=1e-10)
    gain = (new[:, None] * values(mdp, mixture).a).sum(-1)
    assert np.abs(gain).max() == pytest.approx(expected["C_beta"], rel=1e-10)
    alone = np.stack([exact.values(mdp, pi).a for pi in mixture.policies], axis=1)
    wrong = (occupancy(mdp, mixture)[..., None] * new[:, None] * alone).sum() / (1 - mdp.gamma)
    assert wrong == pytest.approx(expected["L_wrong_with_A_pii"], rel=1e-10)
    assert exact.expected_return(mdp, new) == pytest.approx(expected["J_k1"], rel=1e-10)
    assert exact.expected_return(mdp, current) == pytest.approx(expected["J_k"], rel=1e-10)
    # the surrogate with the advantages of pi_k, over the states that the mixture visits
    visited = occupancy(mdp, mixture).sum(-1) / (1 - mdp.gamma)
    with_current = visited @ (new * exact.values(mdp, current).a).sum(-1)
    assert with_current == pytest.approx(expected["L_with_A_pik"], rel=1e-10)


def test_the_step_level_return_is_not_the_average_of_its_policies():
    mdp, mixture, *_ = golden("G03")
    average = component_average(mdp, mixture)
    assert average == pytest.approx(golden("G02")[-1]["J_mix"], rel=1e-10)
    assert abs(expected_return(mdp, mixture) - average) > 0.1


def test_old_mass_equals_the_golden_value():
    item = GOLDEN["G04"]
    assert old_mass(item["inputs"]["sigma"], item["inputs"]["gamma"]) == pytest.approx(
        item["outputs"]["compression"], rel=1e-10
    )


# --- The augmented process against definitions written out


@pytest.mark.parametrize("make", [trajectory_mixture, step_mixture])
def test_return_and_visits_equal_the_sum_over_all_paths(make: Any):
    rng = np.random.default_rng(0)
    live = ending_mdp(rng, 2, 2)
    P = np.zeros((4, 2, 4))  # states 0 and 1, then 2, then the end: over after three steps at most
    P[:2, :, 2] = live.P[:, :, 0]
    P[:2, :, 3] = live.P[:, :, 1]
    P[0, 0] = [0, 0.6, 0.3, 0.1]
    P[2:, :, 3] = 1
    P[1, 0] = [0, 0, 0.7, 0.3]
    r = np.array([[1.0, -0.5], [0.3, 2.0], [-1.0, 0.7], [0.0, 0.0]])
    mdp = MDP(P, r, np.array([0.7, 0.2, 0.1, 0.0]), 0.8)
    mixture = make(rng, 4, 2, 2)
    counts, total = by_trajectories(mdp, mixture, 3)
    assert expected_return(mdp, mixture) == pytest.approx(total, abs=1e-12)
    np.testing.assert_allclose(occupancy(mdp, mixture)[:3], 0.2 * counts[:3], rtol=0, atol=1e-12)


def test_values_look_one_step_ahead_with_the_kernel():
    for mdp, mixture, _ in random_cases(1):
        v, q, a = values(mdp, mixture)
        assert v.shape == (mdp.states, mixture.size) and q.shape == a.shape == (*v.shape, mdp.actions)
        for s, i in np.ndindex(v.shape):
            assert v[s, i] == pytest.approx(mixture.policies[i, s] @ q[s, i], abs=1e-9)
            for action in range(mdp.actions):
                ahead = mdp.P[s, action] @ v @ mixture.kernel[i]
                assert q[s, i, action] == pytest.approx(mdp.r[s, action] + mdp.gamma * ahead, abs=1e-9)
                assert a[s, i, action] == pytest.approx(q[s, i, action] - v[s, i], abs=1e-9)


def test_a_trajectory_level_mixture_falls_apart_into_its_policies():
    for mdp, mixture, _ in random_cases(2, trajectory=True):
        d, found = occupancy(mdp, mixture), values(mdp, mixture)
        for i, pi in enumerate(mixture.policies):
            np.testing.assert_allclose(d[:, i], mixture.alpha[i] * exact.occupancy(mdp, pi), rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.a[:, i], exact.values(mdp, pi).a, rtol=0, atol=1e-9)
        assert expected_return(mdp, mixture) == pytest.approx(component_average(mdp, mixture), abs=1e-9)


def test_an_index_drawn_afresh_is_the_averaged_policy():
    for mdp, some, _ in random_cases(3):
        mixture = Mixture(some.policies, some.alpha, np.tile(some.alpha, (some.size, 1)))
        averaged = np.einsum("i,isa->sa", some.alpha, some.policies)
        assert expected_return(mdp, mixture) == pytest.approx(exact.expected_return(mdp, averaged), abs=1e-9)
        d = np.outer(exact.occupancy(mdp, averaged), some.alpha)
        np.testing.assert_allclose(occupancy(mdp, mixture), d, rtol=0, atol=1e-10)


def test_a_policy_that_ignores_the_index_has_its_own_return_there():
    for mdp, mixture, rng in random_cases(4):
        pi = random_policy(rng, mdp.states, mdp.actions)
        process, behavior = augmented(mdp, mixture)
        alone = exact.expected_return(mdp, pi)
        assert exact.expected_return(process, lift(pi, mixture)) == pytest.approx(alone, abs=1e-9)
        better = alone - expected_return(mdp, mixture)
        assert exact.performance_difference(process, lift(pi, mixture), behavior) == pytest.approx(better, abs=1e-9)
        # the other way round: what the mixture loses against pi, from the advantages of pi alone
        against = mixture.policies.swapaxes(0, 1) * exact.values(mdp, pi).a[:, None]
        bias = (occupancy(mdp, mixture) * against.sum(-1)).sum() / (1 - mdp.gamma)
        assert bias == pytest.approx(-better, abs=1e-9)


def test_a_mixture_ends_where_its_process_ends():
    rng = np.random.default_rng(5)
    for _ in range(min(cases(), 50)):
        mdp, mixture = ending_mdp(rng, 4, 3), trajectory_mixture(rng, 4, 3, 3)
        assert expected_return(mdp, mixture) == pytest.approx(component_average(mdp, mixture), abs=1e-9)
        moving = step_mixture(rng, 4, 3, 2)  # the index still moves in the end, which pays nothing all the same
        np.testing.assert_array_equal(values(mdp, moving).v[-1], 0)


# --- Kernels and compression


def test_the_switching_kernel_is_its_definition():
    sigma, kappa = np.array([0.25, 0.0, 1.0]), np.array([[0.0, 0.5, 0.5], [1, 0, 0], [0.2, 0.3, 0.5]])
    kernel = step_kernel(sigma, kappa)
    for i, j in np.ndindex(3, 3):
        assert kernel[i, j] == pytest.approx((1 - sigma[i]) * (i == j) + sigma[i] * kappa[i, j], abs=1e-15)
    np.testing.assert_array_equal(step_kernel(np.zeros(3), kappa), np.eye(3))


def test_old_mass_equals_the_share_of_the_augmented_occupancy():
    rng = np.random.default_rng(6)
    for _ in range(cases()):
        mdp, sigma, alpha_old = any_mdp(rng), float(rng.random()), float(rng.random())
        for share in (1.0, alpha_old):
            mixture = Mixture(
                np.array([random_policy(rng, mdp.states, mdp.actions) for _ in range(2)]),
                np.array([share, 1 - share]),
                step_kernel(np.array([sigma, 0.0]), np.array([[0.0, 1.0], [0.0, 1.0]])),
            )
            measured = occupancy(mdp, mixture)[:, 0].sum()
            assert old_mass(sigma, mdp.gamma, share) == pytest.approx(measured, abs=1e-12)


# --- What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": np.array([0.5, 0.6])}, r"alpha sums to 1.1; divide the row by its sum"),
        ({"alpha": np.ones(3) / 3}, r"policies has shape \(2, 2, 2\); shape \(3, any, any\) is needed"),
        ({"policies": np.full((2, 2, 2), 0.4)}, r"policies\[0, 0\] sums to 0.8; divide"),
        ({"kernel": np.eye(3)}, r"kernel has shape \(3, 3\); shape \(2, 2\) is needed"),
        ({"kernel": np.array([[0.5, 0.5], [0.0, 0.9]])}, r"kernel\[1\] sums to 0.9; divide"),
    ],
)
def test_a_mixture_that_is_none_is_refused(change: dict[str, np.ndarray], message: str):
    good = {"policies": np.full((2, 2, 2), 0.5), "alpha": np.ones(2) / 2, "kernel": np.eye(2)}
    with pytest.raises(ValueError, match=message):
        Mixture(**(good | change))


def test_policies_of_another_process_are_refused():
    mdp, *_ = golden("G02")
    mixture = trajectory_mixture(np.random.default_rng(0), 3, 2, 2)
    for function in (occupancy, values, expected_return):
        with pytest.raises(ValueError, match=r"policies have shape \(2, 3, 2\); this process needs \(2, 2, 2\)"):
            function(mdp, mixture)


def test_impossible_chances_are_refused():
    kappa = np.array([[0.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"sigma\[1\] is 1.5; a probability lies in \[0, 1\]"):
        step_kernel(np.array([0.5, 1.5]), kappa)
    with pytest.raises(ValueError, match=r"kappa\[0\] sums to 2; divide"):
        step_kernel(np.array([0.5, 0.5]), kappa + np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"kappa has shape \(2, 2\); 3 chances sigma need shape \(3, 3\)"):
        step_kernel(np.array([0.5, 0.5, 0.5]), kappa)
    with pytest.raises(ValueError, match=r"sigma is -0.1; a probability lies in \[0, 1\]"):
        old_mass(-0.1, 0.9)
    with pytest.raises(ValueError, match=r"alpha_old is 2; a probability lies in \[0, 1\]"):
        old_mass(0.1, 0.9, 2)
    with pytest.raises(ValueError, match=r"gamma is 1.5; the discount must lie in \[0, 1\]"):
        old_mass(0.1, 1.5)
    with pytest.raises(ValueError, match="gamma is 1, where no share of infinitely many steps is left"):
        old_mass(0.1, 1.0)


def test_a_new_policy_of_the_wrong_shape_is_refused():
    mdp, mixture, *_ = golden("G03")
    with pytest.raises(ValueError, match=r"new has shape \(3, 2\); shape \(2, 2\) is needed"):
        surrogate(mdp, mixture, np.full((3, 2), 0.5))


def test_a_mixture_does_not_change_with_the_arrays_it_came_from():
    alpha = np.array([0.5, 0.5])
    mixture = Mixture(np.full((2, 2, 2), 0.5), alpha, np.eye(2))
    alpha[0] = 0
    assert mixture.alpha[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        mixture.policies[0, 0, 0] = 1
