"""What chapter 06 says of its stored runs, and how it reads them."""

import numpy as np
import pytest

from rlnotes.chapters.c06 import readings
from rlnotes.chapters.c06.experiment import ARMS, RATES, REPORTED, TUNING, Run, best_rates, run_of, score, settings
from rlnotes.studies.tables import load_rows

RUNS = load_rows("06_clip")
TASKS = ("misled", "needle")


def row(sampled: list[float], **own) -> dict:
    rest = {name: [0.1] * (len(sampled) - 1) for name in ("clipped", "clipped_last", "kl", "outside")}
    return dict(role="reported", task="t", arm="clip", rate=1e-3, start=0, seed=0, sampled=sampled, **rest) | own


# --- Reading


def test_the_score_is_the_mean_after_the_rounds_without_the_start():
    assert score(row([0.9, 0.2, 0.4])) == pytest.approx(0.3)


def test_a_run_died_that_ends_below_half_of_its_best():
    assert readings.died(row([0.1, 0.8, 0.39])) and not readings.died(row([0.1, 0.8, 0.41]))


def test_the_best_rate_is_that_of_the_highest_mean():
    tuned = [
        row([0, a], rate=rate, seed=seed)
        for rate, pair in {1: (0.1, 0.9), 2: (0.6, 0.6)}.items()
        for seed, a in enumerate(pair)
    ]
    assert best_rates(tuned) == {("t", "clip"): 2}


def test_rounds_are_sorted_by_what_they_logged():
    runs = [row([0.5, 0.4, 0.6], clipped=[0.01, 0.15])] * readings.FEWEST
    few, many = readings.by_log(runs, "t", "clip", "clipped")
    assert (few["between"], many["between"]) == ("0 to 0.02", "0.1 to 0.2")
    assert few["mean change"] == pytest.approx(-0.1) and few["share that fell"] == 1
    assert many["mean change"] == pytest.approx(0.2) and many["share that fell"] == 0


def test_a_row_knows_its_run_and_an_arm_its_settings():
    run = Run("misled", "stop", 1e-3, 2, 7)
    assert run_of(vars(run) | dict(sampled=[])) == run
    made = settings(run)
    assert (made.clip, made.kl_limit, made.learning_rate, made.seed, made.prompts) == (None, 0.02, 1e-3, 7, 512)


# --- What the chapter says


@pytest.mark.parametrize("task", TASKS)
def test_the_table_is_whole_and_the_start_does_not_decide(task: str):
    for arm in ARMS:
        reported = readings.chosen(RUNS, "reported", task, arm)
        assert [(r["start"], r["seed"]) for r in reported] == list(REPORTED)
        assert readings.by_rate(RUNS, task, arm).shape == (len(RATES), len(TUNING))
        assert max(r["greedy"][0] for r in reported) < 0.2
    assert not {seed for _, seed in TUNING} & {seed for _, seed in REPORTED}


def test_best_rates_are_inside_the_grid_but_for_the_stops_on_needle():
    best = best_rates([r for r in RUNS if r["role"] == "tuning"])
    at_the_end = {key for key, rate in best.items() if rate in (RATES[0], RATES[-1])}
    assert at_the_end == {("needle", "clip_stop"), ("needle", "stop")}


@pytest.mark.parametrize(
    ("task", "arm", "word"),
    [("misled", "unclipped", "not told"), ("needle", "unclipped", "better"),
     ("misled", "clip_stop", "worse"), ("needle", "clip_stop", "better")],
)  # fmt: skip
def test_the_verdicts(task: str, arm: str, word: str):
    assert readings.verdict(RUNS, task, arm, "clip").word == word


def test_the_clip_leaves_room_for_the_rate():
    dead = {found["arm"]: found["0.0008"] for found in readings.deaths(RUNS, "misled")}
    assert dead == {"unclipped": 3, "clip": 0, "clip_stop": 0, "stop": 0}


def test_with_the_clip_rounds_that_clip_much_fall_least_and_without_it_kl_warns():
    held = readings.by_log(RUNS, "misled", "clip", "clipped")
    assert held[0]["share that fell"] > 0.08 and max(r["share that fell"] for r in held[2:]) < 0.02
    free = [r["share that fell"] for r in readings.by_log(RUNS, "misled", "unclipped", "kl")]
    assert free[0] < 0.03 and min(free[3:]) > 0.12


def test_trained_critics_hardly_see_errors_and_a_small_lambda_pays_for_it():
    rows = load_rows("06_critics")
    exact = next(r for r in rows if r["critic"] == "exact")
    assert exact["wrong"] == 0 and min(exact[f"lam {lam}"] for lam in ("0", "0.5", "0.95", "1")) > 0.99
    for updates in (320, 2080):
        found = {
            key: np.mean([r[key] for r in rows if r["updates"] == updates]) for key in exact if key not in ("critic",)
        }
        assert found["right"] - found["wrong"] < 0.15
        assert found["lam 1"] > 0.98 and found["lam 0.5"] < 0.72 and found["lam 0"] < 0.6
