"""Scores and their statistics: against the definition in plain loops, SciPy's other functions, and rliable."""

import csv
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rlnotes.studies import Table, joined, read_table
from rlnotes.studies.scores import (
    Standing,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    score,
    scores,
    standings,
)
from rlnotes.studies.verdicts import Chance, Level

RLIABLE = json.loads((Path(__file__).parents[1] / "golden" / "rliable.json").read_text(encoding="utf-8"))
X, Y = np.array(RLIABLE["x"]), np.array(RLIABLE["y"])
Levels = Mapping[tuple[str, str, str], Mapping[int, float]]

# what a run of (recipe, task, rate) reaches at its end, by seed; 100 is for tuning
LEVELS: dict[tuple[str, str, str], dict[int, float]] = {
    ("a", "easy", "1e-4"): {100: 0.9, 0: 0.5, 1: 0.6},
    ("a", "easy", "1e-3"): {100: 0.1, 0: 0.8, 1: 0.9},  # better, but the tuning seed did not know
    ("a", "hard", "1e-4"): {100: 0.3, 0: 0.4, 1: 0.4},
    ("a", "hard", "1e-3"): {100: 0.6, 0: 0.5, 1: 0.3},
    ("b", "easy", "1e-4"): {100: 0.9, 0: 0.95, 1: 1.0},
    ("b", "hard", "1e-4"): {100: 0.9, 0: 0.95, 1: 1.0},
}


def made(folder: Path, levels: Levels, base: Mapping[str, object] | None = None, tokens: int = 20) -> Table:
    """Runs that rise in a line from accuracy 0 at token 0 to their level at token 20."""
    names = {key: f"{key[0]}, {key[1]} {key[2]}" for key in levels}
    with (folder / "t.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("method", "recipe", "task", "rate", "seed", "step", "tokens", "accuracy"))
        for key, runs in levels.items():
            for seed, level in runs.items():
                table.writerows((names[key], *key, seed, step, 10 * step, level * step / 2) for step in range(3))
    methods = {name: {} for name in names.values()}
    note = dict(comparison=dict(base=base or {}, methods=methods, tokens=tokens, tuning_seeds=[100]))
    (folder / "t.json").write_text(json.dumps(note), encoding="utf-8")
    return read_table("t", folder / "t.csv", folder / "t.json")


def test_numbers_and_intervals_are_those_of_rliable():
    """Its bootstrap draws other resamples, so that ends differ by some hundredths."""
    said = RLIABLE["interquartile_mean"]
    mean = interquartile_mean(X)
    assert mean.value == pytest.approx(said["value"], rel=1e-12)
    assert (mean.low, mean.high) == pytest.approx((said["low"], said["high"]), abs=0.01)
    said = RLIABLE["probability_of_improvement"]
    improvement = probability_of_improvement(X, Y)
    assert improvement.value == pytest.approx(said["value"], rel=1e-12)
    assert (improvement.low, improvement.high) == pytest.approx((said["low"], said["high"]), abs=0.02)
    said = RLIABLE["performance_profile"]
    profile = performance_profile(X, np.array(RLIABLE["thresholds"]))
    np.testing.assert_allclose(profile.share, said["share"], rtol=1e-12)
    np.testing.assert_allclose(profile.low, said["low"], atol=0.04)  # one run of thirty
    np.testing.assert_allclose(profile.high, said["high"], atol=0.04)


def test_an_interquartile_mean_is_that_of_the_middle_half():
    values = np.arange(24.0).reshape(6, 4) ** 2
    assert interquartile_mean(values).value == pytest.approx(np.mean(sorted(values.flat)[6:18]))


def test_improvement_counts_pairs_within_a_task_and_ties_half():
    ours, theirs = np.array([[1.0, 2, 3], [0, 0, 5]]), np.array([[2.0, 0], [7, 0]])
    pairs = [[(x > y) + (x == y) / 2 for x, y in itertools.product(a, b)] for a, b in zip(ours, theirs, strict=True)]
    assert probability_of_improvement(ours, theirs).value == pytest.approx(np.mean(pairs))
    assert probability_of_improvement(theirs, ours).value == pytest.approx(1 - np.mean(pairs))
    assert probability_of_improvement(ours * 0, theirs * 0) == (0.5, 0.5, 0.5)


def test_a_profile_is_the_survival_function_of_all_runs():
    thresholds = np.append(np.linspace(-1, 1, 41), X[0])  # at a score, too
    profile = performance_profile(X, thresholds)
    np.testing.assert_allclose(profile.share, stats.ecdf(X.ravel()).sf.evaluate(thresholds))
    assert (profile.low <= profile.share).all() and (profile.share <= profile.high).all()


def test_runs_are_drawn_anew_within_their_task():
    """Tasks that differ and runs that do not: nothing is left to chance, unless tasks are mixed."""
    values = np.repeat(np.arange(4.0)[:, None], 5, axis=1)
    mean = interquartile_mean(values)
    assert mean.low == mean.value == mean.high == 1.5
    profile = performance_profile(values, np.array([0.5, 1.5]))
    np.testing.assert_array_equal(profile.low, profile.high)


def test_an_interval_covers_the_truth_about_as_often_as_it_says_and_rather_less():
    rng = np.random.default_rng(3)
    truth, trials = 0.0, 200  # of symmetric scores
    found = [interquartile_mean(rng.normal(size=(6, 5))) for _ in range(trials)]
    share = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.85 < share < 0.97


@pytest.mark.parametrize(
    ("tasks", "seeds", "low", "high"), [(6, 5, 0.03, 0.11), (1, 5, 0.05, 0.14), (1, 2, 0.25, 0.42)]
)
def test_recipes_that_are_the_same_are_told_apart_about_as_often_as_the_docstring_says(
    tasks: int, seeds: int, low: float, high: float
):
    rng = np.random.default_rng(5)
    found = [probability_of_improvement(*rng.normal(size=(2, tasks, seeds))) for _ in range(200)]
    assert low < np.mean([one.low > 0.5 or one.high < 0.5 for one in found]) < high


def test_one_run_of_a_task_has_no_interval():
    with pytest.raises(ValueError, match="one run of a task has no interval; make at least two"):
        interquartile_mean(np.zeros((3, 1)))


def test_a_score_is_the_mean_over_tokens_of_what_was_left_to_learn():
    run = dict(tokens=np.array([0.0, 10, 15, 30, 35, 40]), accuracy=np.array([0.2, 0.6, np.nan, 1.0, 0.0, 0.0]))
    # 0.2 to 0.6 over ten tokens, 0.6 to 0.8 over the next ten; the rest of the run is beyond its budget
    assert score(run, 20) == pytest.approx(((0.4 + 0.7) / 2 - 0.2) / 0.8)
    assert score(run | dict(accuracy=np.full(6, 0.2)), 20) == pytest.approx(0)
    assert score(run | dict(accuracy=np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])), 20) < 0
    with pytest.raises(ValueError, match="measured up to 40 tokens of 50; finish the run"):
        score(run, 50)
    with pytest.raises(ValueError, match="accuracy starts at 1, which leaves nothing to learn"):
        score(run | dict(accuracy=np.ones(6)), 20)


