"""What chapter 06 says of its stored runs, and how it reads them."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from rlnotes.chapters.c06 import readings
from rlnotes.chapters.c06.experiment import (
    ARMS,
    RATES,
    REPORTED,
    SECOND,
    TUNING,
    Run,
    best_rates,
    reported_runs,
    run_of,
    score,
    settings,
    tuning_runs,
)
from rlnotes.studies.tables import died, load_rows

RUNS = load_rows("06_clip")
TASKS = ("misled", "needle")


def row(sampled: list[float], **own) -> dict:
    rest = {name: [0.1] * (len(sampled) - 1) for name in ("clipped", "clipped_last", "kl", "outside")}
    return dict(role="reported", task="t", arm="clip", rate=1e-3, start=0, seed=0, sampled=sampled, **rest) | own


# --- Reading


def test_the_score_is_the_mean_after_the_rounds_without_the_start():
    assert score(row([0.9, 0.2, 0.4])) == pytest.approx(0.3)


def test_the_best_rate_is_that_of_the_highest_mean():
    tuned = [
        row([0, a], rate=rate, seed=seed)
        for rate, pair in {1: (0.1, 0.9), 2: (0.6, 0.6)}.items()
        for seed, a in enumerate(pair)
    ]
    assert best_rates(tuned) == {("t", "clip"): 2}


def test_rounds_are_sorted_by_clip_fraction_and_falls_are_counted_where_accuracy_was_high():
    runs = [row([0.5, 0.4, 0.6], clipped=[0.01, 0.15])] * 2 + [row([0.5, 0.4, 0.6], clipped=[0.01, 0.5])]
    found = readings.by_clip_fraction(runs, ["t"])
    assert [r["t: change"] for r in found] == ["-0.100 (3)", "– (0)", "+0.200 (2)", "+0.200 (1)"]
    assert [r["t: fell"] for r in found] == ["3 of 3", "0 of 0", "0 of 0", "0 of 0"]


def test_the_chance_counts_pairs():
    values, fell = np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, True, False, False])
    assert readings.chance(values, fell) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert np.isnan(readings.chance(values, np.zeros(4, dtype=bool)))


def test_a_live_run_says_when_it_got_there_and_which_round_was_worst():
    logged = dict(kl_round=[1, 2], kl_steps=[3, 4])
    found = readings.live(
        [dict(arm="clip", seed=s, J=J, change=[0.1, -0.2], **logged) for s, J in ((0, [0.9, 0.7]), (1, [0.1, 0.2]))]
    )
    assert [r["rounds to 0.9"] for r in found] == ["1", "never"]
    assert found[0]["worst round"] == 2 and found[0]["k3 after it"] == 2


def test_a_row_knows_its_run_and_an_arm_its_settings():
    run = Run("misled", "stop", 1e-3, 2, 7)
    assert run_of(vars(run) | dict(sampled=[])) == run
    made = settings(run)
    assert (made.clip, made.kl_limit, made.learning_rate, made.seed, made.prompts) == (None, 0.02, 1e-3, 7, 512)


# --- What the chapter says


def test_the_table_holds_what_the_command_makes_in_its_order():
    tuned = [r for r in RUNS if r["role"] == "tuning"]
    declared = tuning_runs() + reported_runs(best_rates(tuned)) + reported_runs(SECOND)
    assert [run_of(r) for r in RUNS] == declared


@pytest.mark.parametrize("task", TASKS)
def test_the_table_is_whole_and_the_start_does_not_decide(task: str):
    for arm in ARMS:
        reported = readings.chosen(RUNS, "reported", task, arm)
        assert [(r["start"], r["seed"]) for r in reported] == list(REPORTED)
        assert readings.by_rate(RUNS, task, arm).shape == (len(readings.rates_of(task, arm)), len(TUNING))
        assert max(r["greedy"][0] for r in reported) < 0.2
    assert not {seed for _, seed in TUNING} & {seed for _, seed in REPORTED}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("arm", ARMS)
def test_best_rates_are_inside_the_grid(task: str, arm: str):
    tried, best = readings.rates_of(task, arm), best_rates([r for r in RUNS if r["role"] == "tuning"])[task, arm]
    assert tried[0] < best < tried[-1]


WORDS = {
    ("misled", "unclipped"): ("not told", "not told"), ("needle", "unclipped"): ("better", "not told"),
    ("misled", "clip_stop"): ("worse", "worse"), ("needle", "clip_stop"): ("better", "worse"),
    ("misled", "stop"): ("worse", "worse"), ("needle", "stop"): ("better", "worse"),
}  # fmt: skip


@pytest.mark.parametrize(("task", "arm"), WORDS)
def test_the_verdicts_on_both_scores(task: str, arm: str):
    assert tuple(readings.verdict(RUNS, task, arm, "clip", by).word for by in readings.SCORES) == WORDS[task, arm]


SECOND_WORDS = {"misled": ("not told", "not told"), "needle": ("better", "within 0.02 of each other")}


@pytest.mark.parametrize("task", TASKS)
def test_at_half_its_best_rate_unclipped_is_nowhere_worse_and_none_dies(task: str):
    found = [readings.verdict(RUNS, task, "unclipped", "clip", by, "second").word for by in readings.SCORES]
    assert tuple(found) == SECOND_WORDS[task]
    assert SECOND[task, "unclipped"] == best_rates([r for r in RUNS if r["role"] == "tuning"])[task, "unclipped"] / 2
    assert not any(died(one["sampled"]) for one in readings.chosen(RUNS, "second", task, "unclipped"))


def test_at_its_best_rate_unclipped_on_misled_has_thirteen_good_ends_and_two_wrecks():
    ends = sorted(r["sampled"][-1] for r in readings.chosen(RUNS, "reported", "misled", "unclipped"))
    assert ends[0] < 0.1 and ends[1] < 0.5 and ends[2] >= 0.96
    ends = sorted(r["sampled"][-1] for r in readings.chosen(RUNS, "second", "misled", "unclipped"))
    assert ends[0] > 0.65 and sum(end >= 0.96 for end in ends) == 13


def test_the_rates_at_which_runs_begin_to_die():
    found = {one["arm"]: one for one in readings.deaths(RUNS, "misled")}
    first = {arm: next(rate for rate in RATES if found[arm][f"{rate:g}"]) for arm in ARMS}
    assert first == {"unclipped": 8e-4, "clip": 1.6e-3, "clip_stop": 6.4e-3, "stop": 6.4e-3}
    for one in readings.deaths(RUNS, "needle"):
        assert {rate: n for rate, n in one.items() if rate != "arm" and n} == (
            {"0.0064": 3} if one["arm"] == "unclipped" else {}
        )


def test_the_stops_of_needle_make_one_update_a_round():
    for one in readings.results(RUNS, "needle"):
        if one["arm"] in ("clip_stop", "stop"):
            assert one["updates a round"] == 1
    kl = np.concatenate([r["kl"] for r in readings.chosen(RUNS, "reported", "needle", "stop")])
    assert (kl > 0.02).mean() > 0.98 and 0.2 < np.median(kl) < 0.21


def test_at_the_best_rate_a_high_clip_fraction_belongs_to_one_task_and_hurts_nothing():
    found = readings.by_clip_fraction(RUNS, TASKS)
    assert (found[-1]["misled: change"], found[-1]["needle: change"]) == ("– (0)", "+0.138 (77)")
    assert found[-1]["needle: fell"] == "0 of 39"
    assert [r["misled: fell"] for r in found] == ["9 of 102", "3 of 37", "0 of 13", "0 of 0"]
    assert max(max(r["clipped"]) for r in readings.chosen(RUNS, "reported", "misled", "clip")) < 0.175


def test_above_a_fifth_misled_has_rounds_at_far_too_high_rates_only():
    high = [
        (row["rate"], after)
        for row in RUNS
        if (row["task"], row["arm"]) == ("misled", "clip")
        for clipped, before, after in zip(row["clipped"], row["sampled"], row["sampled"][1:], strict=False)
        if clipped >= 0.2
    ]
    assert sorted(rate for rate, _ in high) == [1.6e-3] * 2 + [6.4e-3] * 10
    assert {after for rate, after in high if rate == 6.4e-3} == {0}


def test_what_ends_a_run_of_misled_in_its_first_round_is_the_best_beginning_on_needle():
    first = {
        task: [(r["clipped"][0], r["kl"][0], r["sampled"][-1]) for r in readings.from_the_best(RUNS, task)]
        for task in TASKS
    }
    assert {task: len(own) for task, own in first.items()} == {"misled": 35, "needle": 35}
    above = [end for clipped, _, end in first["misled"] if clipped > 0.13]
    assert len(above) == 8 and max(above) < 0.5
    assert min(end for *_, end in first["needle"]) > 0.92 and max(clipped for clipped, *_ in first["needle"]) > 0.4
    ends = {round(kl, 2): end for _, kl, end in first["misled"]}
    assert ends[0.28] == 0 and ends[0.87] > 0.9


def test_with_a_clip_the_kl_of_round_1_tells_the_lost_runs_better_than_the_clip_fraction():
    found = [[round(x, 3) for x in list(row.values())[1:]] for row in readings.first_round_tells(RUNS, TASKS)]
    assert found == [[0.983, 0.937, 0.696], [0.996, 0.984, 0.993], [0.994, 0.976, 0.921]]
    runs = [row for task in TASKS for row in readings.from_the_best(RUNS, task)]
    lost = [row for row in runs if row["sampled"][-1] < 0.5]
    assert len(runs) == 70 and len(lost) == 9 and {row["task"] for row in lost} == {"misled"}
    above = [row for row in runs if row["kl"][0] > readings.FAR]
    assert len(above) == 8 and all(row in lost for row in above)  # one lost run is below the limit
    eight = [row for row in runs if row["task"] == "misled" and row["rate"] > 3e-3]
    assert len(eight) == 8 and all(row in lost for row in eight)
    assert round(min(row["clipped"][0] for row in eight), 3) == 0.137
    (ninth,) = (row for row in lost if row not in eight)
    fine = [row["clipped"][0] for row in runs if row["task"] == "misled" and row not in lost]
    assert round(ninth["clipped"][0], 3) == 0.048 and [round(x, 2) for x in sorted(fine)[-4:]] == [
        0.06,
        0.06,
        0.08,
        0.11,
    ]
    free = [row for role in ("tuning", "reported") for row in readings.chosen(RUNS, role, "needle", "unclipped")]
    best = [row for row in free if row["rate"] == 4e-4]
    assert len(best) == 19 and min(row["sampled"][-1] for row in best) > 0.8
    assert [round(pick(row["kl"][0] for row in best), 1) for pick in (min, max)] == [1.8, 2.6]


def test_without_a_clip_the_learning_rate_tells_the_lost_runs_better_than_the_kl_of_round_1():
    runs = [row for task in TASKS for row in readings.from_the_best(RUNS, task, "unclipped")]
    assert round(readings.chance_lost(runs, lambda row: row["kl"][0]), 2) == 0.61
    assert round(readings.chance_lost(runs, lambda row: row["rate"]), 2) == 0.86


def test_at_the_rate_of_clip_the_stops_end_near_it():
    found = {row["arm"]: [round(row[task], 3) for task in TASKS] for row in readings.ends_at(RUNS, TASKS, 4e-4)}
    assert [found[arm] for arm in ("clip", "clip_stop", "stop")] == [[0.972, 0.999], [0.974, 0.997], [0.959, 0.997]]


def test_no_clip_fraction_ever_tells_the_runs_of_both_tasks_that_were_lost():
    found = {}
    for task in TASKS:
        runs = readings.from_the_best(RUNS, task)
        ever, lost = ([max(r["clipped"]) > 0.3 for r in runs], [r["sampled"][-1] < 0.5 for r in runs])
        found[task] = (len(runs), sum(ever), sum(lost), sum(a and b for a, b in zip(ever, lost, strict=True)))
    assert found == {"misled": (35, 1, 9, 1), "needle": (35, 35, 0, 0)}


def test_two_alarms_on_the_first_round_are_counted_with_the_clip_and_without():
    found = {(own["arm"], own["task"]): list(own.values())[2:] for own in readings.alarms(RUNS, TASKS)}
    assert found == {
        ("clip", "misled"): ["8 of 9", "0 of 26", "8 of 9", "0 of 26"],
        ("clip", "needle"): ["0 of 0", "34 of 35", "0 of 0", "0 of 35"],
        ("unclipped", "misled"): ["12 of 17", "0 of 18", "12 of 17", "0 of 18"],
        ("unclipped", "needle"): ["3 of 3", "32 of 32", "3 of 3", "32 of 32"],
    }
    k3 = sorted(r["kl"][0] for task in TASKS for r in readings.from_the_best(RUNS, task))
    assert k3[-8] > 1.6 and k3[-9] < 0.9  # any limit between these rings over the same eight


def test_without_a_clip_a_quiet_first_round_is_no_safety():
    lost = [r for r in readings.from_the_best(RUNS, "misled", "unclipped") if r["sampled"][-1] < 0.5]
    assert len(lost) == 17 and sum(r["kl"][0] > readings.FAR for r in lost) == 12
    assert [round(x, 2) for x in sorted(r["kl"][0] for r in lost)[:2]] == [0.03, 0.1]


def test_rounds_of_unclipped_fall_more_often_than_those_of_clip():
    fell = {
        arm: [
            r["sampled"][i + 1] - r["sampled"][i]
            for r in readings.chosen(RUNS, "reported", "misled", arm)
            for i in range(16)
        ]
        for arm in ("clip", "unclipped")
    }
    seen = {arm: (len(own), sum(x < -0.1 for x in own), round(min(own), 2)) for arm, own in fell.items()}
    assert seen == {"clip": (240, 7, -0.33), "unclipped": (240, 22, -0.74)}


def test_over_all_runs_the_alarm_of_the_exercise_rings_over_no_fall():
    seen = readings.rounds_of(readings.chosen(RUNS, "reported", "misled", "clip"))
    fell, rings = seen["change"] < -readings.FALL, seen["clipped"] > 0.1
    assert (int(fell.sum()), int((fell & rings).sum()), int((rings & ~fell).sum())) == (12, 0, 58)
    assert [round(pick(seen["before"][rings]), 2) for pick in (min, max)] == [0.1, 0.64]
    top = seen["before"] >= readings.TOP
    medians = [round(float(np.median(seen["clipped"][top & those])), 4) for those in (fell, ~fell)]
    assert medians == [0.0096, 0.0033]


@cache
def falls(task: str) -> list[dict]:
    """The table of the chapter: four bootstraps a row."""
    return readings.falls(RUNS, [task])


def told(task: str, arm: str, least: str) -> tuple[str, list[str]]:
    """How many rounds fell of those that began at ``least`` or more, and the AUC of each sign, without its interval."""
    (found,) = (one for one in falls(task) if (one["arm"], one["began at"]) == (arm, f"{least} or more"))
    return found["fell"], [found[sign].split(" [")[0] for sign in readings.SIGNS]


def test_pooled_over_a_run_of_clip_logged_numbers_hardly_tell_a_fall_and_near_the_top_they_do():
    assert list(readings.SIGNS)[1:3] == ["clip fraction of it", "k3 of the round before"]
    assert told("misled", "clip", "0.5") == ("12 of 152", ["0.60", "0.58", "0.64", "0.57"])
    assert told("misled", "clip", "0.9") == ("10 of 100", ["0.81", "0.83", "0.69", "0.75"])
    same = readings.matched(readings.chosen(RUNS, "reported", "misled", "clip"))
    assert [round(own, 2) for own in same.values()] == [0.76, 0.80, 0.68, 0.71]


def test_without_a_clip_the_round_before_hardly_warns_and_the_kl_of_the_round_tells():
    assert told("misled", "unclipped", "0.5") == ("21 of 158", ["0.80", "0.66", "0.61", "0.63"])
    assert told("misled", "unclipped", "0.9") == ("12 of 108", ["0.85", "0.65", "0.61", "0.62"])
    assert told("needle", "unclipped", "0.5") == ("9 of 225", ["0.79", "0.68", "0.43", "0.47"])
    assert told("needle", "unclipped", "0.9") == ("9 of 185", ["0.81", "0.74", "0.46", "0.50"])
    assert told("needle", "clip", "0.9") == ("2 of 138", ["too few"] * 4)


def test_near_the_top_falls_follow_a_higher_clip_fraction():
    found = readings.before_a_fall(readings.chosen(RUNS, "reported", "misled", "clip"))
    assert [one["fell"] for one in found] == ["0 of 18", "4 of 49", "6 of 33"]


def test_pairs_of_rounds_are_matched_by_where_they_began():
    """Falls have the higher KL in each phase, and the lower one over both."""
    sampled = [0.1, 0.6, 0.69, 0.6, 0.96, 0.9, 0.96, 0.97]
    kl = [0.0, 5, 6, 5, 2, 0, 0]  # of the rounds to 0.6, 0.69, 0.6 (fell), ...
    run = row(sampled, kl=kl)
    assert readings.matched([run])["k3 after it"] == 1.0
    pooled = readings.follow([run], 0.5)
    assert readings.chance(pooled["k3 after it"][0], pooled["fell"][0]) < 1


def test_the_first_round_of_misled_shows_a_rate_8_times_too_high_and_the_rest_of_the_run_does_not():
    found = {(one["task"], one["rate / best"]): one for one in readings.first_round(RUNS, TASKS)}
    ends = {key: [float(x) for name in NUMBERS for x in one[name].split(" to ")] for key, one in found.items()}
    assert found["misled", "1"]["runs"] == 19 and found["misled", "8"]["runs"] == 4
    assert ends["misled", "1"] == [0.009, 0.049, 0.018, 0.026, 0.94, 0.99, 0.130, 0.170]
    assert ends["misled", "4"] == [0.071, 0.872, 0.048, 0.113, 0.00, 0.99, 0.184, 0.294]
    assert ends["misled", "8"] == [1.609, 2.537, 0.137, 0.191, 0.00, 0.43, 0.165, 0.191]
    assert ends["needle", "1"][2:4] == [0.117, 0.176]  # that of misled at 8 times
    assert min(own[4] for (task, _), own in ends.items() if task == "needle") == 0.93


NUMBERS = ("k3 after round 1", "clip fraction of round 1", "ends", "largest clip fraction")


def test_the_number_of_the_round_before_is_read_one_round_earlier():
    sampled, kl = [0.1, 0.8, 0.6, 0.9, 0.7, 0.9, 0.6, 0.9, 0.5, 0.9, 0.6], [9.0, 0, 9, 0, 9, 0, 9, 0, 9, 0]
    found = readings.falls([row(sampled, kl=kl), row(sampled, kl=kl), row(sampled, arm="unclipped")], ["t"])[0]
    assert found["began at"] == "0.5 or more" and found["fell"] == "10 of 18"
    assert found["k3 of the round before"] == "1.00 [1.00, 1.00]" and found["k3 after it"] == "0.00 [0.00, 0.00]"


def test_rounds_with_a_low_clip_fraction_began_near_the_top():
    seen = readings.rounds_of(readings.chosen(RUNS, "reported", "misled", "clip"))
    low, sure = seen["clipped"] < 0.02, seen["before"] >= readings.LEAST
    assert (low & sure).sum() == 102 and (low & (seen["before"] >= 0.9)).sum() == 97
    assert seen["before"][(seen["clipped"] >= 0.1) & sure].max() < 0.72


def test_a_stop_insures_against_a_rate_four_times_too_high_and_costs_below():
    assert {best_rates([r for r in RUNS if r["role"] == "tuning"])[task, "clip"] for task in TASKS} == {4e-4}
    found = readings.insured(RUNS, TASKS)
    assert [row["rate"] for row in found] == [f"{rate:g}" for rate in RATES]
    span: dict[tuple[str, bool], list[float]] = {}
    for rate, row in zip(RATES, found, strict=True):
        for name in list(row)[1:]:
            span.setdefault((name.split(":")[0], rate >= 1.6e-3), []).append(round(float(row[name]), 2))
    ends = {key: (min(own), max(own)) for key, own in span.items()}
    assert ends == {
        ("misled", False): (-0.09, -0.01),
        ("misled", True): (0.1, 0.51),
        ("needle", False): (-0.12, -0.02),
        ("needle", True): (-0.02, 0.14),
    }
    added = [[round(float(row[f"{task}: clip_stop − clip"]), 2) for row in found] for task in TASKS]
    assert [(min(own[:4]), max(own[:4])) for own in added] == [(-0.05, -0.01), (-0.11, -0.03)]
    assert (min(added[0][4:]), max(added[0][4:])) == (0.14, 0.45)


def test_in_short_both_tasks_have_all_arms_at_their_best_rates():
    found = readings.in_short(RUNS, TASKS)
    assert [row["arm"] for row in found] == ["untrained", *ARMS] * 2
    assert {key: found[8][key] for key in ("speed", "end", "speed against clip", "end against clip")} == {
        "speed": pytest.approx(0.879, abs=5e-4),
        "end": pytest.approx(0.959, abs=5e-4),
        "speed against clip": "+0.061 (+0.043 to +0.079) better",
        "end against clip": "-0.039 (-0.068 to -0.011) worse",
    }
    assert not any(row["speed against clip"] for row in found if row["arm"] in ("untrained", "clip"))
    assert [row["rate"] for row in found[1:5]] == ["0.0004", "0.0004", "0.0008", "0.0008"]
    assert [row["rate"] for row in found[6:]] == ["0.0004", "0.0004", "0.0064", "0.0064"]
    assert [row["updates"] for row in found] == ["", "16", "16", "4", "3", "", "16", "16", "1", "1"]


def test_a_stop_in_two_halves_is_split_at_the_best_rate_of_clip():
    found = readings.in_two_halves(RUNS, TASKS)
    assert [(row["misled"], row["needle"]) for row in found] == [
        ("-0.09 to -0.01", "-0.12 to -0.02"),
        ("+0.10 to +0.51", "-0.02 to +0.14"),
    ]


def test_clip_ends_well_in_each_run_and_falls_less_than_unclipped_at_half_its_rate():
    ends = [one["sampled"][-1] for task in TASKS for one in readings.chosen(RUNS, "reported", task, "clip")]
    assert len(ends) == 30 and min(ends) > 0.94
    clip, half = (
        next(one for one in readings.results(RUNS, "misled") if one["arm"] == arm and rate in one["rate"])
        for arm, rate in (("clip", "0.0004"), ("unclipped", "post hoc"))
    )
    assert (round(clip["worst fall"], 2), round(half["worst fall"], 2)) == (-0.33, -0.49)
    assert round(half["lowest end"], 2) == 0.69
    only = {one["arm"] for one in readings.results(RUNS, "needle", ["unclipped"]) if "post hoc" in one["rate"]}
    assert only == {"unclipped"}


def test_the_rate_of_clip_hardly_matters_on_needle():
    tuned = readings.by_rate(RUNS, "needle", "clip").mean(1)
    assert [round(pick(tuned), 2) for pick in (min, max)] == [0.76, 0.82]


def test_without_its_two_lost_runs_unclipped_has_a_mean_of_78_on_misled():
    kept = [score(r) for r in readings.chosen(RUNS, "reported", "misled", "unclipped") if r["sampled"][-1] > 0.5]
    assert len(kept) == 13 and round(float(np.mean(kept)), 2) == 0.78


def test_no_tuning_run_of_unclipped_had_the_bad_luck_of_two_reported_ones():
    tuned = [score(r) for r in readings.chosen(RUNS, "tuning", "misled", "unclipped") if r["rate"] == 4e-4]
    reported = sorted(score(r) for r in readings.chosen(RUNS, "reported", "misled", "unclipped"))
    assert (
        min(tuned) > 0.79
        and reported[1] < 0.42
        and (round(np.mean(tuned), 2), round(np.mean(reported), 2)) == (0.83, 0.71)
    )


def test_the_live_runs_on_six_seeds():
    found = {(one["arm"], one["seed"]): one for one in readings.live(load_rows("06_live"))}
    to_goal = {arm: [found[arm, seed]["rounds to 0.9"] for seed in range(6)] for arm in ("clip", "unclipped")}
    assert to_goal == {"clip": ["9", "9", "9", "6", "9", "7"], "unclipped": ["4", "never", "6", "6", "7", "9"]}
    assert all(found["unclipped", s]["change of J"] < found["clip", s]["change of J"] for s in range(6))
    worst = {arm: [round(-found[arm, s]["change of J"], 2) for s in range(6)] for arm in to_goal}
    assert {arm: (min(losses), max(losses)) for arm, losses in worst.items()} == {
        "clip": (0.01, 0.24),
        "unclipped": (0.26, 0.54),
    }
    ends = {arm: sorted(found[arm, s]["J at the end"] for s in range(6)) for arm in to_goal}
    assert ends["clip"][0] > 0.94 and sum(J < 0.4 for J in ends["unclipped"]) == 2
    row = found["unclipped", 0]
    assert row["k3 after it"] > 10 * row["as verl logs it"]


def test_the_live_run_that_is_drawn_has_the_lowest_ends_and_a_fall_that_only_the_exact_surrogate_promises():
    rows = load_rows("06_live")
    for arm in ("clip", "unclipped"):
        assert min((r for r in rows if r["arm"] == arm), key=lambda r: r["J"][-1])["seed"] == 1
    found = readings.promises(rows, "unclipped", 1)[9]
    assert [round(x, 2) for x in found.values()] == [10, -1.25, 0.03, -0.44]
    assert [one["round"] for one in readings.promises(rows, "clip", 1) if one["what came"] < -0.05] == [8, 10]


def test_the_exact_surrogate_has_the_sign_of_what_came_and_its_estimate_often_not():
    rows = load_rows("06_live")
    assert readings.right_signs(rows, "promised") == (167, 168)
    assert readings.right_signs(rows, "estimated") == (132, 168)
    fell = [
        (promised, estimated)
        for row in rows
        for promised, estimated, came in zip(row["promised"], row["estimated"], row["change"], strict=True)
        if came < -readings.FALL
    ]
    assert (len(fell), sum(p < 0 for p, _ in fell), sum(e < 0 for _, e in fell)) == (24, 23, 9)
    (broken,) = (
        one
        for seed in range(6)
        for arm in ("clip", "unclipped")
        for one in readings.promises(rows, arm, seed)
        if one["promised"] * one["what came"] < 0
    )
    assert broken["round"] == 5 and broken["promised"] > 0.1 > -0.1 > broken["what came"]
    last = readings.promises(rows, "unclipped", 0)[13]
    assert [round(x, 2) for x in last.values()] == [14, -0.05, -0.51, -0.05]


def test_one_round_on_seven_seeds():
    rows = load_rows("06_one_round")
    ratios = readings.one_round_table(rows, "ratios")
    first = [r["largest"] for r in ratios if (r["rate"], r["updates"]) == (3e-4, 1)]
    assert len(first) == 7 and min(first) > 1.2 and max(first) == first[0] == 3.982
    assert [round(pick(first[1:]), 2) for pick in (min, max)] == [1.24, 1.95]
    carried = [
        r["largest"] for r in readings.one_round_table(rows, "carried") if (r["adam"], r["updates"]) == ("carried", 1)
    ]
    assert [round(pick(carried), 2) for pick in (min, max)] == [1.06, 1.63]
    assert max(r["outside"] for r in ratios if r["rate"] == 1e-6) == 0
    smallest = [r["smallest"] for r in ratios if (r["rate"], r["updates"]) == (3e-4, 1)]
    assert [round(pick(smallest), 4) for pick in (min, max)] == [0.0027, 0.7642]


ARM_ROWS = readings.one_round_table(load_rows("06_one_round"), "arms")


def on_how_many(test) -> int:
    """On how many of the seven seeds something is true of the row of each arm, by its name."""
    seeds = [{r["arm"]: r for r in ARM_ROWS if r["seed"] == seed} for seed in range(7)]
    return sum(test(own) for own in seeds)


def test_k3_on_the_tokens_just_trained_on_is_off_both_ways():
    spans = {}
    for exact, k3 in (("kl", "k3"), ("kl_reference", "k3_reference")):
        share = [r[k3] / r[exact] for r in ARM_ROWS if r[exact]]
        spans[exact] = (round(min(share), 2), round(max(share), 2))
    assert spans == {"kl": (0.36, 2.05), "kl_reference": (0.26, 1.05)}
    ours = {r["arm"]: [round(r[k], 2) for k in ("kl_reference", "k3_reference")] for r in ARM_ROWS if r["seed"] == 0}
    assert (ours["before"], ours["clip"], ours["unclipped"]) == ([0.51, 0.46], [1.08, 0.47], [2.92, 0.9])


def test_of_two_runs_k3_mostly_knows_which_one_is_farther_from_the_old_policy():
    off = [(r["kl"], r["k3"]) for r in ARM_ROWS if r["kl"]]
    alike = [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in combinations(off, 2)]
    assert len(alike) == 1176 and round(100 * np.mean(alike)) == 92


def test_what_k3_does_not_see_and_what_rules_it():
    more = {(r["seed"], r["arm"]): r for r in readings.one_round_table(load_rows("06_one_round"), "more arms")}
    assert [round(more[0, arm]["seldom"], 2) for arm in ("before", "unclipped")] == [0.01, 0.61]
    before = more[7, "before"]
    assert [round(before[key], 2) for key in ("k3_reference", "kl_reference", "one_token")] == [2.85, 0.87, 0.74]
    clip, both = ([more[seed, arm] for seed in (7, 8, 9)] for arm in ("clip", "clip_penalty"))
    assert all(a["kl_reference"] > b["kl_reference"] for a, b in zip(clip, both, strict=True))
    assert [a["J"] > b["J"] for a, b in zip(clip, both, strict=True)] == [False, True, True]


def test_what_each_tool_does_to_a_round_by_exact_kl():
    for arm in ("clip", "stop"):
        assert on_how_many(lambda own, arm=arm: own[arm]["kl"] < own["unclipped"]["kl"]) == 7
        assert on_how_many(lambda own, arm=arm: own[arm]["kl_reference"] < own["penalty"]["kl_reference"]) == 7
    above = {
        arm: on_how_many(lambda own, arm=arm: own[arm]["kl_reference"] > own["before"]["kl_reference"])
        for arm in ("clip", "penalty", "strong_penalty")
    }
    assert above == {"clip": 6, "penalty": 7, "strong_penalty": 1}
    assert on_how_many(lambda own: own["penalty"]["kl_reference"] < own["unclipped"]["kl_reference"]) == 5
    for key in ("kl_reference", "J"):
        assert on_how_many(lambda own, key=key: own["clip_penalty"][key] < own["clip"][key]) == 7
    assert on_how_many(lambda own: own["strong_penalty"]["J"] < own["before"]["J"]) == 7
    assert on_how_many(lambda own: own["unclipped"]["J"] > own["clip"]["J"]) == 5
    assert on_how_many(lambda own: max(own, key=lambda arm: own[arm]["J"]) == "clip") == 1  # the chapter's round
    stops = [r for r in ARM_ROWS if "stop" in r["arm"]]
    assert all(0.02 < r["k3"] < 0.05 and r["updates"] <= 5 for r in stops)


def test_a_carried_adam_steps_shorter_at_first_than_a_new_one():
    rows = [r for r in readings.one_round_table(load_rows("06_one_round"), "carried") if r["updates"] == 1]
    new, carried = ([r for r in rows if r["adam"] == adam] for adam in ("new", "carried"))
    assert all(a["outside"] > b["outside"] for a, b in zip(new, carried, strict=True))
    assert sum(r["outside"] > 0 for r in carried) == 4 and max(r["outside"] for r in carried) < 0.03
    assert len(new) == 7 and max(r["outside"] for r in new) < 0.09


def test_with_adam_its_momentum_alone_carries_closed_tokens_on():
    drift: dict[str, list[dict]] = {}
    for r in readings.one_round_table(load_rows("06_one_round"), "drift"):
        drift.setdefault(r["way"], []).append(r)
    on = {way: sum(r["on"] for r in rows) for way, rows in drift.items()}
    assert list(on.values()) == [92, 92, 93, 78, 63]  # in the order of WAYS
    assert {sum(r["closed"] for r in rows) for rows in drift.values()} == {93}
    further = {way: [r["further"] for r in rows] for way, rows in drift.items()}
    assert all(a > b > 0 for a, b in zip(further["memory alone"], further["Adam"], strict=True))
    assert all(0.9 * b < a <= b for a, b in zip(further["Adam, kept shut"], further["Adam"], strict=True))
    assert sum(x < 0 for x in further["no momentum, kept shut"]) == 4


def test_trained_critics_hardly_see_errors_and_a_small_lambda_pays_for_it():
    rows = load_rows("06_critics")
    exact = next(r for r in rows if r["critic"] == "exact")
    assert exact["wrong"] == 0 and min(exact[f"lam {lam}"] for lam in ("0", "0.5", "0.95", "1")) > 0.99
    for updates in (320, 2080):
        found = {
            key: np.mean([r[key] for r in rows if r["updates"] == updates]) for key in exact if key not in ("critic",)
        }
        assert [round(found[key], 2) for key in ("right", "wrong")] == ([0.36, 0.3] if updates == 320 else [0.41, 0.29])
        assert found["lam 1"] > 0.98 and found["lam 0.5"] < 0.72 and found["lam 0"] < 0.6
