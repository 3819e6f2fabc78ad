"""What a ranking hangs on: against definitions in plain loops, and on scores made so that the answer is known."""

import itertools

import numpy as np
import pytest
from scipy import stats

from rlnotes.studies.rankings import (
    AGGREGATES,
    aggregate,
    blocks,
    p_values,
    place_table,
    places,
    told_apart,
    verdicts_by_seeds,
    wrong_orders,
)
from rlnotes.studies.scores import Scores, standings


def made(**levels: list[list[float]]) -> Scores:
    """Recipes by name: the scores of each task."""
    values = {name: np.array(own) for name, own in levels.items()}
    tasks = tuple(f"task {i}" for i in range(len(next(iter(values.values())))))
    return Scores(tasks, values, {})


def drawn(shifts: dict[str, float], tasks: int = 3, seeds: int = 8, rng: int = 0) -> Scores:
    noise = np.random.default_rng(rng)
    return made(**{name: noise.normal(shift, 1.0, (tasks, seeds)).tolist() for name, shift in shifts.items()})


def test_aggregates_are_those_of_all_runs_together():
    values = np.array([[0.0, 1, 2, 7], [3, 4, 10, 6]])
    assert aggregate(values, "mean") == pytest.approx(33 / 8)
    assert aggregate(values, "median") == pytest.approx(3.5)
    assert aggregate(values, "interquartile mean") == pytest.approx((2 + 3 + 4 + 6) / 4)
    assert set(AGGREGATES) == {"mean", "median", "interquartile mean"}


def test_the_first_place_has_the_largest_value_and_equal_values_share():
    np.testing.assert_array_equal(places([0.1, 0.9, 0.5, 0.5]), [4, 1, 2.5, 2.5])


def test_a_task_more_can_turn_an_order_that_the_mean_keeps():
    """The interquartile mean drops the best and the worst quarter of the runs, here whole tasks."""
    found = made(steady=[[0.9], [0.6], [0.5], [0.6]], uneven=[[0.8], [0.7], [0.0], [0.7]])
    table = place_table(found)
    np.testing.assert_array_equal(table["mean"], [1, 2])
    np.testing.assert_array_equal(table["interquartile mean"], [2, 1])
    np.testing.assert_array_equal(table["task 2"], [1, 2])


@pytest.mark.parametrize("name", AGGREGATES)
def test_recipes_are_told_apart_by_the_interval_of_the_difference(name: str):
    found = drawn(dict(low=0.0, same=0.0, high=5.0))
    matrix = told_apart(found, name)
    np.testing.assert_array_equal(matrix, [[0, matrix[0, 1], -1], [-matrix[0, 1], 0, -1], [1, 1, 0]])


def test_told_apart_is_about_as_often_wrong_as_it_says():
    wrong = [told_apart(drawn(dict(a=0.0, b=0.0), rng=i), "mean")[0, 1] != 0 for i in range(200)]
    assert 0.02 < np.mean(wrong) < 0.13


def test_runs_of_two_recipes_are_drawn_apart_from_each_other():
    """Were the same seeds drawn for both, a lead of a hair on every seed would seem certain."""
    noise = np.random.default_rng(0).normal(size=(3, 8))
    found = made(low=noise.tolist(), high=(noise + 0.01).tolist())
    np.testing.assert_array_equal(told_apart(found, "mean"), np.zeros((2, 2)))


def test_verdicts_by_seeds_are_those_of_blocks_without_common_seeds():
    found = made(
        reference=[[0.1, 0.2, 0.3, 0.4, 0.5]], up_then_down=[[0.9, 0.8, 0.0, 0.0, 7.0]], level=[[0.1, 0.2, 0.3, 0.4, 0]]
    )
    assert verdicts_by_seeds(found, "reference", 2) == dict(up_then_down=[1, -1], level=[0, 0])
    with pytest.raises(ValueError, match="seeds is 1; it goes from 2 to the 5 of the table"):
        verdicts_by_seeds(found, "reference", 1)


