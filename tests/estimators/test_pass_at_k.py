from itertools import combinations
from statistics import fmean

import pytest

from rlnotes.estimators.pass_at_k import pass_at_k


def test_it_is_the_share_of_all_choices_that_hold_a_right_one():
    for samples in range(1, 7):
        for right in range(samples + 1):
            rights = [i < right for i in range(samples)]
            for k in range(1, samples + 1):
                expected = fmean(any(chosen) for chosen in combinations(rights, k))
                assert pass_at_k(right, samples, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "name"), [((1, 4, 5), "k"), ((1, 4, 0), "k"), ((5, 4, 1), "right"), ((-1, 4, 1), "right")]
)
def test_numbers_that_cannot_be_are_refused(arguments: tuple[int, int, int], name: str):
    with pytest.raises(ValueError, match=f"{name} is "):
        pass_at_k(*arguments)
