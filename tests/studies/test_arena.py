"""The arena: every recipe, task and rate on equal terms, and its command."""

import csv
import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from rlnotes.cli import Arena
from rlnotes.lm.warm_start import has_weights
from rlnotes.objectives import DAPO, GRPO, RECIPES, Choices
from rlnotes.studies.arena import ARENA_TASKS, EVERY, RATES, TUNING_SEEDS, arena, try_out
from rlnotes.studies.run import run
from rlnotes.studies.runner import append, begin, missing
from rlnotes.studies.study import describe

pytestmark = pytest.mark.usefixtures("_in_this_process")


def test_every_recipe_meets_every_task_at_every_rate_on_equal_terms():
    study = arena()
    assert set(EVERY) == set(RECIPES) and EVERY[0] == "grpo"
    assert len(study.methods) == len(RECIPES) * len(ARENA_TASKS) * len(RATES)
    for task, (changes, tokens) in ARENA_TASKS.items():
        on_task = {name: one for name, one in study.methods.items() if one.labels["task"] == task}
        assert {study.tokens_of(name) for name in on_task} == {tokens}
        configs = {name: study.config(name, seed=0) for name in on_task}
        assert {replace(config, learning_rate=1.0) for config in configs.values()} == {
            replace(study.base, learning_rate=1.0, **changes)
        }
        for name, method in on_task.items():
            assert method.choices == RECIPES[method.labels["recipe"]]
            assert configs[name].learning_rate == float(method.labels["rate"])
    assert study.base.epochs * study.base.minibatches == 16


@pytest.mark.parametrize("task", ARENA_TASKS)
def test_every_task_starts_from_weights_that_come_with_the_package(task: str):
    config = arena(("grpo",), (task,)).config(f"grpo, {task} 5e-5", 0)
    assert has_weights(config.task, config.size, config.preset)


def test_objectives_of_ones_own_take_part_by_a_name():
    mine = replace(DAPO, dynamic_sampling=False)
    study = arena({"mine": mine, "grpo": GRPO}, ("sort",), (1e-4,), tokens=5000)
    assert study.methods["mine, sort 1e-4"].choices == mine
    assert [study.tokens_of(name) for name in study.methods] == [5000, 5000]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (dict(recipes=("grpo", "ppo")), "unknown in recipes: 'ppo'; choose from [a-z]"),
        (dict(recipes={}), "recipes is empty"),
        (dict(tasks=("sort", "spell")), "unknown in tasks: 'spell'; choose from reverse"),
        (dict(rates=(1e-4, 1e-4)), "rates is .* and names one twice"),
        (dict(tokens=0), "tokens is 0; a run samples at least 1"),
    ],
)
def test_a_wrong_choice_is_named(arguments: dict, said: str):
    with pytest.raises(ValueError, match=said):
        arena(**arguments)


def test_the_trainer_runs_every_recipe_on_every_task():
    try_out(arena())


def test_what_the_trainer_cannot_run_is_named_before_anything_starts():
    def broken(ratio, advantages):
        raise TypeError("no gate at all")

    with pytest.raises(ValueError, match="recipe 'mine' cannot be run on task 'needle': no gate at all"):
        try_out(arena({"grpo": GRPO, "mine": Choices(gate=broken)}, ("needle",)))
    with pytest.raises(ValueError, match=r"'grpo' cannot be run on task 'sort': learning_rate is -1\.0; it must"):
        try_out(arena(("grpo",), ("sort",), (-1.0,)))


def test_methods_stop_at_their_own_number_of_tokens_and_their_table_knows(tmp_path: Path):
    study = arena(("grpo",), ("needle",), (1e-4,))
    [(name, method)] = study.methods.items()
    base = replace(study.base, prompts=4, group_size=2, epochs=1)
    study = replace(study, base=base, methods={name: replace(method, tokens=60)}, prompts_evaluated=8)
    rows = run(study, name, seed=0)
    assert rows[-1]["tokens"] >= 60 > rows[-1]["tokens"] - 4 * 2 * 5
    table = tmp_path / "t.csv"
    begin(study, table)
    append(study, table, name, 0, rows)
    assert missing(table, study, seeds=1) == [(name, seed) for seed in TUNING_SEEDS]
    assert describe(study)["comparison"]["methods"][name]["tokens"] == 60
    without = replace(study, methods={name: replace(method, tokens=None)})
    assert "tokens" not in describe(without)["comparison"]["methods"][name]
    with pytest.raises(ValueError, match="other settings"):
        begin(without, table)
    with table.open(encoding="utf-8", newline="") as file:
        assert {(row["recipe"], row["task"], row["rate"]) for row in csv.DictReader(file)} == {
            ("grpo", "needle", "1e-4")
        }


def test_the_command_has_the_defaults_of_the_arena():
    assert inspect.signature(arena).parameters["rates"].default == Arena(Path("x")).rates == RATES


def test_the_command_makes_a_table_pictures_and_a_ranking(tmp_path: Path, capsys):
    out = tmp_path / "arena"
    command = Arena(out, ("grpo", "pg_is"), ("needle",), (5e-6, 5e-4), seeds=2, tokens=700)
    assert command() == 0
    with (out / "table.csv").open(encoding="utf-8", newline="") as file:
        runs = {(row["recipe"], row["rate"], int(row["seed"])) for row in csv.DictReader(file)}
    tuning = {
        (recipe, rate, seed) for recipe in ("grpo", "pg_is") for rate in ("5e-6", "5e-4") for seed in TUNING_SEEDS
    }
    assert runs - tuning == {(recipe, "5e-4", seed) for recipe in ("grpo", "pg_is") for seed in (0, 1)}
    said = capsys.readouterr().out
    assert "chance to beat grpo" in said and "Of 1 recipes" in said and "the reference" in said
    for name in ("ranking", "profiles", "curves"):
        assert (out / f"{name}.png").stat().st_size > 10_000
    before = (out / "table.csv").read_bytes()
    assert command() == 0  # nothing is made again
    assert (out / "table.csv").read_bytes() == before
    with pytest.raises(ValueError, match="other settings"):
        replace(command, tokens=900)()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(seeds=1), "seeds is 1; an interval needs at least 2 runs"),
        (dict(recipes=("grpo", "nothing")), "unknown in recipes: 'nothing'"),
        (dict(recipes=("grpo",)), r"recipes is \('grpo',\); name a second one"),
        (
            dict(recipes=("grpo", "rloo"), tasks=("needle",), rates=(0.0,)),
            r"learning_rate is 0\.0; it must be",
        ),
    ],
)
def test_a_command_that_cannot_be_followed_leaves_nothing_behind(tmp_path: Path, wrong: dict, said: str):
    with pytest.raises(ValueError, match=said):
        Arena(tmp_path / "arena", **wrong)()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, capsys, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlnotes.studies.runner.follow", interrupted)
    assert Arena(tmp_path, ("grpo", "rloo"), ("needle",))() == 130
    assert "table.csv: the same command goes on" in capsys.readouterr().err
