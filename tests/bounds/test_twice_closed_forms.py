"""The closed forms on the process of two right answers in a row are those of the exact process."""

from itertools import product

import numpy as np
import pytest

from rlnotes.bounds import mixtures as bounds
from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.twice_in_a_row import CURRENT, OLD, answers, twice_in_a_row, two_versions

CASES = [
    (gamma, *rest)
    for gamma, *rest in product((0.0, 0.5, 0.9), (0.2, 0.6), (0.5,), (0.45, 0.5, 0.7), (0.0, 0.5, 1.0), (0.0, 0.3, 1.0))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_number_is_that_of_the_exact_process(case: tuple[float, ...]):
    gamma, old, current, new, share, sigma = case
    mdp, mixture = twice_in_a_row(gamma), two_versions(old, current, share, sigma)
    policies = answers(new), answers(current)
    found = promises(*case)
    split, geppo = (bound(mdp, mixture, *policies) for bound in (bounds.corollary_5_3, bounds.current_advantages))
    expected = dict(
        true=split.true,
        surrogate=split.surrogate,
        update_penalty=split.penalties["C1 U"],
        staleness_penalty=split.penalties["C2 S"],
        geppo_surrogate=geppo.surrogate,
        geppo_penalty=geppo.penalty,
        staleness=bounds.staleness(mdp, mixture, policies[1]),
        old_mass=mixtures.occupancy(mdp, mixture)[:, OLD].sum(),
    )
    assert {key: float(value) for key, value in found._asdict().items()} == pytest.approx(expected, abs=1e-12)
    assert (float(found.split), float(found.geppo)) == pytest.approx((split.lower, geppo.lower), abs=1e-12)


def test_it_takes_arrays():
    new = np.linspace(0, 1, 5)
    whole = promises(0.9, 0.4, 0.5, new, 0.5, 0.1)
    assert [float(promises(0.9, 0.4, 0.5, p, 0.5, 0.1).split) for p in new] == pytest.approx(whole.split)


@pytest.mark.parametrize("right", [0.0, 0.3, 1.0])
def test_the_return_is_by_hand(right: float):
    """The second of two answers in a row: gamma p^2, then gamma^2 p^2, and so on."""
    by_hand = sum(0.9**t * right**2 for t in range(1, 1000))
    assert exact.expected_return(twice_in_a_row(0.9), answers(right)) == pytest.approx(by_hand)


def test_the_current_version_is_never_left():
    mixture = two_versions(0.2, 0.6, 0.3, 0.25)
    assert mixture.kernel[CURRENT, OLD] == 0
    assert mixture.kernel[OLD, CURRENT] == 0.25


@pytest.mark.parametrize("wrong", [dict(share=1.5), dict(sigma=-0.1), dict(old=2.0)])
def test_a_chance_outside_the_unit_interval_is_refused(wrong: dict[str, float]):
    with pytest.raises(ValueError, match=r"lies in \[0, 1\]"):
        two_versions(**(dict(old=0.4, current=0.5, share=0.5, sigma=0.1) | wrong))
