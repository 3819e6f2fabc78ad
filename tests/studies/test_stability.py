"""The stability laboratory: what is compared, on equal terms, and its command."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.cli import Stability
from rlnotes.objectives import DPPO_TV, GRPO
from rlnotes.studies.methods import METHODS, MISMATCHES
from rlnotes.studies.runner import compare, missing
from rlnotes.studies.stability import PROTOCOL, laboratory
from rlnotes.studies.study import describe, short

pytestmark = pytest.mark.usefixtures("_in_this_process")

SMALL = replace(PROTOCOL, prompts=4, group_size=2, epochs=1)


def test_every_objective_is_tried_under_every_mismatch_at_every_rate():
    study = laboratory(("pg_is", "dppo_tv", "grpo"), ("none", "stale"), (1e-4, 3e-4))
    assert len(study.methods) == 3 * 2 * 2
    method = study.methods["dppo_tv, stale 3e-4"]
    assert method.choices == DPPO_TV and method.changes == dict(lags=(64,), learning_rate=3e-4)
    assert method.labels == dict(recipe="dppo_tv", rollout="stale", rate="3e-4")
    assert study.methods["grpo, none 1e-4"].choices == GRPO  # recipes by their names, too
    for name in study.methods:
        assert study.config(name, 0).epochs == 4


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_every_mismatch_is_a_setting_that_a_run_takes(mismatch: str):
    study = laboratory(("pg_is",), (mismatch,), (1e-4,))
    study.config(f"pg_is, {mismatch} 1e-4", 0)


def test_an_older_name_means_the_same():
    assert laboratory(("pg-is", "mask 0.5"), ("stale",)) == laboratory(("pg_is", "negative_mask"), ("stale",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((("pg_is", "nothing"), ("none",)), "unknown in objectives: 'nothing'"),
        ((("pg_is",), ("sleep",)), "unknown in mismatches: 'sleep'"),
        ((("pg_is", "pg_is"), ("none",)), "objectives is .* and names one twice"),
        ((("pg_is",), ()), "mismatches is empty"),
        ((("pg_is",), ("none",), (1e-4, 1e-4)), "rates is .* and names one twice"),
    ],
)
def test_a_wrong_choice_is_named(arguments: tuple, said: str):
    with pytest.raises(ValueError, match=said):
        laboratory(*arguments)


def test_a_rate_is_written_short():
    assert [short(rate) for rate in (5e-5, 1e-4, 0.0003, 0.0015)] == ["5e-5", "1e-4", "3e-4", "1.5e-3"]


def test_the_table_is_tidy_tuning_apart_and_can_be_gone_on_with(tmp_path: Path):
    base = replace(SMALL, count_clipped=True)
    study = laboratory(("clip_higher", "pg_is"), ("stale",), (1e-3,), base=base, tokens=80, tuning_seeds=(7,))
    table = tmp_path / "t.csv"
    assert describe(study)["comparison"]["tuning_seeds"] == [7]
    assert [seed for _, seed in missing(table, study, 1)] == [7, 7, 0, 0]
    assert len(list(compare(study, table, seeds=1))) == 4
    assert missing(table, study, 1) == []
    with table.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {(line["recipe"], line["rollout"], line["rate"]) for line in lines} == {
        ("clip_higher", "stale", "1e-3"),
        ("pg_is", "stale", "1e-3"),
    }
    tokens = [line for line in lines if line["token"]]
    assert {line["seed"] for line in tokens} <= {"0"}  # of what is reported
    assert all(int(line["clipped"]) <= int(line["shown"]) and line["sign"] in "+-" for line in tokens)
    assert not any(line["method"].startswith("pg_is") for line in tokens)  # which clips nothing


def test_a_seed_is_not_both_tuned_on_and_reported(tmp_path: Path):
    study = laboratory(("pg_is",), ("none",), (1e-3,), base=SMALL, tokens=80, tuning_seeds=(1, 100))
    with pytest.raises(ValueError, match=r"tuning_seeds holds \[1\], which are reported"):
        list(compare(study, tmp_path / "t.csv", seeds=2))
    assert list(tmp_path.iterdir()) == []


def test_the_command_makes_a_table_pictures_and_verdicts(tmp_path: Path, capsys):
    out = tmp_path / "lab"
    command = Stability(out, ("pg_is", "dppo_tv"), ("stale",), (3e-4,), seeds=1, tokens=1500, size=6)
    assert command() == 0
    said = capsys.readouterr().out
    assert "mismatch stale; lead over pg_is" in said and "dppo_tv" in said
    assert (out / "stale.png").stat().st_size > 10_000
    before = (out / "table.csv").read_bytes()
    assert command() == 0  # nothing is made again
    assert (out / "table.csv").read_bytes() == before


def test_more_curves_than_can_be_told_apart_are_refused_before_anything_runs(tmp_path: Path):
    with pytest.raises(ValueError, match="objectives holds 8 curves; at most 7 can be told apart"):
        Stability(tmp_path / "lab", tuple(METHODS)[:8])()
    assert list(tmp_path.iterdir()) == []


def test_a_longer_run_of_the_same_folder_is_refused(tmp_path: Path):
    command = Stability(tmp_path, ("pg_is",), ("none",), (3e-4,), seeds=1, tokens=200, size=6)
    assert command() == 0
    with pytest.raises(ValueError, match="other settings"):
        replace(command, tokens=9000)()
