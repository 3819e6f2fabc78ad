import math
from dataclasses import replace

import numpy as np
import pytest

from rlnotes.bounds.result import Bound, Inequality

BOUND = Bound("an example", true=0.5, surrogate=1.0, penalties={"shift": 0.75, "noise": 0.25}, floor=-0.25)


def test_penalties_add_up_and_are_subtracted():
    assert BOUND.penalty == 1.0
    assert BOUND.lower == 0.0
    assert BOUND.tightness == 0.5
    assert BOUND.holds and not BOUND.vacuous


@pytest.mark.parametrize(("true", "holds"), [(0.0, True), (-1e-11, True), (-1e-9, False)])
def test_a_bound_holds_up_to_rounding(true: float, holds: bool):
    assert replace(BOUND, true=true).holds is holds


@pytest.mark.parametrize(("true", "holds"), [(1e6 - 1e-6, True), (1e6 - 1.0, False)])
def test_rounding_is_relative_for_large_returns(true: float, holds: bool):
    assert Bound("large", true, 1e6, {"shift": 0.0}, floor=-1e6).holds is holds


def test_tightness_is_at_most_one_exactly_where_the_bound_holds():
    rng = np.random.default_rng(0)
    for true, surrogate, penalty in rng.uniform([-1, -1, 0.1], [1, 1, 1], (100, 3)):
        bound = Bound("random", true, surrogate, {"shift": penalty}, floor=-2)
        assert bound.holds is (bound.tightness <= 1)


@pytest.mark.parametrize(("floor", "vacuous"), [(-0.01, False), (0.0, True), (0.01, True)])
def test_a_promise_that_every_policy_keeps_is_vacuous(floor: float, vacuous: bool):
    assert replace(BOUND, floor=floor).vacuous is vacuous


def test_an_infinite_penalty_promises_nothing():
    bound = replace(BOUND, penalties={"KL": math.inf})
    assert bound.holds and bound.vacuous and bound.tightness == 0


def test_without_a_penalty_tightness_has_no_meaning():
    assert math.isnan(replace(BOUND, penalties={"shift": 0.0}).tightness)


def test_a_nan_never_holds():
    assert not replace(BOUND, true=math.nan).holds
    assert not Inequality(math.nan, 1.0).holds


def test_an_inequality_of_arrays_must_hold_everywhere():
    assert Inequality(np.array([0.1, 0.2]), np.array([0.1, 0.4])).holds
    assert not Inequality(np.array([0.1, 0.5]), np.array([0.1, 0.4])).holds
    assert Inequality(np.array([0.0, 0.2]), np.array([0.0, 0.4])).tightness == 0.5
    assert math.isnan(Inequality(0.0, 0.0).tightness)