def test_blocks_are_counted_beside_the_whole_table():
    found = made(
        reference=[[0.1, 0.2, 0.3, 0.4]],
        turns=[[0.9, 0.8, 0.0, 0.05]],  # better, then worse; nothing as a whole
        falls=[[0.9, 0.8, -1.0, -1.0]],
        ahead=[[0.9, 0.8, 0.7, 0.6]],
        level=[[0.1, 0.2, 0.3, 0.4]],
    )
    made_of = blocks(found, standings(found, "reference"), 2)
    assert made_of == (8, 6, 0, 4, 4, 2, 2)
    assert blocks(found, standings(found, "reference"), 4).not_in == 0
    turned = made(reference=[np.arange(20.0).tolist()], falls=[[20.0, 30.0, *np.arange(-18.0, 0)]])
    assert blocks(turned, standings(turned, "reference"), 2) == (10, 10, 1, 1, 45, 36, 9)


def test_wrong_orders_are_counted_pair_by_pair():
    found = made(a=[[1.0, 0, 0, 0]], b=[[0.0, 0.75, 0.75, 0.75]], c=[[-1.0, -1, -1, -1]])
    # only seed 0 has a before b, and the other three together say the reverse
    assert wrong_orders(found, 1) == pytest.approx((1 + 0 + 0 + 0) / 4 / 3)
    # seeds 0 and 1 have a before b, 2 and 3 the reverse: each block contradicts the other
    assert wrong_orders(found, 2) == pytest.approx((1 + 1) / 2 / 3)


def test_gaussian_recipes_are_in_the_wrong_order_as_often_as_the_closed_form_says():
    from rlnotes.studies.power import wrong_order

    shares = [wrong_orders(drawn(dict(a=0.0, b=1.0), tasks=40, seeds=40, rng=i), 4) for i in range(10)]
    assert np.mean(shares) == pytest.approx(wrong_order(4, 1.0, 1.0), abs=0.02)


def test_p_values_are_uniform_where_nothing_differs_and_small_where_something_does():
    found = drawn(dict(reference=0.0, alike=0.0, ahead=2.0, behind=-2.0))
    p = p_values(found, "reference")
    assert set(p) == {"alike", "ahead", "behind"}
    assert max(p["ahead"], p["behind"]) < 1e-3 < p["alike"]
    many = [p_values(drawn(dict(reference=0.0, alike=0.0), rng=i), "reference")["alike"] for i in range(300)]
    assert stats.kstest(many, "uniform").pvalue > 0.01


def test_a_p_value_is_the_exact_one_and_does_not_ask_who_comes_first():
    one = drawn(dict(a=0.0, b=0.7), tasks=1)
    exact = stats.mannwhitneyu(one.values["a"][0], one.values["b"][0], method="exact").pvalue
    assert p_values(one, "a")["b"] == pytest.approx(exact)
    found = drawn(dict(a=0.0, b=0.4), tasks=6, seeds=10)
    assert p_values(found, "a")["b"] == pytest.approx(p_values(found, "b")["a"], rel=1e-9)


def test_a_p_value_of_two_tasks_is_counted_over_all_orders():
    found = made(a=[[0.1, 0.2, 0.6], [0.3, 0.5, 0.7]], b=[[0.4, 0.8, 0.9], [0.2, 0.9, 1.0]])
    orders = itertools.combinations(range(6), 3)
    lower = [sum(k > i for i in own for k in range(6) if k not in own) for own in orders]
    pairs = zip(found.values["a"], found.values["b"], strict=True)
    seen = sum(y > x for ours, theirs in pairs for x in ours for y in theirs)
    tail = np.mean([u + v >= seen for u, v in itertools.product(lower, repeat=2)])
    assert p_values(found, "a")["b"] == pytest.approx(2 * tail)


def test_a_tie_counts_for_no_difference():
    tied = p_values(made(a=[[0.1, 0.2]], b=[[0.2, 0.3]]), "a")["b"]
    assert tied == pytest.approx(p_values(made(a=[[0.1, 0.25]], b=[[0.2, 0.3]]), "a")["b"])
