"""Comparisons: equal tokens, paired seeds, tables that can be gone on with."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.lm.compare import Comparison, Method, compare, describe, missing, run
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import DR_GRPO, GRPO

TINY = Comparison(
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


@pytest.mark.parametrize("wrong", [dict(seeds=0), dict(workers=0)])
def test_a_comparison_of_nothing_is_refused_before_anything_is_written(tmp_path: Path, wrong: dict[str, int]):
    with pytest.raises(ValueError, match="is 0; it must be at least 1"):
        list(compare(TINY, tmp_path / "a.csv", **wrong))
    assert list(tmp_path.iterdir()) == []


def test_a_description_has_no_addresses():
    text = str(describe(TINY))
    assert "group_mean_std" in text
    assert "0x" not in text
