"""Workers that do not wait for each other, and what becomes of them when something goes wrong."""

import multiprocessing
import os
import signal
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from rlnotes.control.a2c import a2c
from rlnotes.control.a3c import A3CConfig, a3c
from rlnotes.control.networks import ActorCritic
from tests.processes import linux, running, wait_for_spawned, wait_until_gone

pytestmark = pytest.mark.slow

SMALL = A3CConfig(envs=2, steps=8, updates=10**6)

BREAKS = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Breaks(CartPoleEnv):
    calls = 0

    def step(self, action):
        self.calls += 1
        if self.calls > 20:
            raise ArithmeticError("the pole fell off the table")
        return super().step(action)

gymnasium.register("Breaks-v0", entry_point=Breaks)
"""


def workers() -> list:
    return [process for process in multiprocessing.active_children() if process.name.startswith("a3c worker")]


# --- Updates


@pytest.fixture(scope="module")
def finished() -> tuple[list[dict[str, float]], ActorCritic, dict[str, torch.Tensor]]:
    network = ActorCritic(4, 2, torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    return list(a3c(replace(SMALL, updates=300), network)), network, before


def test_every_update_is_reported_once_and_no_worker_stays(finished):
    rows, _, _ = finished
    assert sorted(row["update"] for row in rows) == list(range(1, 301))
    assert rows[-1]["env_steps"] == 300 * 2 * 8
    assert not workers()


def test_the_network_that_is_given_is_the_one_that_learns(finished):
    _, network, before = finished
    assert all(not torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(value.isfinite().all() for value in network.state_dict().values())


def test_both_workers_update_and_their_staleness_is_what_the_other_did_meanwhile(finished):
    """A worker reads after its last update, so at most the others' updates since then can come in between."""
    rows, _, _ = finished
    assert {row["worker"] for row in rows} == {0, 1}
    for worker in (0, 1):
        mine = [row for row in rows if row["worker"] == worker]
        numbers = [row["update"] for row in mine]
        assert numbers == sorted(numbers)
        for row, since in zip(mine[1:], np.diff(numbers), strict=True):
            assert 0 <= row["staleness"] <= since - 1
    assert max(row["staleness"] for row in rows) > 0


def test_one_worker_alone_is_never_stale_and_does_what_a2c_does():
    config = replace(SMALL, updates=30, workers=1)
    shared, single = (ActorCritic(4, 2, torch.Generator().manual_seed(5)) for _ in range(2))
    rows, expected = list(a3c(config, shared)), list(a2c(config, single))
    assert {row.pop("worker") for row in rows} == {row.pop("staleness") for row in rows} == {0}
    assert all(row.pop("kl") >= 0 for row in expected)  # how far an update moved: only a2c says it
    assert [dict(sorted(row.items())) for row in rows[10:]] == [dict(sorted(row.items())) for row in expected[10:]]
    for name, value in shared.state_dict().items():
        assert torch.equal(value, single.state_dict()[name]), name


# --- Ends


def test_breaking_off_ends_the_workers():
    rows = a3c(SMALL)
    next(rows)
    assert len(workers()) == 2
    rows.close()  # type: ignore  # it is a generator
    assert not workers()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_killed_worker_is_named_and_the_others_end():
    rows = a3c(SMALL)
    next(rows)
    victim = next(process for process in workers() if process.name == "a3c worker 1")
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"a3c worker 1 was killed by signal 9 \(SIGKILL\); all workers were ended"):
        list(rows)
    assert not workers()


def test_an_error_in_a_worker_is_named_with_what_it_said(tmp_path, monkeypatch):
    (tmp_path / "env_that_breaks.py").write_text(BREAKS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match=r"a3c worker 0 failed(.|\n)*ArithmeticError: the pole fell off"):
        list(a3c(replace(SMALL, env="env_that_breaks:Breaks-v0", workers=1)))
    assert not workers()


def test_mistakes_in_the_settings_show_before_any_worker_starts():
    with pytest.raises(ValueError, match="workers is 0"):
        A3CConfig(workers=0)
    with pytest.raises(gymnasium.error.NameNotFound):
        next(a3c(replace(SMALL, env="NoSuchThing-v0")))
    assert not workers()


# --- In a process of its own, which is stopped from outside

LOOP = """
from rlnotes.control.a3c import A3CConfig, a3c
for row in a3c(A3CConfig(envs=2, steps=8, updates=10**6)):
    print(row, flush=True)
"""


@linux
@pytest.mark.parametrize("started", [False, True])
def test_an_interrupt_of_the_whole_group_ends_all_and_only_the_caller_speaks(started):
    with running(sys.executable, "-c", "print('ready', flush=True)" + LOOP) as process:
        assert process.stdout
        process.stdout.readline()
        if started:
            process.stdout.readline()
        else:
            wait_for_spawned(process.pid, 2)  # they are importing now
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=180)
        wait_until_gone(process.pid)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


@linux
def test_workers_end_when_their_parent_is_killed():
    with running(sys.executable, "-c", LOOP) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
        wait_until_gone(process.pid)


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(LOOP.replace("envs=2", "workers=1"), encoding="utf-8")
    with running(sys.executable, str(script)) as process:
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "a3c worker" in errors and 'if __name__ == "__main__":' in errors.splitlines()[-1]
