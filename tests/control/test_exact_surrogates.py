"""PPO's objectives as exact expectations: against sums written out, sampling, and the surrogate of the court."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnotes.control.exact_surrogates import gated_surrogate
from rlnotes.exact.mdp import expected_return, occupancy, surrogate, values
from rlnotes.exact.mdp_families import Case, fork
from rlnotes.exact.random_mdps import near_pair, random_mdp, random_policy
from rlnotes.objectives.gates import Clip, no_gate

CLIP = Clip(0.2, 0.2)
seeds = given(st.integers(0, 10_000))
calm = settings(derandomize=True, deadline=None, max_examples=50)


def inside_the_clip() -> Case:
    """All ratios lie in [0.8, 1.2], the surrogate rises, and the return falls."""
    mdp = fork(0.9, [[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]])
    new = np.array([[0.6, 0.4], [0.42, 0.58], [0.6, 0.4]])
    return Case(mdp, new, np.full((3, 2), 0.5))


@calm
@seeds
def test_without_a_gate_it_is_the_surrogate_and_the_sources_mean_is_a_share_of_it(seed: int):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 4, 3, 0.8)
    old, new = random_policy(rng, 4, 3), random_policy(rng, 4, 3)
    found = gated_surrogate(mdp, new, old, no_gate)
    assert found == pytest.approx(surrogate(mdp, new, old), abs=1e-10)
    mean = sum(
        occupancy(mdp, old)[s] * old[s, a] * new[s, a] / old[s, a] * values(mdp, old).a[s, a]
        for s in range(4)
        for a in range(3)
    )  # 002 eq. (75)
    assert mean == pytest.approx(0.2 * found, abs=1e-10)


@calm
@seeds
def test_the_clip_never_promises_more_than_the_surrogate_and_agrees_inside(seed: int):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 4, 3, 0.8)
    for old, new in (near_pair(rng, 4, 3), (random_policy(rng, 4, 3), random_policy(rng, 4, 3))):
        plain, clipped = (gated_surrogate(mdp, new, old, gate) for gate in (no_gate, CLIP))
        assert clipped <= plain + 1e-12
        if (np.abs(new / old - 1) <= 0.2).all():
            assert clipped == pytest.approx(plain, abs=1e-12)


def test_the_clipped_surrogate_is_no_lower_bound_on_the_return():
    """By hand: 9 (0.5 (-0.16) + 0.5 0.2) = 0.18 promised, and 9 (0.6 (-0.16) + 0.4 0.2) = -0.144 true."""
    mdp, new, old = inside_the_clip()
    assert (np.abs(new / old - 1) <= 0.2 + 1e-12).all()
    assert gated_surrogate(mdp, new, old, CLIP) == pytest.approx(0.18, abs=1e-12)
    assert expected_return(mdp, new) - expected_return(mdp, old) == pytest.approx(-0.144, abs=1e-12)


def test_it_is_what_samples_estimate():
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 3, 2, 0.7)
    old, new = random_policy(rng, 3, 2), random_policy(rng, 3, 2)
    states = rng.choice(3, 200_000, p=occupancy(mdp, old))
    actions = (rng.random(len(states)) > old[states, 0]).astype(int)
    a = values(mdp, old).a[states, actions]
    r = new[states, actions] / old[states, actions]
    terms = np.minimum(r * a, np.clip(r, 0.8, 1.2) * a)
    error = terms.std() / len(terms) ** 0.5
    assert terms.mean() == pytest.approx(0.3 * gated_surrogate(mdp, new, old, CLIP), abs=4 * error)


def test_what_the_old_policy_never_does_is_in_no_sample():
    mdp, _, _ = inside_the_clip()
    old, new = np.array([[1.0, 0.0]] * 3), np.array([[0.9, 0.1]] * 3)
    assert np.isfinite(gated_surrogate(mdp, new, old, no_gate))
    with pytest.raises(ValueError, match="new"):
        gated_surrogate(mdp, np.ones((3, 2)), old, no_gate)
