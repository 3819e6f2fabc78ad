"""The study of a real model: its order, its table from logs, and what is said of it. No model is needed to judge it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.studies import real
from rlnotes.studies.tables import read_table

BASE = replace(real.BASE, device="cpu")


def write_log(out: Path, arm: str, seed: int, accuracies: list[float], ended: bool = True) -> None:
    """A log of steps with a reward each, and an accuracy."""
    lines = [
        dict(phase=1, step=i + 1, tokens=100 * (i + 1) + seed, reward=0.5, accuracy=one, greedy=one, seconds=2.0)
        | dict(tokens_per_second=10.0)
        for i, one in enumerate(accuracies)
    ]
    lines[0] |= dict(start_accuracy=0.125, start_greedy=0.25)
    end = dict(ended=True, clipped=[dict(sign="+", token=" =", shown=9, clipped=3, probability=0.1, entropy=1.0)])
    path = real.log_of(out, arm, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(line)}\n" for line in [*lines, *([end] if ended else [])])
    path.write_text(text, encoding="utf-8")


def test_the_table_holds_the_runs_that_are_whole(tmp_path: Path):
    for seed in range(3):
        write_log(tmp_path, "pg_is", seed, [0.2, 0.5])
        write_log(tmp_path, "dppo_tv", seed, [0.3, 0.7 + seed / 100])
    write_log(tmp_path, "grpo", 0, [0.9], ended=False)
    text, note = real.table(tmp_path, BASE, 3)
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    (tmp_path / "t.json").write_text(json.dumps(note), encoding="utf-8")
    table = read_table("t", tmp_path / "t.csv", tmp_path / "t.json")
    assert list(table.rows) == ["pg_is", "dppo_tv"] and table.budget("pg_is") == 200
    assert table.start("dppo_tv", "accuracy").tolist() == [0.125] * 3
    assert table.last("dppo_tv", "accuracy", points=1).tolist() == [0.7, 0.71, 0.72]
    assert table.labels["dppo_tv"] == dict(recipe="dppo_tv", task="add", rollout="none", rate="1e-05")
    assert {one["token"] for one in note["clipped"]["pg_is"]} == {" ="}


def test_verdicts_compare_with_the_first_of_a_kind_seed_by_seed(tmp_path: Path):
    for seed in range(3):
        write_log(tmp_path, "alone", seed, [0.2] * 5 + [0.8, 0.8 if seed == 1 else 0.9])
        write_log(tmp_path, "pg_is, int4", seed, [0.5 + seed / 10])
        write_log(tmp_path, "minirl, int4", seed, [0.7 + seed / 10])
        write_log(tmp_path, "grpo, int4", seed, [0.5 - seed / 10])
    said = list(real.verdicts(tmp_path, 3))
    assert said[:2] == [
        "85% sampled after 14.0, no, 14.0 seconds of steps; median of 3 seeds 14.0",
        "10 tokens a second sampled",
    ]
    assert any(line.startswith("minirl, int4: 0.700, 0.800, 0.900") and line.endswith("better") for line in said)
    assert any(line.startswith("grpo, int4") and line.endswith("not told") for line in said)


def test_each_run_is_made_once_and_whole_seeds_come_first():
    due = list(real.jobs(5))
    assert len(due) == len(set(due)) and {arm for arm, _ in due} == {*real.ARMS} - {"alone"}
    firsts = [seed for arm, seed in due if arm in real.OBJECTIVES]
    assert firsts == sorted(firsts) and len(firsts) == 25
    assert due.index(("grpo, int4", 0)) < due.index(("pg_is", 1))


@pytest.mark.parametrize(("accuracies", "found"), [([0.2, 0.9], 4.0), ([0.2, 0.5], None)])
def test_time_to_the_goal(accuracies: list[float], found: float | None):
    assert real.to_goal([dict(step=i, seconds=2.0, accuracy=one) for i, one in enumerate(accuracies)]) == found


def test_every_arm_has_settings_that_can_be():
    for arm in real.ARMS.values():
        replace(BASE, **arm.changes)


def test_a_folder_has_runs_of_one_setting(tmp_path: Path):
    real.claim(tmp_path, real.BASE)
    real.claim(tmp_path, real.BASE)
    with pytest.raises(ValueError, match="other settings"):
        real.claim(tmp_path, replace(real.BASE, prompts=4))
