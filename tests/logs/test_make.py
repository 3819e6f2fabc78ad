"""The stored logs: what the manifest says of them holds, and they can be made again."""

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics
from tests.logs import by_us, make
from tests.logs.run import OurRun, RealRun, Run
from tests.logs.runs import FAULTY, HEALTHY, REAL, RUNS

ENTRIES = {entry["name"]: entry for entry in make.manifest()}


NEEDS_TRL = pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs the extra bridge")


def stored_rows(entry: dict[str, Any]) -> list[dict[str, float]]:
    log = make.FOLDER / entry["log"]
    if log.name == by_us.LOG:
        return read_metrics(log.parent)
    return json.loads(log.read_text(encoding="utf-8"))["log_history"]


def test_each_fault_is_in_either_half_and_so_are_the_healthy_runs():
    assert len(FAULTY) >= 12 and len(HEALTHY) >= 12
    for fault in {run.fault for run in FAULTY + HEALTHY}:
        assert {run.half for run in RUNS if run.fault == fault} == {"tuning", "judging"}, fault
    assert {run.half for run in REAL} == {"judging"}  # no rule is set on a real model
    assert all((run.fault is None) == (run.sign is None) for run in RUNS)


def test_what_is_stored_is_what_the_runs_are_and_small():
    assert list(ENTRIES) == [run.name for run in RUNS]
    folders = {path.name for path in make.FOLDER.iterdir()}
    assert folders == set(ENTRIES)
    files = [make.FOLDER / entry[kind] for entry in ENTRIES.values() for kind in ("log", "config")]
    assert sum(file.stat().st_size for file in files) <= 1_000_000
    text = make.README.read_text(encoding="utf-8")
    assert text.endswith("\n\n" + make.table(list(ENTRIES.values()))) and text.count("\n") <= 44


@pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])
def test_the_log_shows_what_the_manifest_says(run: Run):
    """The step from which a fault is visible, and an accuracy that a fault spoils."""
    entry = ENTRIES[run.name]
    assert (entry["half"], entry["fault"], entry["note"]) == (run.half, run.fault, run.note)
    assert entry["visible_from"] == make.visible_from(run, stored_rows(entry))
    make.check(entry, (make.FOLDER / entry["log"]).stat().st_size)


def settings_differ(runs: Sequence[Run], defaults: Mapping[str, Any]) -> list[str]:
    """Names of the runs that were made with other settings than they have now. A setting that was not there had its
    default.
    """
    stored = {run.name: json.loads((make.FOLDER / ENTRIES[run.name]["config"]).read_text("utf-8")) for run in runs}
    now = {run.name: json.loads(json.dumps(make.maker_of(run).config(run))) for run in runs}
    return [name for name in now if now[name] != {**defaults, **stored[name]}]


def test_the_settings_beside_our_logs_are_those_of_the_runs():
    ours = [run for run in RUNS if isinstance(run, OurRun)]
    assert settings_differ(ours, json.loads(json.dumps(asdict(TrainConfig())))) == []
    assert settings_differ(REAL, {}) == []


@pytest.mark.extras
@NEEDS_TRL
def test_the_settings_beside_logs_of_trl_are_those_of_the_runs():
    assert settings_differ([run for run in RUNS if not isinstance(run, OurRun | RealRun)], {}) == []


TIMES = r'"(seconds|step_time|\w+_runtime|\w+_per_second)": [^,\n]+'
TRL = [pytest.mark.extras, pytest.mark.slow, NEEDS_TRL]


@pytest.mark.parametrize("name", ["learning_rate_ours", pytest.param("healthy_clip", marks=TRL)])
def test_a_run_made_again_is_the_same_but_for_the_time_it_took(name: str):
    run = next(run for run in RUNS if run.name == name)
    once, again = (re.sub(TIMES, "", make.made(run)[0]) for _ in range(2))
    assert once.count('"reward":') > 10
    assert once == again


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (dict(visible_from=None), "no row shows"),
        (dict(accuracy_after=0.9), "rises by 0.600 all the same"),
        (dict(fault=None, accuracy_after=0.4), "rises by 0.100 only"),
    ],
)
def test_what_is_no_fault_and_what_does_not_learn_is_refused(changed: dict[str, Any], said: str):
    entry = dict(name="x", fault="slow", visible_from=1, sign={}, accuracy_before=0.3, accuracy_after=0.3)
    with pytest.raises(RuntimeError, match=said):
        make.check(entry | changed, 1)
