"""Comparisons: equal tokens, paired seeds, tables that can be gone on with."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import DR_GRPO, GRPO, Choices
from rlnotes.studies.run import run
from rlnotes.studies.runner import compare, missing
from rlnotes.studies.study import METRICS, Method, Study, compared, describe
from rlnotes.studies.tables import COUNTERS

TINY = Study(
    question="is one faster?",
    base=TrainConfig(prompts=2, group_size=2),
    methods={"GRPO": Method(GRPO), "Dr. GRPO": Method(DR_GRPO, dict(learning_rate=5e-4))},
    tokens=60,
    evaluate_every=2,
    prompts_evaluated=8,
)


def test_runs_have_paired_starts_and_stop_at_the_same_number_of_tokens():
    runs = {method: run(TINY, method, seed=3) for method in TINY.methods}
    starts = {method: rows[0]["accuracy"] for method, rows in runs.items()}
    assert len(set(starts.values())) == 1
    for rows in runs.values():
        assert rows[-1]["tokens"] >= TINY.tokens > rows[-2]["tokens"]
        assert "accuracy" in rows[-1]
    first = [rows[1]["reward"] for rows in runs.values()]
    assert first[0] == first[1]  # the same prompts, the same weights, the same noise


def test_a_run_changes_the_settings_of_its_method_alone():
    assert TINY.config("GRPO", 1) == replace(TINY.base, seed=1)
    assert TINY.config("Dr. GRPO", 1) == replace(TINY.base, seed=1, learning_rate=5e-4)


def test_a_long_comparison_may_record_every_few_steps():
    every, some = (run(replace(TINY, record_every=n), "GRPO", seed=0) for n in (1, 2))
    steps = [row["step"] for row in every]
    assert [row["step"] for row in some] == sorted({*steps[::2], steps[-1]})
    assert some[-1]["reward"] == every[-1]["reward"]
    assert some[-1]["accuracy"] == every[-1]["accuracy"]


def test_settings_that_are_tuples_are_the_same_when_read_again(tmp_path: Path):
    aged = replace(TINY, methods={"old": Method(GRPO, dict(lags=(1,)))})
    list(compare(aged, tmp_path / "a.csv"))
    assert list(compare(aged, tmp_path / "a.csv")) == []


@pytest.mark.parametrize("whole_steps", [0, 2])
def test_a_run_that_is_lost_has_accuracy_0_to_its_end_but_wrong_settings_are_told(whole_steps: int):
    calls = []

    def breaking(ratio, advantages):
        calls.append(1)
        return ratio * advantages * (1.0 if len(calls) <= whole_steps else float("nan"))

    study = replace(TINY, methods={"breaking": Method(Choices(gate=breaking))}, tokens=300)
    if whole_steps == 0:
        with pytest.raises(ValueError, match="the gradient norm is nan"):
            run(study, "breaking", seed=0)
        return
    *before, broken, end = run(study, "breaking", seed=0)
    assert [row["step"] for row in before] == [0, 1, 2] and all("reward" in row for row in before[1:])
    assert broken == dict(step=2, tokens=before[-1]["tokens"], accuracy=0.0, greedy=0.0)
    assert end == broken | dict(tokens=300)


def test_a_table_is_gone_on_with(tmp_path: Path):
    table = tmp_path / "a.csv"
    assert len(missing(table, TINY, seeds=1)) == 2
    assert sorted(compare(TINY, table, seeds=1)) == [("Dr. GRPO", 0), ("GRPO", 0)]
    before = table.read_text(encoding="utf-8")
    assert list(compare(TINY, table, seeds=1)) == []
    assert table.read_text(encoding="utf-8") == before
    lines = list(csv.DictReader(before.splitlines()))
    # a run that was cut off does not count as made
    cut = [line for line in before.splitlines() if not line.startswith(f"GRPO,0,{lines[-1]['step']},")]
    table.write_text("\n".join(cut) + "\n", encoding="utf-8")
    ends = {(line["method"], int(line["tokens"]) >= 60) for line in csv.DictReader(cut)}
    assert missing(table, TINY, seeds=1) == [(m, 0) for m in TINY.methods if (m, True) not in ends]


def test_a_table_of_other_settings_is_refused(tmp_path: Path):
    table = tmp_path / "a.csv"
    list(compare(TINY, table, seeds=1))
    with pytest.raises(ValueError, match="other settings"):
        list(compare(replace(TINY, tokens=90), table, seeds=1))


def test_a_table_from_before_a_setting_and_a_column_is_gone_on_with(tmp_path: Path):
    """Made without lags and without their columns; a run with lags in it is another comparison."""
    table, note = tmp_path / "a.csv", tmp_path / "a.json"
    old = describe(TINY)
    for name in ("lags", "lag_weights", "switch", "measure_shift"):
        del old["comparison"]["base"][name]
    note.write_text(json.dumps(old), encoding="utf-8")
    older = ["method", *COUNTERS, *METRICS[:-2]]
    table.write_text(",".join(older) + "\n", encoding="utf-8")
    assert compared(old) == describe(TINY)["comparison"]
    with pytest.raises(ValueError, match="other settings"):
        list(compare(replace(TINY, base=replace(TINY.base, lags=(4,))), table, seeds=1))
    assert len(list(compare(TINY, table, seeds=1))) == 2
    with table.open(encoding="utf-8", newline="") as file:
        assert {len(line) for line in csv.reader(file)} == {len(older)}


def test_a_comparison_with_lags_knows_its_own_table(tmp_path: Path):
    lagging = replace(TINY, base=replace(TINY.base, lags=(0, 2), measure_shift=True))
    list(compare(lagging, tmp_path / "a.csv", seeds=1))
    assert list(compare(lagging, tmp_path / "a.csv", seeds=1)) == []
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if int(line["step"]) > 0]
    assert all(0 <= float(line["lag"]) <= 2 and float(line["ess_sequence"]) <= 1 for line in lines)
    assert all(float(line["update_shift"]) > 0 for line in lines if float(line["gradient_norm"]) > 0)


@pytest.mark.parametrize("wrong", [dict(seeds=0, workers=1), dict(seeds=1, workers=0)])
def test_a_comparison_of_nothing_is_refused_before_anything_is_written(tmp_path: Path, wrong: dict[str, int]):
    with pytest.raises(ValueError, match="is 0; it must be at least 1"):
        list(compare(TINY, tmp_path / "a.csv", wrong["seeds"], wrong["workers"]))
    assert list(tmp_path.iterdir()) == []


def test_a_description_tells_what_differs_from_a_default_and_every_number_and_no_addresses():
    text = str(describe(TINY))
    assert "Choices(gate=Clip(epsilon_low=0.2, epsilon_high=0.2))" in text
    assert "advantage=group_mean, aggregation=constant" in text
    assert "0x" not in text


def test_methods_that_are_not_reported_are_only_tuned_on_and_a_table_holds_the_metrics_asked_for(tmp_path: Path):
    study = replace(TINY, tuning_seeds=(7,), metrics=("accuracy",))
    table = tmp_path / "a.csv"
    assert [seed for _, seed in missing(table, study, 2, reported=())] == [7, 7]
    made = list(compare(study, table, seeds=2, reported=["GRPO"]))
    assert made == [(method, 7) for method in TINY.methods] + [("GRPO", 0), ("GRPO", 1)]
    with table.open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["method", *COUNTERS, "accuracy"]
    assert missing(table, study, 2) == [
        (method, seed) for seed in (0, 1) for method in TINY.methods if method != "GRPO"
    ]
