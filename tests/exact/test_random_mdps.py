import numpy as np
import pytest

from rlnotes.exact.mdp import MDP, ends, values
from rlnotes.exact.mixtures import Mixture
from rlnotes.exact.random_mdps import (
    PAIRS,
    any_mdp,
    ending_mdp,
    near_pair,
    random_mdp,
    sparse_mdp,
    step_mixture,
    trajectory_mixture,
)
from tests.cases import cases


def tv(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs(one - other).sum(-1) / 2


def test_a_generator_gives_the_same_cases_again():
    def draw(seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        mdp, mixture = any_mdp(rng), step_mixture(rng, 3, 2, 2)
        return [mdp.P, mdp.r, mdp.start, mixture.policies, mixture.kernel, *near_pair(rng, 3, 2)]

    for one, other in zip(draw(1), draw(1), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(draw(1)[3], draw(2)[3])


def test_all_cases_are_valid_and_of_every_size():
    rng = np.random.default_rng(0)
    drawn = [any_mdp(rng) for _ in range(max(cases(), 200))]
    assert all(isinstance(mdp, MDP) and 0.5 <= mdp.gamma <= 0.99 for mdp in drawn)
    assert {mdp.states for mdp in drawn} == {2, 3, 4, 5, 6}
    assert {mdp.actions for mdp in drawn} == {2, 3, 4, 5}
    sharpness = [mdp.P.max(-1).mean() for mdp in drawn]
    assert min(sharpness) < 0.5 and max(sharpness) > 0.999  # from spread-out to deterministic
    assert any((mdp.P == 0).any() for mdp in drawn) and any((mdp.P > 0).all() for mdp in drawn)


def test_a_small_concentration_makes_steps_near_deterministic():
    rng = np.random.default_rng(1)
    sharp, flat = (random_mdp(rng, 5, 4, 0.9, concentration).P.max(-1).mean() for concentration in (0.05, 5.0))
    assert sharp > 0.85 and flat < 0.5


@pytest.mark.parametrize("branches", [1, 2, 5])
def test_sparse_steps_have_as_many_outcomes_as_asked_for(branches: int):
    mdp = sparse_mdp(np.random.default_rng(2), 5, 3, 0.9, branches)
    np.testing.assert_array_equal((mdp.P > 0).sum(-1), branches)
    np.testing.assert_array_equal(mdp.start, [1, 0, 0, 0, 0])


def test_an_ending_process_ends():
    rng = np.random.default_rng(3)
    mdp = ending_mdp(rng, 4, 3)
    np.testing.assert_array_equal(ends(mdp), [False, False, False, True])
    assert np.abs(values(mdp, np.full((4, 3), 1 / 3)).v).max() <= 10  # ten steps on average, at most 1 each


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_are_policies(kind: str):
    rng = np.random.default_rng(4)
    for _ in range(cases()):
        for pi in PAIRS[kind](rng, 4, 3):
            assert pi.shape == (4, 3) and (pi >= 0).all()
            np.testing.assert_allclose(pi.sum(-1), 1, atol=1e-12)


def test_pairs_are_as_far_apart_as_their_names_say():
    rng = np.random.default_rng(5)
    drawn = {kind: [make(rng, 4, 3) for _ in range(max(cases(), 100))] for kind, make in PAIRS.items()}
    assert max(tv(*pair).max() for pair in drawn["near"]) <= 0.1
    assert np.mean([tv(*pair).mean() for pair in drawn["far"]]) > 0.2
    assert np.mean([old.max(-1).mean() for old, _ in drawn["near-deterministic"]]) > 0.9
    np.testing.assert_allclose([tv(*pair) for pair in drawn["disjoint"]], 1, rtol=0, atol=1e-12)
    assert not any((old * new).any() for old, new in drawn["disjoint"])


def test_mixtures_keep_or_change_their_policy():
    rng = np.random.default_rng(6)
    still, moving = trajectory_mixture(rng, 4, 3, 3), step_mixture(rng, 4, 3, 3)
    assert isinstance(still, Mixture) and still.policies.shape == (3, 4, 3)
    np.testing.assert_array_equal(still.kernel, np.eye(3))
    assert (moving.kernel[~np.eye(3, dtype=bool)] > 0).all()
    np.testing.assert_allclose(moving.kernel.sum(-1), 1, atol=1e-12)


def test_what_cannot_be_drawn_is_refused():
    rng = np.random.default_rng(7)
    for branches in (0, 4):
        with pytest.raises(ValueError, match=f"branches is {branches}; a step needs between 1 and 3 outcomes"):
            sparse_mdp(rng, 3, 2, 0.9, branches)
    with pytest.raises(ValueError, match="actions is 1; two policies that share none need at least 2"):
        PAIRS["disjoint"](rng, 3, 1)
