"""The loops of chapter 01 do what it says of them, and its stored tables hold its sentences."""

import numpy as np
import pytest
import torch

from rlnotes.chapters.c01 import old_samples, one_rollout, readings
from rlnotes.estimators import importance
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.trainer import Trainer
from rlnotes.studies import load_rows

each_seed = pytest.mark.parametrize("seed", [0, 1, 2])


@each_seed
def test_chapter_01_few_updates_on_one_rollout_and_its_columns(seed: int):
    made = one_rollout.run("misled", "weights", 4e-4, seed, updates=4)
    stored = readings.runs("misled")[seed]
    for column in ("J", "own_estimate", "held_estimate", "own_ess"):
        assert made[column] == pytest.approx(stored[column][:2], abs=0.01)
    assert made["own_ess"][0] == pytest.approx(1, abs=1e-3) and made["held_weight"][0] == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_chapter_01_its_loop_is_the_stored_run():
    made = one_rollout.run("sort", "weights", 3e-4, readings.SHOWN)
    for column in ("J", "J_own", "own_estimate", "held_estimate"):  # another processor adds in another order
        assert made[column][-1] == pytest.approx(readings.the_run("sort")[column][-1], abs=0.05)


@pytest.mark.slow
@each_seed
def test_chapter_01_a_few_rollouts_teach_reverse_when_the_weights_are_watched(seed: int):
    trainer = Trainer(TrainConfig(task="reverse", size=8, seed=seed))
    before = trainer.evaluate(1024)
    rows = list(old_samples.train(trainer, updates=80, keep=0.5))
    assert before < 0.45
    assert trainer.evaluate(1024) >= 0.9
    assert rows[-1]["rollouts"] <= 4
    assert min(row["size"] for row in rows) < 0.5  # else there was nothing to watch


@pytest.mark.slow
@each_seed
def test_chapter_01_on_sort_others_are_right_about_the_policy_and_its_own_rollout_is_not(seed: int):
    sorter = Trainer(TrainConfig(task="sort", size=8, seed=seed))
    *_, last = old_samples.train(sorter, updates=60, keep=0.0, rate=3e-4)
    others = old_samples.held_out(sorter.model, "sort", seed, 20)
    truth = sorter.evaluate(2048, "train")
    assert last["estimate"] > truth + 0.15
    assert abs(others["held_out_20"] - truth) < 0.05
    assert others["held_out_20_size"] < last["size"] / 2


def test_chapter_01_the_starts_are_as_the_page_says():
    greedy = SamplingTransform(temperature=0)
    for task, low, high in (("sort", 0.94, 0.97), ("misled", 0.03, 0.1)):
        start = Trainer(TrainConfig(task=task, size=one_rollout.SIZES[task], seed=0))
        assert low <= start.evaluate(512, transform=greedy) <= high
        made = one_rollout.one_rollout(task, 0)
        assert made.J(made.policy, made.new_prompts) == pytest.approx(start.evaluate(1024), abs=0.05)


def test_chapter_01_the_truth_is_the_chance_of_the_right_answer():
    made = one_rollout.one_rollout("misled", 3)
    generator = torch.Generator().manual_seed(0)
    task, sampler = made.task, one_rollout.Sampler(made.task.max_response_length, made.task.vocabulary.eos)
    rollout = sampler.sample(made.policy, made.rollout.prompts, 64, generator)
    assert task.reward(rollout).mean().item() == pytest.approx(made.J(made.policy, made.rollout.prompts), abs=0.02)


def test_chapter_01_a_held_out_rollout_has_other_prompts_and_its_estimate_is_the_packages():
    made = one_rollout.one_rollout("sort", 0)
    assert not {*map(tuple, made.rollout.prompts.tolist())} & {*map(tuple, made.held_out.prompts.tolist())}
    found = one_rollout.says(made.policy, made.held_out, made.R(made.held_out))
    with torch.no_grad():
        log_w = one_rollout.log_weights(made.policy, made.held_out)
    assert found["estimate"] == pytest.approx(
        importance.importance_sampling(log_w, made.R(made.held_out)).mean.item(), abs=1e-5
    )


