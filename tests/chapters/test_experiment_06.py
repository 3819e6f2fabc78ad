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


def test_rounds_are_sorted_by_what_they_logged_and_no_round_is_left_out():
    runs = [row([0.5, 0.4, 0.6], clipped=[0.01, 0.15])] * 2 + [row([0.5, 0.4, 0.6], clipped=[0.01, 0.5])]
    few, many, one = readings.by_log(runs, "t", "clip", "clipped")
    assert [r["between"] for r in (few, many, one)] == ["0 to 0.02", "0.1 to 0.2", "0.3 to 1"]
    assert few["mean change"] == pytest.approx(-0.1) and few["fell"] == few["rounds"] == 3
    assert many["mean change"] == pytest.approx(0.2) and many["fell"] == 0 and one["rounds"] == 1


def test_the_chance_counts_pairs():
    values, fell = np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, True, False, False])
    assert readings.chance(values, fell) == pytest.approx((1 + 1 + 0 + 0.5) / 4)


def test_every_round_is_in_one_state():
    found = readings.states(RUNS, TASKS)
    assert sum(r["rounds"] for r in found if r["task"] == "misled") == 43 * 16
    assert [r["rounds"] for r in found] == [201, 440, 47, 181, 501, 6]


def test_a_live_run_says_when_it_got_there_and_which_round_was_worst():
    logged = dict(promised=[0.1, 0.2], clipped=[0.1, 0.2], kl_round=[1, 2], kl_steps=[3, 4])
    found = readings.live(
        [dict(arm="clip", seed=s, J=J, change=[0.1, -0.2], **logged) for s, J in ((0, [0.9, 0.7]), (1, [0.1, 0.2]))]
    )
    assert [r["rounds to 0.9"] for r in found] == ["1", "never"]
    assert found[0]["worst round"] == 2 and found[0]["KL after it"] == 2


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


WORDS = {
    ("misled", "unclipped"): ("not told", "not told"), ("needle", "unclipped"): ("better", "not told"),
    ("misled", "clip_stop"): ("worse", "worse"), ("needle", "clip_stop"): ("better", "worse"),
    ("misled", "stop"): ("worse", "worse"), ("needle", "stop"): ("better", "worse"),
}  # fmt: skip


@pytest.mark.parametrize(("task", "arm"), WORDS)
def test_the_verdicts_on_both_scores(task: str, arm: str):
    assert tuple(readings.verdict(RUNS, task, arm, "clip", by).word for by in readings.SCORES) == WORDS[task, arm]


def test_the_clip_buys_one_step_of_the_grid_and_the_stops_buy_three():
    found = {one["arm"]: one for one in readings.deaths(RUNS, "misled")}
    first = {arm: next(rate for rate in RATES if found[arm][f"{rate:g}"]) for arm in ARMS}
    assert first == {"unclipped": 8e-4, "clip": 1.6e-3, "clip_stop": 6.4e-3, "stop": 6.4e-3}
    room = {one["arm"]: one for one in readings.room(RUNS, TASKS)}
    assert {arm: room[arm]["needle: died at 0.0064"] for arm in ARMS if room[arm]["needle: died at 0.0064"]} == {
        "unclipped": 3
    }
    assert "needle: died at 0.0032" not in room["clip"]
    for score_of in ("misled, mean", "misled, end"):
        stops = [room[arm][score_of] for arm in ("clip_stop", "stop")]
        assert min(stops) > room["clip"][score_of] > room["unclipped"][score_of]
    assert max(room, key=lambda arm: room[arm]["needle, mean"]) == "unclipped"
    assert min(room, key=lambda arm: room[arm]["needle, end"]) == "unclipped"


