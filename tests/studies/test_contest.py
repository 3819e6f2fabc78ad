"""Contests: grids that are widened, arms that are always there, starts as clusters, and the table of results."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlnotes.chapters.studies import COMPARISONS
from rlnotes.gpu.batched import alone
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import GRPO
from rlnotes.objectives.gates import Clip, no_gate
from rlnotes.studies import judge, read_table, runner
from rlnotes.studies.batches import batches, run_batch
from rlnotes.studies.contest import COLUMNS, MARGIN, TASKS, UNCLIPPED, UNTRAINED, contest, on, results, widened
from rlnotes.studies.run import run
from rlnotes.studies.runner import append, begin, hold, missing
from rlnotes.studies.study import Setting, Study, compared, crossed, describe
from tests.studies.rows import same

STUDY = contest("is it?", ("pg_is",), {"misled": Setting(dict(task="misled"))}, tokens=100, margin=0.2)
BEST = {"grpo": 2e-4, UNCLIPPED: 1.6e-3, "pg_is": 1.0}  # inside the grid, beyond it, and beyond all


def made(monkeypatch: pytest.MonkeyPatch, table: Path, level: Callable[[str, int], float]) -> list[tuple[str, int]]:
    """Let a run's accuracy be highest at its objective's best rate, and ``level`` there. Returns who is asked for."""
    asked: list[tuple[str, int]] = []

    def follow(study, table, seeds, workers, reported=None, tuned=None, pool=None):
        begin(study, table)
        for name, seed in missing(table, study, seeds, reported, tuned):
            labels = study.methods[name].labels
            away = abs(np.log2(float(labels["rate"]) / BEST[labels["recipe"]]))
            end = level(labels["recipe"], seed) / (1 + away)
            rows = [
                dict(step=0, tokens=0, accuracy=0.1, greedy=0.05),
                dict(step=2, tokens=50, accuracy=end, greedy=end),
            ]
            append(study, table, name, seed, [*rows, dict(step=4, tokens=100, accuracy=end, greedy=end)])
            asked.append((name, seed))

    monkeypatch.setattr(runner, "follow", follow)
    hold(STUDY, table, seeds=6)
    return asked


def test_a_grid_is_widened_until_the_best_is_inside_and_a_rate_at_an_end_is_told(monkeypatch, tmp_path: Path):
    table = tmp_path / "t.csv"
    asked = made(
        monkeypatch, table, lambda recipe, seed: dict(grpo=0.5, unclipped=0.7, pg_is=0.6)[recipe] + 0.01 * seed % 2
    )
    tried = {
        recipe: [name.split()[-1] for name, seed in asked if seed == 100 and name.startswith(recipe)] for recipe in BEST
    }
    assert tried["grpo"] == ["1e-4", "2e-4", "4e-4", "8e-4"]
    assert tried[UNCLIPPED] == ["1e-4", "2e-4", "4e-4", "8e-4", "1.6e-3", "3.2e-3"]
    assert tried["pg_is"][-1] == "2.56e-2"
    reported = {name for name, seed in asked if seed < 100}
    assert reported == {"grpo, misled 2e-4", "unclipped, misled 1.6e-3", "pg_is, misled 2.56e-2"}
    assert sum(seed < 100 for _, seed in asked) == 18 and not {*range(6)} & {*STUDY.tuning_seeds}
    assert made(monkeypatch, table, lambda *_: 0.0) == []  # nothing is made twice
    rows = {row["method"]: row for row in results(read_table("t", table, table.with_suffix(".json")))}
    assert list(rows) == [UNTRAINED, "grpo", UNCLIPPED, "pg_is"]
    assert [row["start, greedy"] for row in rows.values()] == pytest.approx([0.05] * 4)
    assert [row["rate"] for row in rows.values()] == ["", "2e-4", "1.6e-3", "2.56e-2, at an end"]
    words = [row["less grpo"].split("]")[-1].strip() for row in rows.values()]
    assert words == ["worse", "", "within 0.2 of each other", "worse"]


def test_runs_that_died_are_counted_and_runs_of_one_start_are_one(monkeypatch, tmp_path: Path):
    table = tmp_path / "t.csv"

    def level(recipe: str, seed: int) -> float:
        return 0.04 if recipe == UNCLIPPED and seed == 4 else 0.5 + 0.1 * (seed % 3) * (recipe != "grpo")

    made(monkeypatch, table, level)
    found = read_table("t", table, table.with_suffix(".json"))
    rows = {row["method"]: row for row in results(found)}
    assert (rows["grpo"]["died"], rows[UNCLIPPED]["died"]) == ("0 of 6", "1 of 6")
    ours, theirs = (
        found.mean(f"{one}, misled {rate}", "accuracy") for one, rate in ((UNCLIPPED, "1.6e-3"), ("grpo", "2e-4"))
    )
    assert rows[UNCLIPPED]["less grpo"] == str(judge(ours, theirs, 0.2, [0, 1, 2, 0, 1, 2]))
    assert rows[UNCLIPPED]["less grpo"] != str(judge(ours, theirs, 0.2))


def test_the_arms_differ_in_the_clip_alone_and_norms_are_clipped_in_proportion():
    by = {name: STUDY.methods[f"{name}, misled 1e-4"] for name in BEST}
    assert by["grpo"].choices == GRPO and by[UNCLIPPED].choices == replace(GRPO, gate=no_gate)
    assert [by[name].changes["gradient_clip"] for name in BEST] == [1, 1, 6]
    assert [STUDY.config("grpo, misled 1e-4", seed).start for seed in (0, 1, 5, 100)] == [0, 1, 2, 1]


def test_runs_of_several_starts_and_arms_are_one_batch_on_a_gpu():
    on_gpu = replace(STUDY, base=replace(STUDY.base, device="cuda"))
    due = [(name, seed) for name in STUDY.methods for seed in range(3) if name.endswith("1e-4")]
    assert [len(batch) for batch in batches(on_gpu, due)] == [9]


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_rows_of_a_batch_of_a_contest_are_those_of_its_runs_alone():
    """Which differ in objective, rate, clip of the norm, and start."""
    small = replace(STUDY, base=replace(STUDY.base, prompts=4, group_size=4, epochs=1, minibatches=1))
    small = replace(small, tokens=150, prompts_evaluated=16, evaluate_every=1, record_every=1)
    runs = [("grpo, misled 8e-4", 1), (f"{UNCLIPPED}, misled 4e-4", 2), *(("pg_is, misled 2e-4", i) for i in (0, 1))]
    assert len({(small.config(*run).start, small.config(*run).gradient_clip) for run in runs}) == 4
    for one, rows in zip(runs, run_batch(small, runs), strict=True):
        same(rows, run(small, *one))


@pytest.mark.usefixtures("_in_this_process")
def test_the_rounds_of_a_study_with_tuning_seeds_share_their_workers(monkeypatch, tmp_path: Path):
    methods = crossed({"grpo": GRPO}, "task", {"reverse": Setting({})}, (1e-4, 2e-4, 4e-4))
    small = Study("?", TrainConfig(prompts=2, group_size=2), methods, 20, prompts_evaluated=4, tuning_seeds=(9,))
    small, pools, usual = replace(small, first=("1e-4", "2e-4")), [], runner.ProcessPoolExecutor

    def pool(*given, **named):
        pools.append(1)
        return usual(*given, **named)

    monkeypatch.setattr(runner, "ProcessPoolExecutor", pool)
    hold(small, tmp_path / "t.csv", seeds=1)
    assert len(read_table("t", tmp_path / "t.csv", tmp_path / "t.json").rows) == 1 and len(pools) == 1


def test_a_contest_may_have_objectives_and_settings_of_its_own():
    own = {"narrow": replace(GRPO, gate=Clip(0.05, 0.05))}
    tasks = {"ledger old": on("ledger", lags=(8,)), "misled": on("misled", 500)}
    study = contest("?", ("gspo", "narrow"), tasks, own=own, starts=1)
    assert study.methods["narrow, misled 1e-4"].choices == own["narrow"]
    name = "gspo, ledger old 1e-4"
    assert study.config(name, 5).lags == (8,) and study.config(name, 5).start == 0
    assert (study.tokens_of(name), study.tokens_of("narrow, misled 1e-4")) == (TASKS["ledger"].tokens, 500)
    assert study.metrics == COLUMNS and study.margin == MARGIN


CONTESTS = {name: study for name, study in COMPARISONS.items() if study.first}


def test_studies_with_tuning_are_for_batches_on_a_gpu_but_for_four():
    """Whose runs are made one by one, on the cores of a processor."""
    found = set()
    for name, study in CONTESTS.items():
        for method, one in study.methods.items():
            if one.labels["rate"] == study.first[0] and alone(study.config(method, 0), one.choices):
                found.add(name)
    assert found == {"07_penalties", "08_dynamic", "09_experts", "12_versions"}


def test_a_table_is_of_its_terms():
    note = describe(STUDY)
    assert note["comparison"]["margin"] == 0.2 and note["comparison"]["starts"] == 3
    assert note["comparison"]["first"] == ["1e-4", "2e-4", "4e-4", "8e-4"]
    assert compared(note) != describe(replace(STUDY, margin=0.1))["comparison"]
    assert (
        not {"margin", "starts", "first"}
        & describe(replace(STUDY, margin=None, starts=1, first=()))["comparison"].keys()
    )


def test_what_cannot_be_a_contest_is_refused():
    with pytest.raises(ValueError, match="names one twice"):
        contest("?", ("grpo",), {}, 1, 0.1)
    with pytest.raises(ValueError, match="start is 2, and with the package come 1 of reverse"):
        replace(
            STUDY, base=TrainConfig(), methods={"grpo": replace(STUDY.methods["grpo, misled 1e-4"], changes={})}
        ).check()
    assert len(widened((1e-3, 2e-3))) == 12


def test_a_run_measures_the_likeliest_answer_too():
    small = replace(STUDY, base=replace(STUDY.base, prompts=4, group_size=2), prompts_evaluated=16)
    rows = run(small, "grpo, misled 1e-4", seed=1)
    assert [("greedy" in row) for row in rows] == [("accuracy" in row) for row in rows] and "greedy" in rows[0]