def test_scores_are_those_of_reported_seeds_at_the_rate_that_tuning_seeds_chose(tmp_path: Path):
    found = scores(made(tmp_path, LEVELS))
    assert found.tasks == ("easy", "hard")
    assert found.methods["a"] == {"easy": "a, easy 1e-4", "hard": "a, hard 1e-3"}
    np.testing.assert_allclose(found.values["a"], [[0.25, 0.3], [0.25, 0.15]])
    np.testing.assert_allclose(found.values["b"], [[0.475, 0.5]] * 2)
    hard = scores(made(tmp_path, LEVELS), ["hard"])
    np.testing.assert_allclose(hard.values["a"], [[0.25, 0.15]])


def test_what_is_missing_in_a_table_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="no runs of task 'sort' in the table; there are: easy, hard"):
        scores(made(tmp_path, LEVELS), ["sort"])
    fewer = {key: runs for key, runs in LEVELS.items() if key[:2] != ("b", "hard")}
    with pytest.raises(ValueError, match=r"no runs of 'b' on 'hard'; .* name tasks: \['easy'\]"):
        scores(made(tmp_path, fewer))
    assert list(scores(made(tmp_path, fewer), ["hard"]).values) == ["a"]
    ragged = LEVELS | {("b", "hard", "1e-4"): {100: 0.9, 0: 0.95}}
    with pytest.raises(ValueError, match=r"'b' do not have the same seeds on each task \(2 on easy, 1 on hard\)"):
        scores(made(tmp_path, ragged))
    untuned = LEVELS | {("b", "hard", "1e-4"): {0: 0.9, 1: 0.9}}
    with pytest.raises(ValueError, match="no tuning runs of 'b, hard 1e-4'; finish the table"):
        scores(made(tmp_path, untuned))
    untold = {("c", "easy", "1e-4"): {100: 0.9}}
    with pytest.raises(ValueError, match=r"'c' do not have the same seeds on each task \(0 on easy\)"):
        scores(made(tmp_path, untold))


def test_tables_are_joined_if_they_were_made_alike(tmp_path: Path):
    ours = made(tmp_path, LEVELS, dict(epochs=4, device="cpu"))
    mine = {("mine", "easy", "1e-4"): {100: 0.5, 0: 0.7, 1: 0.9, 2: 0.8}}
    both = joined(ours, made(tmp_path, mine, dict(epochs=4, device="cuda", younger=0)))
    found = scores(both, ["easy"])
    assert {recipe: own.shape for recipe, own in found.values.items()} == {"a": (1, 2), "b": (1, 2), "mine": (1, 3)}
    with pytest.raises(ValueError, match="both tables hold 'mine, easy 1e-4'"):
        joined(both, made(tmp_path, mine, dict(epochs=4)))
    with pytest.raises(ValueError, match="the tables differ in epochs: 4 and 1"):
        joined(ours, made(tmp_path, mine, dict(epochs=1)))
    longer = joined(ours, made(tmp_path, mine, dict(epochs=4), tokens=10))
    with pytest.raises(ValueError, match=r"runs on 'easy' sample \[10, 20\] tokens"):
        scores(longer, ["easy"])


def test_a_verdict_needs_an_interval_without_one_half(tmp_path: Path):
    levels = {}
    for task in ("easy", "hard"):
        for recipe, ends in {"low": (0.1, 0.2, 0.3), "same": (0.5, 0.6, 0.55), "high": (0.8, 0.9, 1.0)}.items():
            levels[recipe, task, "1e-4"] = {100: 0.5} | dict(enumerate(ends))
        levels["middle", task, "1e-4"] = {100: 0.5, 0: 0.45, 1: 0.6, 2: 0.56}
    places = standings(scores(made(tmp_path, levels)), reference="same")
    assert places[0].recipe == "high" and places[-1].recipe == "low"
    verdicts = {place.recipe: place.verdict for place in places}
    assert verdicts == dict(high="better", low="worse", middle="not told", same="the reference")
    edge = Standing("x", "same", mean=Level(0.5, 0.4, 0.6), improvement=Chance(0.6, 0.5, 0.7))
    assert edge.verdict == "not told"
    with pytest.raises(ValueError, match="no scores of 'grpo'; there are: low, same, high, middle"):
        standings(scores(made(tmp_path, levels)), reference="grpo")