@pytest.mark.parametrize("task", TASKS)
def test_with_a_low_rate_no_clip_is_faster(task: str):
    free, held = (readings.by_rate(RUNS, task, arm) for arm in ("unclipped", "clip"))
    low = [i for i, rate in enumerate(RATES) if rate <= 4e-4]
    assert (free.mean(1)[low] > held.mean(1)[low]).all()
    assert free.mean(1)[1] > held.mean(1).max()  # at half of its best rate


def test_the_stops_of_needle_make_one_update_a_round():
    for one in readings.results(RUNS, "needle"):
        if one["arm"] in ("clip_stop", "stop"):
            assert one["updates a round"] == 1


def test_a_high_clip_fraction_is_an_alarm_on_one_task_only():
    high = {
        task: [r for r in readings.by_log(RUNS, task, "clip", "clipped") if r["between"] in ("0.2 to 0.3", "0.3 to 1")]
        for task in TASKS
    }
    counts = {task: (sum(r["fell"] for r in found), sum(r["rounds"] for r in found)) for task, found in high.items()}
    assert counts == {"misled": (4, 12), "needle": (0, 231)}
    low = readings.by_log(RUNS, "misled", "clip", "clipped")
    assert (low[0]["fell"], low[0]["rounds"]) == (21, 243)
    assert sum(r["fell"] for r in low[2:4]) == 4 and sum(r["rounds"] for r in low[2:4]) == 334


def test_with_the_clip_neither_number_warns_well_and_without_it_kl_does():
    for one in readings.warnings(RUNS, TASKS):
        if one["arm"] == "clip":
            assert max(one["KL(old, new)"], one["clip fraction"]) < 0.75
        else:
            assert one["KL(old, new)"] > 0.8 > one["clip fraction"]


def test_above_one_nat_the_falls_of_the_clip_are_first_rounds_that_killed_their_run():
    falls, others = [], []
    for one in RUNS:
        if (one["task"], one["arm"]) == ("misled", "clip"):
            for k, kl in enumerate(one["kl"]):
                if kl > 1:
                    before, after = one["sampled"][k : k + 2]
                    (falls if after - before < -readings.FALL else others).append(
                        (k, before, max(one["sampled"][k + 1 :]))
                    )
    assert len(falls) == 6 and all(k == 0 and later < 0.07 for k, _, later in falls)
    assert len(others) == 41 and max(before for _, before, _ in others) < 0.07


def test_the_live_runs_on_four_seeds():
    found = {(one["arm"], one["seed"]): one for one in readings.live(load_rows("06_live"))}
    to_goal = {arm: [found[arm, seed]["rounds to 0.9"] for seed in range(4)] for arm in ("clip", "unclipped")}
    assert to_goal == {"clip": ["9", "9", "9", "6"], "unclipped": ["4", "never", "6", "6"]}
    assert all(found["unclipped", s]["came of it"] < found["clip", s]["came of it"] for s in range(4))
    assert sum(found["unclipped", s]["promised"] > 0 for s in range(4)) == 3
    row = found["unclipped", 0]
    assert row["KL after it"] > 10 * row["as verl logs it"]


def test_one_round_on_three_seeds():
    rows = load_rows("06_one_round")
    ratios = readings.one_round_table(rows, "ratios")
    assert min(r["largest"] for r in ratios if r["rate"] == 3e-4) > 1.2
    assert max(r["outside"] for r in ratios if r["rate"] == 1e-6) == 0
    drift = [r for r in readings.one_round_table(rows, "drift") if r["beta_1"] == 0.9]
    assert (sum(r["on"] for r in drift), sum(r["closed"] for r in drift)) == (41, 42)
    arms = readings.one_round_table(rows, "arms")
    assert min(r["largest"] for r in arms) > 1.2
    for r in arms:
        assert (r["kl_reference"] < 0.1) == (r["arm"] == "penalty")
        if r["arm"] == "penalty":
            assert r["kl"] > 0.2
        if r["arm"] in ("stop", "clip_stop"):
            assert 0.02 < r["kl"] < 0.05 and r["updates"] <= 4


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
