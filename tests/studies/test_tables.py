"""Stored tables, and those of before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlnotes.chapters.studies import COMPARISONS
from rlnotes.objectives import GRPO
from rlnotes.studies import load_table, read_table
from rlnotes.studies.arena import TUNING_SEEDS, arena
from rlnotes.studies.run import run
from rlnotes.studies.runner import append, begin, compare, missing
from rlnotes.studies.scores import tuned
from rlnotes.studies.stability import PROTOCOL, laboratory
from rlnotes.studies.study import Study, compared, describe
from rlnotes.studies.tables import grids


def test_a_missing_table_is_explained():
    with pytest.raises(FileNotFoundError, match="no stored table 'nothing'"):
        load_table("nothing")


@pytest.mark.parametrize("name", [name for name, study in COMPARISONS.items() if not study.first])
def test_every_comparison_has_its_table(name: str):
    """Whole, of the settings that the package has now, with at least five paired seeds."""
    evidence, comparison = load_table(name), COMPARISONS[name]
    assert compared(evidence.settings) == describe(comparison)["comparison"]
    assert list(evidence.rows) == list(comparison.methods)
    assert evidence.command.startswith(f"rlnotes compare {name} --seeds ")
    seeds = {tuple(runs) for runs in evidence.rows.values()}
    assert len(seeds) == 1
    assert len(seeds.pop()) >= 5
    for method, runs in evidence.rows.items():
        for columns in runs.values():
            assert columns["tokens"][-1] >= comparison.tokens_of(method) > columns["tokens"][-2]
            assert not np.isnan(columns["accuracy"][[0, -1]]).any()


CONTESTS = [name for name, study in COMPARISONS.items() if study.first]


@pytest.mark.parametrize("name", CONTESTS)
def test_a_stored_contest_is_whole(name: str):
    """Of the settings that the package has now, wherever it was made; each best rate has both neighbours tried, or is
    at an end of the grid, and is reported alone.
    """
    evidence = load_table(name)
    device = evidence.settings["comparison"]["base"]["device"]
    study = replace(COMPARISONS[name], base=replace(COMPARISONS[name].base, device=device))
    assert compared(evidence.settings) == describe(study)["comparison"]
    (seeds,) = {len(runs) for runs in evidence.rows.values()}
    assert seeds >= 10 and all([*runs] == [*range(seeds)] for runs in evidence.rows.values())
    command = f"rlnotes compare {name} --seeds {seeds} --out {name}.csv"
    assert evidence.command == (command if device == "cpu" else f"{command} --device {device}")
    assert all(tuple(runs) == study.tuning_seeds for runs in evidence.tuning.values())
    chosen = set()
    for grid in grids({method: one.labels for method, one in study.methods.items()}):
        best = evidence.best([method for method in grid if method in evidence.tuning])
        place = grid.index(best)
        assert all(method in evidence.tuning for method in grid[max(0, place - 1) : place + 2])
        chosen.add(best)
    assert evidence.rows.keys() == chosen


def test_the_arena_has_its_table():
    """Whole, of the recipes and tasks that it names, as they are now: all tuned alike, reported at their own rate only.
    A recipe that is younger than the table is not in it.
    """
    table = load_table("17_arena")
    recipes, tasks = (tuple(dict.fromkeys(own[key] for own in table.labels.values())) for key in ("recipe", "task"))
    study = arena(recipes, tasks)
    assert compared(table.settings) == describe(study)["comparison"]
    assert {method: tuple(runs) for method, runs in table.tuning.items()} == dict.fromkeys(study.methods, TUNING_SEEDS)
    assert sorted(table.rows) == sorted(tuned(table, grid) for grid in grids(table.labels))
    assert len(table.rows) == len(recipes) * len(tasks)
    assert table.command == "rlnotes arena --seeds 10 --out 17_arena"
    for method, runs in table.rows.items():
        assert list(runs) == list(range(10))
        for columns in runs.values():
            assert columns["tokens"][-1] >= study.tokens_of(method) > columns["tokens"][-2]


def older(folder: Path) -> tuple[Study, Path]:
    """A study, and a table of one run of it as it was written when methods had other names, and labels too."""
    base = replace(PROTOCOL, prompts=4, group_size=2, epochs=1)
    study = laboratory(("pg_is", "positive_mask"), ("stale",), (1e-3,), base=base, tokens=80, tuning_seeds=(7,))
    table = folder / "t.csv"
    begin(study, table)
    note = table.with_suffix(".json")
    for path in (table, note):
        text = path.read_text(encoding="utf-8").replace("positive_mask", "mask 0.5, A > 0").replace("pg_is", "pg-is")
        path.write_text(text.replace("method,recipe", "method,objective"), encoding="utf-8")
    with table.open("a", encoding="utf-8") as file:
        for step in (0, 1):
            numbers = ["0.5" if name == "accuracy" else "" for name in study.metrics]
            file.write(
                f'"mask 0.5, A > 0, stale 1e-3","mask 0.5, A > 0",stale,1e-3,7,{step},{90 * step},{",".join(numbers)}\n'
            )
    return study, table


def test_an_older_table_is_read_by_the_present_names_and_gone_on_with(tmp_path: Path):
    study, table = older(tmp_path)
    name = "positive_mask, stale 1e-3"
    found = read_table("t", table, table.with_suffix(".json"))
    assert list(found.tuning) == [name] and found.where(recipe="positive_mask", rollout="stale") == [name]
    assert found.budget(name) == 80
    assert missing(table, study, seeds=1) == [("pg_is, stale 1e-3", 7), ("pg_is, stale 1e-3", 0), (name, 0)]
    assert len(list(compare(study, table, seeds=1))) == 3
    again = read_table("t", table, table.with_suffix(".json"))
    assert list(again.rows) == list(again.tuning) == list(study.methods)
    assert again.labels["pg_is, stale 1e-3"] == dict(recipe="pg_is", rollout="stale", rate="1e-3")
    with pytest.raises(ValueError, match="other settings"):
        begin(replace(study, tokens=90), table)


def test_a_method_of_ones_own_may_have_an_older_name(tmp_path: Path):
    """If its table is no older one."""
    study = arena({"token": GRPO}, ("needle",), (1e-4,), tokens=50)
    table = tmp_path / "t.csv"
    begin(study, table)
    begin(study, table)
    append(study, table, "token, needle 1e-4", 0, [dict(step=0, tokens=50, accuracy=0.1)])
    assert list(read_table("t", table, table.with_suffix(".json")).rows) == ["token, needle 1e-4"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_that_a_processor_made_is_made_again(seed: int):
    """Its first steps, on whatever processor this is: sums may differ in their last digits, and then samples do."""
    name, method = "07_groups", "grpo, G = 8, misled 4e-3"
    stored, study = load_table(name).rows[method][seed], COMPARISONS[name]
    short = replace(study, methods={method: replace(study.methods[method], tokens=8 * 512 * 6 - 600)})
    rows = run(short, method, seed)
    assert [row["step"] for row in rows] == [0, 4, 8] == [*stored["step"][:3]]
    for metric in ("accuracy", "greedy"):
        assert [row[metric] for row in rows] == pytest.approx([*stored[metric][:3]], abs=0.03)


@pytest.mark.slow
def test_a_run_of_a_row_that_a_card_made_has_the_same_start():
    """And another course: a card draws other samples."""
    name, method = "11_corrections", "pg_is clip, misled int4 8e-4"
    stored, study = load_table(name).rows[method][0], COMPARISONS[name]
    first = run(replace(study, methods={method: replace(study.methods[method], tokens=1)}), method, 0)[0]
    assert first["greedy"] == pytest.approx(stored["greedy"][0], abs=1e-4)
