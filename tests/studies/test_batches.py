"""Runs of a comparison in batches: which go together, and that their rows are those of runs alone."""

import csv
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import GRPO, RECIPES, Choices
from rlnotes.studies import runner
from rlnotes.studies.arena import arena
from rlnotes.studies.batches import MOST_RUNS, batches, run_batch
from rlnotes.studies.run import run
from rlnotes.studies.runner import compare
from rlnotes.studies.study import Method, Study
from tests.lm.breaking import breaking
from tests.studies.rows import same

pytestmark = pytest.mark.usefixtures("_in_this_process")

STUDY = Study(
    question="is one faster?",
    base=TrainConfig(task="sort", size=8, prompts=2, group_size=4),
    methods={
        "grpo": Method(GRPO),
        "slow grpo": Method(GRPO, dict(learning_rate=1e-4, gradient_clip=0.02)),
        "dppo_tv": Method(RECIPES["dppo_tv"], dict(learning_rate=3e-4), tokens=150),
    },
    tokens=300,
    evaluate_every=2,
    prompts_evaluated=16,
    record_every=2,
)
RUNS = [(method, seed) for method in STUDY.methods for seed in (0, 1)]


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_rows_of_a_batch_are_those_of_the_runs_alone():
    found = run_batch(STUDY, RUNS)
    for one, rows in zip(RUNS, found, strict=True):
        same(rows, run(STUDY, *one))
    ends = {rows[-1]["step"] for rows in found}
    assert len(ends) > 1  # the batch went on for those that had not ended


def with_breaking(after: int) -> Study:
    return replace(STUDY, methods={**STUDY.methods, "breaking": Method(breaking(after))})


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_a_lost_run_ends_with_accuracy_0_and_the_others_go_on():
    *others, lost = run_batch(with_breaking(after=3), [*RUNS[:3], ("breaking", 0)])
    same(lost, run(with_breaking(after=3), "breaking", 0))
    assert [row["accuracy"] for row in lost[-2:]] == [0.0, 0.0] and lost[-1]["tokens"] == 300
    for one, rows in zip(RUNS, others, strict=False):
        same(rows, run(STUDY, *one))


def test_a_run_that_cannot_take_one_step_says_so():
    with pytest.raises(ValueError, match=r"breaking.*the settings are wrong"):
        run_batch(with_breaking(after=0), [("grpo", 0), ("breaking", 0)])


def asking(ratio: Tensor, advantages: Tensor) -> Tensor:
    """A gate that reads a value, which vectorised work cannot."""
    return ratio * advantages if bool((ratio > 0).all()) else ratio


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_an_objective_that_reads_values_is_made_one_by_one():
    study = replace(STUDY, methods={**STUDY.methods, "asking": Method(Choices(gate=asking))})
    runs = [("grpo", 0), ("asking", 0)]
    with pytest.warns(UserWarning, match=r"'grpo', 0.* to .*'asking', 0.* are made one by one: .*vmap"):
        found = run_batch(study, runs)
    assert [row.get("reward") for row in found[1]] == [row.get("reward") for row in run(study, "asking", 0)]


def on_a_gpu(study: Study) -> Study:
    return replace(study, base=replace(study.base, device="cuda"))


def test_on_a_cpu_every_run_is_by_itself_in_the_order_in_which_it_is_due():
    assert batches(STUDY, RUNS[::-1]) == [[one] for one in RUNS[::-1]]


def test_on_a_gpu_runs_of_one_task_go_together_and_those_of_one_objective_stand_side_by_side():
    study = arena(("grpo", "trm"), ("sort", "sort-int4", "needle"), device="cuda")
    due = [(method, seed) for seed in (100, 101) for method in study.methods]
    found = batches(study, due)
    assert [len(batch) for batch in found] == [12, 12, 12]
    assert sorted(one for batch in found for one in batch) == sorted(due)
    for batch, task in zip(found, ("sort", "sort-int4", "needle"), strict=True):
        labels = [study.methods[method].labels for method, _ in batch]
        assert {one["task"] for one in labels} == {task}
        assert [one["recipe"] for one in labels] == ["grpo"] * 6 + ["trm"] * 6


@pytest.mark.parametrize(("changes", "sizes"), [({}, [50, 50, 50]), (dict(prompts_evaluated=1000), [50, 50, 50])])
def test_no_batch_is_larger_than_the_limits(changes: dict[str, Any], sizes: list[int]):
    study = on_a_gpu(replace(STUDY, **changes))
    found = batches(study, [("grpo", seed) for seed in range(150)])
    assert [len(batch) for batch in found] == sizes
    assert max(sizes) <= MOST_RUNS
    large = replace(study, base=replace(study.base, prompts=200, group_size=16))  # 3200 responses, of at most 60 000
    assert max(map(len, batches(large, [("grpo", seed) for seed in range(40)]))) <= 60_000 // 3200


def test_runs_that_cannot_be_in_a_batch_are_made_one_by_one_and_a_warning_names_the_setting():
    study = arena(("grpo", "dapo"), ("sort",), device="cuda")
    due = [(method, 100) for method in study.methods]
    with pytest.warns(UserWarning, match="dapo, sort 5e-5, .* are made one by one: .*dynamic_sampling"):
        found = batches(study, due)
    assert [len(batch) for batch in found] == [3, 1, 1, 1]


def all_together(comparison: Study, due: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    return [due] if due else []


def test_a_table_takes_each_batch_when_it_has_ended_and_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = tmp_path / "a.csv"
    assert list(compare(STUDY, tmp_path / "b.csv", seeds=1))
    monkeypatch.setattr(runner, "batches", all_together)
    assert sorted(compare(STUDY, table, seeds=1)) == sorted((method, 0) for method in STUDY.methods)
    assert list(compare(STUDY, table, seeds=1)) == []
    assert sorted(compare(STUDY, table, seeds=2)) == sorted((method, 1) for method in STUDY.methods)
    assert list(compare(STUDY, table, seeds=2)) == []
    with table.open(encoding="utf-8") as together, (tmp_path / "b.csv").open(encoding="utf-8") as alone:
        assert next(csv.reader(together)) == next(csv.reader(alone))
        assert {row[0] for row in csv.reader(together)} == set(STUDY.methods)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("task", ["needle", "sort-int4", "sort-stale"])
def test_on_a_gpu_the_rows_of_a_batch_are_those_of_the_runs_alone(task: str):
    study = arena(("grpo", "dppo_tv"), (task,), (5e-5,), tokens=2000, device="cuda")
    runs = [(method, seed) for method in study.methods for seed in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch,) = batches(study, runs)
        found = run_batch(study, batch)
    for one, rows in zip(batch, found, strict=True):
        own = run(study, *one)
        assert [row["step"] for row in rows] == [row["step"] for row in own]
        assert rows[1]["tokens"] == own[1]["tokens"] and rows[1]["reward"] == pytest.approx(own[1]["reward"], abs=0.02)
