"""The one rule of verdict: what an interval says, beside a margin that was stated beforehand."""

import numpy as np
import pytest
from scipy import stats

from rlnotes.studies import Interval, Verdict, judge, median_interval, paired_difference, paired_interval
from rlnotes.studies.verdicts import Chance, Level


@pytest.mark.parametrize(
    ("ends", "margin", "word"),
    [
        ((0.01, 0.3), None, "better"),
        ((-0.3, -0.01), None, "worse"),
        ((-0.01, 0.02), None, "not told"),
        ((0.0, 0.02), None, "not told"),
        ((-0.01, 0.02), 0.05, "within 0.05 of each other"),
        ((0.01, 0.02), 0.05, "within 0.05 of each other"),
        ((-0.01, 0.05), 0.05, "not told"),
        ((-0.06, 0.02), 0.05, "not told"),
        ((0.01, 0.06), 0.05, "better"),
    ],
)
def test_the_word_is_that_of_the_interval(ends: tuple[float, float], margin: float | None, word: str):
    verdict = Verdict(Interval(0.0, *ends), margin)
    assert verdict.word == word
    assert str(verdict) == f"{verdict.difference}  {word}"  # never alone


def test_a_chance_is_even_at_one_half_and_a_level_is_neither_better_nor_worse():
    assert Verdict(Chance(0.6, 0.51, 0.7)).word == "better" and Verdict(Chance(0.4, 0.1, 0.49)).word == "worse"
    assert Verdict(Chance(0.6, 0.5, 0.7)).word == "not told"
    assert Verdict(Chance(0.51, 0.48, 0.54), 0.05).word == "within 0.05 of each other"
    assert Verdict(Level(0.9, 0.8, 1.0)).word == "not told"
    assert str(Interval(0.1, 0, 0.2)).startswith("+0.100") and str(Chance(0.6, 0.5, 0.7)).startswith(" 0.600")


def test_a_paired_difference_is_students():
    rng = np.random.default_rng(0)
    theirs = rng.normal(0, 10, 8)
    ours = theirs + rng.normal(0.5, 1.0, 8)
    found, said = paired_difference(ours, theirs), stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert found.value == pytest.approx((ours - theirs).mean())
    assert found[1:] == pytest.approx((said.low, said.high))
    wider = paired_difference(ours, theirs, level=1 - 0.05 / 33)
    assert wider.low < found.low and wider.high > found.high
    assert judge(ours, theirs) == Verdict(found)


def test_a_paired_difference_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    found = [paired_difference(rng.normal(size=10), rng.normal(size=10)) for _ in range(1000)]
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.02)


def test_runs_of_one_start_count_once():
    gaps = np.array([1.0, 1.1, 0.9, 2.0, 2.1, 1.9, 3.0, 3.1, 2.9])
    starts = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert paired_difference(gaps, gaps * 0, starts) == pytest.approx(paired_difference(np.arange(1.0, 4), np.zeros(3)))
    assert paired_difference(gaps, gaps * 0).low > paired_difference(gaps, gaps * 0, starts).low


def test_what_has_no_interval_is_refused():
    with pytest.raises(ValueError, match=r"1 pair\(s\) have no interval; make at least 2"):
        paired_difference(np.ones(3), np.zeros(3), ["a", "a", "a"])
    with pytest.raises(ValueError, match="pair them seed by seed"):
        paired_difference(np.ones(3), np.zeros(2))


def test_the_median_interval_covers_its_median():
    found = median_interval([0.1, 0.5, 0.2, 0.4, 0.3])
    assert found.value == pytest.approx(0.3)
    assert 0.1 <= found.low < found.value < found.high <= 0.5
    assert median_interval([2.0, 2.0]).low == 2.0


def test_a_paired_interval_sees_what_an_unpaired_one_does_not():
    start = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    gain = np.array([1.0, 1.2, 0.9, 1.1, 1.0])
    assert paired_interval(start + gain, start).low > 0.8
    assert median_interval(start + gain).low < median_interval(start).high