# --- The stored table


def test_chapter_01_the_study_is_whole():
    found = [(run["task"], run["arm"], run["rate"], run["seed"]) for run in readings.every_run()]
    assert len({*found}) == len(found) == 48
    assert all(len(run["J"]) == 16 and run["update"][-1] == 60 for run in readings.every_run())


def test_chapter_01_patience_goes_back_to_the_best_look():
    assert readings.patient(np.array([0.1, 0.3, 0.2, 0.25, 0.2]), patience=2) == (3, 1)
    assert readings.patient(np.array([0.1, 0.2, 0.3]), patience=2) == (2, 2)
    assert readings.patient(np.array([0.3, 0.2, 0.1, 0.9]), patience=2) == (2, 0), "what comes later is not seen"


def test_chapter_01_two_ways_to_flatter():
    rows = {(row["task"], row["objective"]): row for row in readings.parts()}
    sort, misled = rows["sort", "weights"], rows["misled", "weights"]
    assert sort["promised too much"] == pytest.approx(0.28, abs=0.005)
    assert sort["its prompts are answered better"] == pytest.approx(0.27, abs=0.005)
    for arm in one_rollout.ARMS:
        assert rows["sort", arm]["its prompts are answered better"] > 0.95 * rows["sort", arm]["promised too much"]
        assert rows["misled", arm]["its prompts are answered better"] < 0.36 * rows["misled", arm]["promised too much"]
    ends = [run["own_estimate"][-1] for run in readings.runs("misled")]
    assert min(ends) == pytest.approx(0.17, abs=0.005) and max(ends) == pytest.approx(1.31, abs=0.005)
    left = [run["own_estimate"][-1] - run["J_own"][-1] for run in readings.runs("misled")]
    assert np.std(left, ddof=1) > misled["what is left"]


def test_chapter_01_the_run_of_the_opening():
    sort, misled = (readings.the_run(task) for task in ("sort", "misled"))
    found = [sort[name][-1] for name in ("own_estimate", "J", "held_estimate", "held_error", "J_own")]
    assert found == pytest.approx([0.84, 0.50, 0.42, 0.07, 0.78], abs=0.005)
    assert sort["own_estimate"][0] == pytest.approx(0.43, abs=0.005)
    assert misled["own_estimate"][-1] == pytest.approx(0.24, abs=0.005) and abs(misled["J"][-1] - 0.24) < 0.03


def test_chapter_01_a_held_out_rollout_is_the_better_witness_and_a_noisy_one():
    within = {
        task: sum(
            abs(run["held_estimate"][-1] - run["J"][-1]) < 2 * run["held_error"][-1]
            for run in readings.every_run()
            if run["task"] == task
        )
        for task in readings.TASKS
    }
    assert within == {"sort": 21, "misled": 17}
    low = np.array([run["held_weight"][-1] < 0.5 for run in readings.every_run()])
    off = np.array([run["held_estimate"][-1] - run["J"][-1] for run in readings.every_run()])
    assert (low.sum(), (off[low] < 0).sum(), (off[~low] < 0).sum()) == (15, 13, 17)
    assert np.median(off[low]) == pytest.approx(-0.07, abs=0.005) and abs(np.median(off[~low])) < 0.005
    gained = np.array([run["J"][-1] - run["J"][0] for run in readings.every_run()])
    assert low[np.argsort(-gained)[:3]].all(), "the three that gained most are among them"


