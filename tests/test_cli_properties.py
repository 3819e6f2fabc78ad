"""Whatever a person can type ends in work, or in one line and with nothing changed on disk."""

import shutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlnotes import cli
from rlnotes.bounds import audit
from rlnotes.chapters.studies import COMPARISONS
from rlnotes.objectives import RECIPES
from rlnotes.studies import runner
from rlnotes.studies.arena import ARENA_TASKS
from rlnotes.studies.batches import run_batch
from rlnotes.studies.methods import METHODS, MISMATCHES
from rlnotes.studies.run import Row
from rlnotes.studies.study import Study
from tests.studies.pools import Here

DRAWS = 40
CHECKS = [
    HealthCheck.too_slow,
    HealthCheck.function_scoped_fixture,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
]
HOSTILE = {
    int: ("0", "-5", str(2**80), str(10**11), "1.5", "many", "", "nan"),
    float: ("0", "-1", "inf", "-inf", "nan", "1e-300", "1e300", str(2**80), "much", ""),
    str: ("", "nothing", "../x", "ä b", "-", "--"),
}
VALID = {int: ("1", "2"), float: ("1e-4", "0.5", "1"), bool: ()}
NAMES = {  # what texts mean something, by option
    "task": ("reverse", "sort", "short-reverse", "ramble", "countdown", "reasoning-gym/", "reasoning-gym/nothing"),
    "preset": ("tiny", "moe-top1"),
    "recipe": tuple(RECIPES),
    "device": ("cpu", "cpu", "cuda", "cuda:7", "meta"),
    "name": ("15_needle",),
    "model": ("folder", "run", "nothing"),
    "checkpoint": ("step_00000000", "step_00000001"),
    "objectives": tuple(METHODS)[:4],
    "mismatches": tuple(MISMATCHES)[:3],
    "recipes": tuple(RECIPES)[:4],
    "tasks": tuple(ARENA_TASKS)[:2],
}
PLACES = ("new", "new/in new", "Ünïcode and spaces", "run", "a file", "a file/under", "folder", "t.csv", "n.json")
PLACES += ("x" * 300,)
PLACES += ("/proc/none", "/dev/full") if Path("/dev/full").exists() else ()
# so that every run is short: options that are given unless the draw gives them
SMALL = {
    "train": dict(steps="1", prompts="2", group_size="2", warm_limit="1", most_rounds="1", task="reverse", size="4"),
    "resume": dict(steps="2"),
    "sample": dict(prompts="1"),
    "real": dict(model="folder", steps="1", prompts="2", group_size="2", heldout="1"),  # which holds no model
    "compare": dict(seeds="1"),
    "stability": dict(objectives="pg_is", rates="1e-4", seeds="1", tokens="1", size="6", epochs="1", minibatches="1"),
    "arena": dict(recipes=("grpo", "rloo"), tasks="needle", rates="1e-4", seeds="2", tokens="1"),
    "read": {},
    "audit": {},
    "doctor": {},
}
COMMANDS = {get_args(one)[1].name: get_args(one)[0] for one in get_args(cli.COMMANDS)}


def options(command: type) -> Iterator[tuple[str, Any]]:
    """Names and types of a command's options, those of its settings among them."""
    hints = get_type_hints(command)
    for own in fields(command):
        if is_dataclass(hints[own.name]):
            yield from options(hints[own.name])
        else:
            yield own.name, hints[own.name]


def texts(name: str, hint: Any) -> st.SearchStrategy[tuple[str, ...]]:
    """What somebody may write behind ``--name``: mostly what is right."""
    inner = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if get_origin(hint) is Literal:
        return st.sampled_from([*inner, "nothing"]).map(lambda text: (text,))
    if get_origin(hint) is tuple:
        return st.lists(texts(name, inner[0]), max_size=3).map(lambda found: tuple(chain(*found)))
    if inner:
        return texts(name, inner[0]) | st.just(("None",))
    if hint is Path:
        return st.sampled_from(PLACES).map(lambda text: (text,))
    right = st.sampled_from(NAMES.get(name) or VALID[hint])
    return st.one_of(right, right, st.sampled_from(HOSTILE[hint])).map(lambda text: (text,))


@st.composite
def command_lines(draw: st.DrawFn, name: str) -> list[str]:
    """A command with some of its options."""
    known = dict(options(COMMANDS[name]))
    given = {option: (value,) if isinstance(value, str) else value for option, value in SMALL[name].items()}
    if name in ("resume", "sample"):
        given["out"] = draw(st.sampled_from([("run",), ("run",), *((place,) for place in PLACES)]))
    elif "out" in known:
        given["out"] = ("t.csv",) if name == "compare" else ("new",)
    if "name" in known:
        given["name"] = ("15_needle",)
    if name == "read":
        given["log"] = draw(
            st.sampled_from([("run",), ("run",), ("run/metrics.jsonl",), *((place,) for place in PLACES)])
        )
    switches = []
    for option in draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True)) if known else ():
        if known[option] is bool:
            switches.append(draw(st.sampled_from([f"--{option}", f"--no-{option}"])))
        else:
            given[option] = draw(texts(option, known[option]))
    line = [name]
    for option, values in given.items():
        line += values if option in ("name", "log") else [f"--{option.replace('_', '-')}", *values]
    return line + [switch.replace("_", "-") for switch in switches] + draw(st.sampled_from([[]] * 12 + [["--bogus"]]))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a file, a folder, a table that is none."""
    place = tmp_path_factory.mktemp("room")
    small = ["--steps", "1", "--prompts", "2", "--group-size", "2"]
    assert cli.main(["train", "--out", str(place / "run"), *small]) == 0
    (place / "folder").mkdir()
    for name in ("a file", "n.json"):
        (place / name).write_text("nothing\n", encoding="utf-8")
    return place


def contents(place: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


def small_batch(study: Study, made: list[tuple[str, int]]) -> list[list[Row]]:
    """The runs, with less of everything: here the command is tried, not what it makes."""
    base = replace(study.base, prompts=4, group_size=2)
    return run_batch(replace(study, base=base, prompts_evaluated=8), made)


LONG = ("stability", "arena")  # each run of theirs ends in pictures and bootstraps


@pytest.mark.filterwarnings("ignore:cuda_graph does nothing here")
@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONG)) for one in COMMANDS])
def test_a_command_line_ends_in_work_or_in_one_line(name: str, room: Path, monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(runner, "run_batch", small_batch)
    for key, task in ARENA_TASKS.items():
        monkeypatch.setitem(ARENA_TASKS, key, task._replace(tokens=1))
    monkeypatch.setattr(audit, "CLAIMS", audit.CLAIMS[:1])
    for key in COMPARISONS:
        one = COMPARISONS[key]
        monkeypatch.setitem(COMPARISONS, key, replace(one, tokens=1, methods=dict([*one.methods.items()][:1])))
    statuses, places = [], count()

    @settings(max_examples=DRAWS, deadline=None, derandomize=True, suppress_health_check=CHECKS)
    @given(command_lines(name))
    def holds(line: list[str]) -> None:
        place = tmp_path / str(next(places))
        shutil.copytree(room, place)
        monkeypatch.chdir(place)
        before = contents(place)
        capsys.readouterr()
        status = cli.main(line)
        said = capsys.readouterr().err
        statuses.append(status)
        assert status in (0, 2), said
        if status:
            assert said.count("\n") == 1 and said.startswith("rlnotes: "), said
            assert contents(place) == before
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)

    holds()
    if name != "doctor":
        assert set(statuses) == ({2} if name == "real" else {0, 2})
