"""Chapter 00: its run is the stored one, and its tables say what the page says of them."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
import torch

from rlnotes.chapters.c00 import readings
from rlnotes.chapters.c00.causes import FALLS
from rlnotes.chapters.c00.promises import CLIP, RATES, SEEDS, UPDATES, Run
from rlnotes.chapters.explorers import EXPLORERS
from rlnotes.studies.tables import load_rows

SLOW, MIDDLE, FAST = RATES


def test_chapter_00_a_stored_run_is_made_again():
    torch.set_num_threads(1)
    for clip, rate, seed in ((None, MIDDLE, 0), (CLIP, FAST, 3)):
        run, stored = Run(rate, seed, clip or inf), readings.arms()[clip, rate][seed]
        assert run.J() == pytest.approx(stored["start"], rel=1e-3)
        rollout, A, promised = run.round()
        assert promised == pytest.approx(stored["promised"][0], rel=1e-3)
        assert run.J() == pytest.approx(stored["J"][0], rel=1e-3)
        assert A.shape == (len(rollout.mask), 1) and UPDATES == 8
        assert A.view(-1, 16).sum(1).abs().max() < 1e-5


def test_chapter_00_what_it_says_of_its_run():
    run = readings.arms()[None, MIDDLE][0]
    assert (run["true"][5], run["promised"][5]) == (pytest.approx(-0.48, abs=5e-3), pytest.approx(0.014, abs=5e-4))
    assert run["reward"][5] == pytest.approx(0.97, abs=5e-3) and run["reward"][6] == pytest.approx(0.44, abs=5e-3)
    assert run["J"][-1] > 0.99


def test_chapter_00_what_it_says_of_ten_seeds():
    arms = readings.arms()
    assert all([run["seed"] for run in each] == [*SEEDS] for each in arms.values())
    good = {arm: sum(run["J"][-1] > 0.98 for run in each) for arm, each in arms.items()}
    assert [good[None, rate] for rate in RATES] == [10, 8, 0]
    rows = readings.by_rate()
    assert [row["of these lost 0.1 or more"] for row in rows] == [1, 6, 4, 0, 2, 24]
    assert readings.promised() == (419, 0, 10)
    words = [readings.clip_less_none(rate) for rate in RATES]
    assert [one.word for one in words] == ["not told", "not told", "better"]
    assert np.round(words[-1].difference, 2).tolist() == [0.68, 0.41, 0.95]
    below = sum(run["J"][-1] < run["start"] for run in readings.runs())
    counts = [(row["as printed"], row["beyond noise"]) for row in readings.alarms()]
    assert counts == [("12 of 12", "9 of 12"), ("0 of 48", "0 of 48")] and below == 12
    assert max(run["J"][-1] for run in arms[None, FAST]) < 0.01


def test_chapter_00_what_its_deeper_page_says_of_the_falls():
    arms = readings.arms()[None, MIDDLE]
    fell = [(run["seed"], n) for run in arms for n, change in enumerate(run["true"], 1) if change < -readings.LOST]
    assert fell == [*FALLS.items()]
    rows = load_rows("00_causes")
    for row in rows:
        run = arms[row["seed"]]
        assert row["true"] == pytest.approx(run["true"][row["round"] - 1], abs=2e-4)
        assert row["promised"] == pytest.approx(run["promised"][row["round"] - 1], rel=2e-3)
    assert sum(row["fresh"] < row["promised"] for row in rows) == 5
    assert [row["seed"] for row in rows if row["fresh"] < -1.96 * row["error"]] == [0]
    assert [row["seed"] for row in rows if row["memory"] < -0.33] == [0, 2, 7, 9]
    least = {row["seed"]: (row["memory"], row["true"]) for row in rows}
    assert np.round(least[3], 2).tolist() == [-0.1, -0.14] and np.round(least[6], 2).tolist() == [-0.05, -0.47]
    ends = {run["seed"]: (min(run["true"]), run["J"][-1]) for run in arms}
    assert all(ends[seed][0] < -0.39 and ends[seed][1] > 0.99 for seed in (0, 2))
    dead = readings.arms()[None, FAST]
    assert [run["seed"] for run in dead if max(run["reward"]) > 0.3] == [5]


def test_chapter_00_exercise_3_has_one_answer():
    rows = readings.logged()
    drops = [before["reward"] - after["reward"] for before, after in pairwise(rows)]
    assert int(np.argmax(drops)) + 1 == readings.fell_after() == 3
    assert sum(drop > 0.05 for drop in drops) == 1


def test_chapter_00_the_step_of_the_quiz():
    predicted, true = (y[30] for _, _, y in EXPLORERS["surrogate"].curves(step=0.3, damage=5, rare=0.01)[0])
    assert (round(float(predicted), 2), round(float(true), 2)) == (0.28, -0.26)