def test_chapter_01_what_the_rules_are_worth():
    rows = {row["rule"]: row for row in readings.rules()}
    small, large = (
        {name: row[f"{speed}: less 60 updates"] or "" for name, row in rows.items()} for speed in readings.SPEEDS
    )
    for name, value in (
        ("4 updates", -0.105),
        ("16 updates", -0.074),
        ("own ESS below half", -0.062),
        ("held-out ESS below half", -0.079),
    ):
        assert small[name].startswith(f"{value:+.3f}") and small[name].endswith("worse")
        assert large[name].endswith("not told")
    own = "own estimate, best weights"
    assert small[own].endswith("within 0.02 of each other") and small[readings.HELD_OUT].endswith("not told")
    assert large[own] == "+0.062 [+0.025, +0.100]  better"
    assert large[readings.HELD_OUT] == "+0.065 [+0.008, +0.123]  better"
    assert max(rows[f"{n} updates"]["large rate: gain"] for n in (4, 16, 60)) < 0.014
    assert rows[own]["below the start"] == "4 of 48" and rows[readings.HELD_OUT]["below the start"] == "0 of 48"
    below = [run["task"] for run in readings.every_run() if readings.gains(readings.RULES[own], (run,))[0] < -0.02]
    assert below == ["sort"] * 4
    assert readings.less(readings.HELD_OUT, own) == "-0.003 [-0.032, +0.027]  not told"
    best = [4 * int(run["J"].argmax()) for run in readings.every_run()]
    assert min(best) == 0 and max(best) == 60


def test_chapter_01_the_samples_of_a_held_out_rollout_would_have_taught():
    sort, misled = readings.cost()
    assert sort["both less held out"] == "+0.167 [+0.105, +0.228]  better"
    assert (sort["one trained on, one held out"], sort["both trained on"]) == pytest.approx((0.073, 0.240), abs=5e-4)
    assert misled["both less held out"] == "+0.162 [-0.054, +0.377]  not told"


def test_chapter_01_which_number_notices_the_flattery():
    ess, weight, held = readings.alarms()
    assert [*ess.values()][1:] == ["20 of 23", "1 of 1", "7 of 7", "17 of 17"]
    assert [*held.values()][1:] == ["19 of 23", "0 of 1", "3 of 7", "0 of 17"]
    assert weight["sort: flattered"] == "0 of 23"


# --- The older study


def ends(task: str, arm: str, column: str) -> list[float]:
    return [row[column] for row in load_rows("01_old_samples") if (row["task"], row["arm"]) == (task, arm)]


def test_chapter_01_the_table_of_seeds_is_whole_and_says_what_the_page_says():
    rows = [(row["task"], row["arm"], row["seed"]) for row in load_rows("01_old_samples")]
    arms = old_samples.ARMS.items()
    assert rows == [(task, arm, seed) for task, own in arms for arm in own for seed in old_samples.SEEDS]
    assert min(ends("reverse", "never", "fresh")) > 0.97
    own = ends("reverse", "never", "own")
    assert sum(estimate > 1 for estimate in own) == 2 and min(own) > 0.82 and max(own) < 1.11
    truncated = ends("reverse", "never, clipped at 2", "fresh")
    assert min(truncated) > 0.775 and max(truncated) < 0.835
    assert max(ends("reverse", "never, self-normalised", "fresh")) == 0.0
    assert max(ends("reverse", "never, self-normalised", "weight")) < 0.035
    rescued = ends("reverse", "below one half, self-normalised", "fresh")
    assert min(rescued) > 0.19 and max(rescued) < 0.87
    assert min(ends("reverse", "below one half", "fresh")) > 0.95
    truth, others = ends("sort", "never", "fresh"), ends("sort", "never", "held_out_20")
    assert min(ends("sort", "never", "own")) > 0.72 and max(truth) < 0.54
    assert max(abs(a - b) for a, b in zip(truth, others, strict=True)) < 0.03
    renewed = ends("sort", "below one half", "fresh")
    assert -0.11 < min(a - b for a, b in zip(renewed, truth, strict=True)) < 0
    assert 0 < max(a - b for a, b in zip(renewed, truth, strict=True)) < 0.06
    assert min(ends("sort", "every update", "fresh")) > max(renewed + truth) + 0.05


@pytest.mark.slow
def test_chapter_01_the_table_of_seeds_can_be_made_again():
    (stored,) = (
        row
        for row in load_rows("01_old_samples")
        if (row["task"], row["arm"], row["seed"]) == ("sort", "below one half", 3)
    )
    found = old_samples.run("sort", "below one half", 3)
    assert found.keys() == stored.keys()
    for column in ("own", "fresh", "held_out_20"):  # another processor adds in another order
        assert found[column] == pytest.approx(stored[column], abs=0.05)
