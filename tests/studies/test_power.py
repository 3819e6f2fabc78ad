"""Closed forms of what few runs can show, against draws and SciPy."""

import numpy as np
import pytest
from scipy import stats

from rlnotes.studies.power import any_false, detection, standard_error, wrong_order

CASES = pytest.mark.parametrize(("seeds", "gap", "spread"), [(2, 0.05, 0.05), (5, 0.05, 0.08), (10, 0.03, 0.04)])


@CASES
def test_orders_and_detections_are_those_of_draws(seeds: int, gap: float, spread: float):
    rng = np.random.default_rng(0)
    better, other = rng.normal([[gap], [0.0]], spread, (200_000, 2, seeds)).mean(-1).T
    assert wrong_order(seeds, gap, spread) == pytest.approx(np.mean(better < other), abs=0.005)
    error = spread * np.sqrt(2 / seeds)
    for level in (0.05, 0.0015):
        low, _ = stats.norm.interval(1 - level, loc=better - other, scale=error)
        assert detection(seeds, gap, spread, level) == pytest.approx(np.mean(low > 0), abs=0.005)


def test_recipes_that_are_the_same_are_called_better_with_half_the_level():
    assert detection(7, 0.0, 0.1) == pytest.approx(0.025)
    assert wrong_order(7, 0.0, 0.1) == 0.5
    assert standard_error(2, 0.3) == pytest.approx(0.3)


def test_many_comparisons_find_something():
    assert any_false(1) == pytest.approx(0.05)
    assert any_false(33) == pytest.approx(stats.binom.sf(0, 33, 0.05))
    assert any_false(33, 0.05 / 33) < 0.05
