"""Stored tables and what is said of them."""

import numpy as np
import pytest

from rlnotes.objectives import RECIPES
from rlnotes.studies import load_table, median_interval, paired_interval
from rlnotes.studies.arena import ARENA_TASKS, TUNING_SEEDS, arena
from rlnotes.studies.comparisons import COMPARISONS
from rlnotes.studies.scores import tuned_methods
from rlnotes.studies.study import compared, describe


def test_a_missing_table_is_explained():
    with pytest.raises(FileNotFoundError, match="no stored table 'nothing'"):
        load_table("nothing")


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_has_its_table(name: str):
    """Whole, of the settings that the package has now, with at least five paired seeds."""
    evidence, comparison = load_table(name), COMPARISONS[name]
    assert compared(evidence.settings) == describe(comparison)["comparison"]
    assert list(evidence.rows) == list(comparison.methods)
    assert evidence.command.startswith(f"rlnotes compare {name} --seeds ")
    seeds = {tuple(runs) for runs in evidence.rows.values()}
    assert len(seeds) == 1
    assert len(seeds.pop()) >= 5
    for method, runs in evidence.rows.items():
        for columns in runs.values():
            assert columns["tokens"][-1] >= comparison.tokens_of(method) > columns["tokens"][-2]
            assert not np.isnan(columns["accuracy"][[0, -1]]).any()


def test_the_arena_has_its_table():
    """Whole, of the recipes and settings that the package has now: all tuned alike, reported at their own rate only."""
    evidence, study = load_table("17_arena"), arena()
    assert compared(evidence.settings) == describe(study)["comparison"]
    assert {method: tuple(runs) for method, runs in evidence.tuning.items()} == dict.fromkeys(
        study.methods, TUNING_SEEDS
    )
    assert sorted(evidence.rows) == sorted(tuned_methods(evidence))
    assert len(evidence.rows) == len(RECIPES) * len(ARENA_TASKS)
    assert evidence.command == "rlnotes arena --seeds 10 --out 17_arena"
    for method, runs in evidence.rows.items():
        assert list(runs) == list(range(10))
        for columns in runs.values():
            assert columns["tokens"][-1] >= study.tokens_of(method) > columns["tokens"][-2]


def test_the_median_interval_covers_its_median():
    found = median_interval([0.1, 0.5, 0.2, 0.4, 0.3])
    assert found.value == pytest.approx(0.3)
    assert 0.1 <= found.low < found.value < found.high <= 0.5
    assert median_interval([2.0, 2.0]).low == 2.0


def test_a_paired_interval_sees_what_an_unpaired_one_does_not():
    start = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    gain = np.array([1.0, 1.2, 0.9, 1.1, 1.0])
    paired = paired_interval(start + gain, start)
    assert paired.low > 0.8
    assert median_interval(start + gain).low < median_interval(start).high
