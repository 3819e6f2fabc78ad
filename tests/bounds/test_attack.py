"""The attacks themselves: what they find, and above all that they find a constant that is a little too small."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rlnotes.bounds import attack
from rlnotes.bounds.attack import (
    Claim,
    Point,
    attack_from_families,
    attack_from_random,
    look_at_families,
    perturbed,
    random_search,
    tightness,
)
from rlnotes.bounds.audit import CLAIMS
from rlnotes.bounds.result import Bound, Inequality

BY_NAME = {claim.name: claim for claim in CLAIMS}
PRINTED = BY_NAME["as_printed.max_tv"]


def generator() -> np.random.Generator:
    return np.random.default_rng(3)


def with_factor(claim: Claim, factor: float) -> Claim:
    """The claim with another constant."""

    def judge(*arguments) -> Bound | Inequality:
        judged = claim.judge(*arguments)
        if isinstance(judged, Inequality):
            return Inequality(judged.left, factor * np.asarray(judged.right))
        return replace(judged, penalties={name: factor * penalty for name, penalty in judged.penalties.items()})

    return replace(claim, judge=judge)


# --- The lesson of 004 Theorem 2.1 as printed, whose constant is half of what is true


def test_two_thousand_random_processes_do_not_break_004_theorem_2_1_as_printed(record_property):
    found = random_search(PRINTED, generator(), 2000)
    record_property("largest tightness of 2000 random processes", float(found.worst))
    assert found.trials == 2000 and not found.broken
    assert 0.1 < found.worst < 0.95


@pytest.mark.parametrize("family", range(len(PRINTED.families)))
def test_an_attack_from_beside_each_of_its_families_does(family: int):
    claim = replace(PRINTED, families=[PRINTED.families[family]])
    found = attack_from_families(claim, generator(), restarts=2, evaluations=150)
    assert found.broken and found.worst > 1.01
    assert found.point is not None
    process, new, old = found.point.arguments()
    assert (new > 0).all() and (old > 0).all() and (process.P > 0).all()  # in no corner: a neighbourhood breaks it


def test_its_right_constant_stands_where_the_printed_one_fell():
    """4 for 2 is the penalty doubled."""
    assert not attack_from_families(with_factor(PRINTED, 2), generator(), restarts=1, evaluations=100).broken


# --- A wrong constant is caught


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS if claim.attained])
def test_two_percent_off_an_attained_penalty_is_caught(name: str):
    claim = BY_NAME[name]
    assert 0.98 < look_at_families(claim).worst <= 1 + attack.TOLERANCE
    wrong = with_factor(claim, 0.98)
    assert look_at_families(wrong).broken


@pytest.mark.parametrize(
    "name", ["mdp.coupled_tv", "mdp.average_tv", "cpi.kakade_langford", "derived.sequence_kl", "derived.chi2_chain"]
)
def test_it_is_caught_by_the_climb_alone(name: str):
    """Without a look at the families as they are."""
    assert attack_from_families(with_factor(BY_NAME[name], 0.98), generator(), restarts=2, evaluations=200).broken


def test_half_a_penalty_is_caught_from_random_starts():
    """Where a bound is not hard to attain, no family is needed."""
    for name in ("mdp.coupled_occupancy_shift", "tokens.quadratic", "derived.mean_tv"):
        assert attack_from_random(with_factor(BY_NAME[name], 0.5), generator(), restarts=2, evaluations=100).broken


# --- Points


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_coordinates_lead_back_to_the_point(claim: Claim):
    """For distributions but for zeros, for numbers but for the factor 0.99."""
    for point in (claim.draw(generator()), claim.start(generator()), *claim.families):
        again = point.at(point.coordinates())
        for old, new in zip(point.rows, again.rows, strict=True):
            np.testing.assert_allclose(new, old, atol=5e-8)
            np.testing.assert_allclose(new.sum(-1), 1)
        for old, new in zip(point.numbers, again.numbers, strict=True):
            np.testing.assert_allclose(new, 0.99 * np.asarray(old), atol=1e-12)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_perturbing_changes_every_array_a_little(claim: Claim):
    for family in claim.families:
        near = perturbed(family, generator())
        for old, new in zip([*family.rows, *family.numbers], [*near.rows, *near.numbers], strict=True):
            assert np.abs(new - old).max() < 0.1
            assert old.shape[-1] == 1 or not np.array_equal(new, old)


def test_a_finding_knows_its_worst_point():
    claim = BY_NAME["mdp.average_tv"]
    found = attack_from_random(claim, generator(), restarts=1, evaluations=50)
    assert found.point is not None
    assert tightness(claim.judge(*found.point.arguments())) == found.worst
    assert found.trials >= attack.LOOKS + 50


# --- The optimiser on a claim whose maximum is known


def test_the_optimiser_climbs_to_a_known_maximum():
    """p (1 - p) <= 1/4 is attained at p = 1/2, and 4 x^2 <= 1 + 1/2 breaks beyond sqrt(3/8)."""

    def point(rng: np.random.Generator) -> Point:
        return Point([rng.dirichlet([1.0, 1.0])], [rng.uniform(-0.1, 0.1, 1)], lambda rows, numbers: (*rows, *numbers))

    def draw_claim(judge) -> Claim:
        return Claim("test", "none", judge, point, point, [])

    coin = draw_claim(lambda row, number: Inequality(row[0] * row[1], 0.25))
    assert attack_from_random(coin, generator(), 1, 100).worst == pytest.approx(1, abs=1e-9)
    square = draw_claim(lambda row, number: Inequality(4 * number[0] ** 2, 1.5))
    found = attack_from_random(square, generator(), 1, 100)
    assert found.broken and found.worst == pytest.approx(4 / 1.5, rel=0.05)


# --- Tightness


def bound(true: float, surrogate: float, penalty: float) -> Bound:
    return Bound("test", true, surrogate, {"only": penalty}, -math.inf)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (bound(-1.0, 0.0, 2.0), 0.5),
        (bound(-1.0, 0.0, 0.5), 2.0),
        (bound(1.0, 0.0, 0.5), -2.0),
        (bound(0.0, 0.0, math.inf), 0.0),
        (bound(-1.0, 0.0, 0.0), math.inf),  # nothing is allowed, and there is a gap
        (bound(-1e-8, 0.0, 1e-9), -math.inf),  # rounding could do that
        (bound(1.0, 1.0, 0.0), -math.inf),
        (Inequality(1.0, 2.0), 0.5),
        (Inequality(np.array([0.0, 1.0, 1e-9]), np.array([0.0, 4.0, 1e-10])), 0.25),
        (Inequality(np.array([1.0, 1.0]), np.array([0.0, 4.0])), math.inf),
    ],
)
def test_what_counts(judged: Bound | Inequality, expected: float):
    assert tightness(judged) == expected
