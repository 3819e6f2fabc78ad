"""An actor and a learner in two processes: whose weights sampled what, and what becomes of them when one dies."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlnotes.lm.asynchronous import RESTARTS, AsyncTrainer
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Reverse
from rlnotes.lm.trainer import Trainer
from tests.processes import linux, running, wait_until_gone

pytestmark = pytest.mark.slow

SMALL = TrainConfig(prompts=4, group_size=4, steps=6, epochs=2)
SCRIPT = """
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig
with AsyncTrainer(TrainConfig(prompts=4, group_size=4, steps=10**6), queue=4) as trainer:
    for row in trainer.run():
        print(row["step"], flush=True)
"""

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")


def actors() -> list:
    return [process for process in multiprocessing.active_children() if process.name == "rlnotes actor"]


def kill_actor() -> None:
    (actor,) = actors()
    os.kill(actor.pid, signal.SIGKILL)


def plain(row: Metrics) -> Metrics:
    """Metrics that do not hang on the clock, nor on who sampled."""
    return {name: row[name] for name in ("step", "reward", "loss", "gradient_norm", "ratio_deviation", "tokens")}


def weights(trainer: Trainer) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])


# --- A run with the actor ahead


class Recorded(AsyncTrainer):
    """Keeps the weights of every version that a step began with, and what every draw took at which version."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.models: dict[int, Transformer] = {}
        self.taken: list[tuple[int, Rollout]] = []
        self.draw, self.parts.rollout = self.parts.rollout, self.drawn

    def drawn(self, prompts: Tensor) -> Rollout:
        copy = Transformer(self.model.config)
        copy.load_state_dict(self.model.state_dict())
        self.models[self.updates] = copy
        rollout = self.draw(prompts)
        self.taken.append((self.updates, rollout))
        return rollout


@pytest.fixture(scope="module")
def ahead() -> tuple[Recorded, list[Metrics]]:
    class Mine(Reverse):
        """A task that cannot be pickled, as one from a notebook."""

        def __reduce__(self):
            raise TypeError("this task does not travel")

    config = TrainConfig(steps=24, prompts=16, learning_rate=2e-3, measure_shift=True)
    with Recorded(config, Mine(), queue=2) as trainer:
        trainer.model.load_state_dict(Trainer(TrainConfig()).model.state_dict())  # the weights shipped for reverse
        trainer.begin_rl()
        trainer.warm = True
        rows = list(trainer.run())
    assert not actors()
    return trainer, rows


def test_it_learns_from_old_rollouts(ahead):
    _, rows = ahead
    first, last = (sum(row["reward"] for row in part) / 10 for part in (rows[:10], rows[-10:]))
    assert first < 0.5 < 0.6 < last


def test_every_rollout_has_one_version_and_is_at_most_queue_steps_old(ahead):
    trainer, rows = ahead
    lags = []
    for now, rollout in trainer.taken:
        (version,) = rollout.version.unique().tolist()
        lags.append(now - version)
    assert lags == [row["lag"] for row in rows]
    assert 0 <= min(lags) < max(lags) <= 2
    assert all(row["wasted"] == row["restarts"] == 0 for row in rows)


def test_what_sampled_is_the_version_that_the_rollout_names(ahead):
    """Weights read in part from one version and in part from another would fit neither."""
    trainer, _ = ahead
    confused = 0.0
    for now, rollout in trainer.taken:
        version = int(rollout.version[0, 0])
        with torch.no_grad():
            own, other = (token_logp(trainer.models[v], rollout) - rollout.logp_behavior for v in (version, now))
        assert own[rollout.mask].abs().max() < 1e-5
        confused = max(confused, float(other[rollout.mask].abs().max()) if version != now else 0.0)
    assert confused > 1e-2  # the check above can fail


def test_the_lag_is_seen_as_staleness(ahead):
    _, rows = ahead
    for row in rows:
        assert (row["staleness"] > 1e-4) == (row["ratio_deviation"] > 1e-3) == (row["lag"] > 0)


def test_what_is_outside_the_window_is_dropped_and_counted():
    with AsyncTrainer(SMALL, window=2, queue=4) as trainer:  # a step makes two updates
        rows = list(trainer.run())
    assert all(row["lag"] in (0, 2) for row in rows)
    wasted = [row["wasted"] for row in rows]
    assert wasted == sorted(wasted) and wasted[-1] >= 16 and all(count % 16 == 0 for count in wasted)
    used = sum(row["length"] * 16 for row in rows)
    assert rows[-1]["tokens"] > used


def test_new_weights_arrive_in_the_middle_of_responses():
    """Long responses, few of them: the actor is the slower one, and the learner's update comes while it samples."""
    with Recorded(replace(SMALL, size=32, warm_start="none", epochs=1), queue=1, partial=True) as trainer:
        rows = list(trainer.run())
    mixed = 0
    for now, rollout in trainer.taken:
        versions = rollout.version[0]
        assert (rollout.version == versions).all() and (versions.diff() >= 0).all()
        assert now - 1 <= versions[0] and versions[-1] <= now
        mixed += int(versions[0] < versions[-1])
    assert mixed > 0
    assert any(0 < row["lag"] < 1 for row in rows)


# --- Without a lead a run is a function of the seed, whatever happens to the actor


class Seeded(Trainer):
    """One process; each draw from a seed of its own, as an actor is told."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.parts.rollout = self.drawn

    def drawn(self, prompts: Tensor) -> Rollout:
        seed = int(torch.randint(2**63 - 1, (), generator=self.generator))
        generator = torch.Generator().manual_seed(seed)
        return self.sampler.sample(self.model, prompts, self.config.group_size, generator, self.updates)


@posix
def test_a_killed_actor_is_replaced_and_leaves_no_trace_in_the_numbers():
    expected = Seeded(SMALL)
    with AsyncTrainer(SMALL, queue=0) as trainer:
        rows = []
        for row in trainer.run():
            rows.append(row)
            if row["step"] in (2, 4):
                kill_actor()
    assert [plain(row) for row in rows] == [plain(row) for row in expected.run()]
    assert torch.equal(weights(trainer), weights(expected))
    assert [row["restarts"] for row in rows] == [0, 0, 1, 1, 2, 2]
    assert all(row["lag"] == 0 for row in rows)


def test_a_checkpoint_goes_on_exactly_without_a_lead_and_a_trainer_can_be_entered_again(tmp_path):
    expected = Seeded(SMALL)
    list(expected.run())
    with AsyncTrainer(SMALL, queue=0) as trainer:
        list(trainer.run(3))
    trainer.save(tmp_path)
    second = AsyncTrainer.load(tmp_path, queue=0)
    for going_on in (trainer, second):
        with going_on:
            list(going_on.run())
        assert torch.equal(weights(going_on), weights(expected))


# --- Deaths and errors


@posix
@linux
def test_an_actor_killed_at_work_costs_nothing_but_time():
    """Killed at any moment: while it samples, sends, or reads the weights."""
    config = replace(SMALL, prompts=16, group_size=16, steps=12, epochs=1)
    with AsyncTrainer(config, queue=3, window=100) as trainer:
        run = trainer.run()
        rows = [next(run)]
        timer = threading.Timer(0.02, kill_actor)
        timer.start()
        rows += list(run)
        timer.join()
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert rows[-1]["restarts"] == 1 and rows[-1]["wasted"] == 0
    assert not actors()


@posix
def test_an_actor_that_dies_again_and_again_is_given_up():
    stop = threading.Event()

    def murder() -> None:
        while not stop.wait(0.01):
            for actor in actors():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(actor.pid, signal.SIGKILL)

    murderer = threading.Thread(target=murder)
    with AsyncTrainer(SMALL) as trainer:
        murderer.start()
        try:
            with pytest.raises(RuntimeError, match=rf"the {RESTARTS + 1}th in a row, was killed by signal 9"):
                next(trainer.run())
        finally:
            stop.set()
            murderer.join()
        assert not actors()
        assert next(trainer.run())["restarts"] == RESTARTS  # and the learner can go on


def test_an_error_in_the_actor_is_shown_with_its_text_and_the_learner_goes_on():
    with AsyncTrainer(SMALL, queue=0) as trainer:
        head = trainer.model.head.weight.detach().clone()
        with torch.no_grad():
            trainer.model.head.weight.fill_(torch.nan)
        with pytest.raises(RuntimeError, match=r"the actor failed(.|\n)*ValueError: the model gives no distribution"):
            next(trainer.run())
        assert not actors()
        with torch.no_grad():
            trainer.model.head.weight.copy_(head)
        assert next(trainer.run())["restarts"] == 0


# --- Nothing is left over


@linux
def test_file_descriptors_do_not_pile_up():
    def opened(pid: int | str) -> int:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    with AsyncTrainer(replace(SMALL, steps=110, prompts=2, group_size=2, epochs=1)) as trainer:
        run = trainer.run()
        for _ in range(10):
            next(run)
        (actor,) = actors()
        before = opened("self"), opened(actor.pid)
        for _ in range(100):
            next(run)
        assert (opened("self"), opened(actor.pid)) == before


@linux
def test_an_actor_ends_when_its_learner_is_killed():
    with running(sys.executable, "-c", SCRIPT) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
        wait_until_gone(process.pid)


@linux
def test_an_actor_ends_when_its_learner_is_killed_as_it_writes_weights():
    """The dead learner keeps the lock, for which the actor waits."""
    script = SCRIPT.replace(
        "        print", "        trainer.parts._actor._weights._version.get_lock().acquire()\n        print"
    )
    with running(sys.executable, "-c", script + "        import time; time.sleep(3600)\n") as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(1)  # the actor has ended the rollout in hand, and wants to read weights for the next
        process.kill()
        wait_until_gone(process.pid)


@linux
def test_an_interrupt_of_the_whole_group_ends_both_and_only_the_learner_speaks():
    with running(sys.executable, "-c", SCRIPT) as process:
        assert process.stdout
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=180)
        wait_until_gone(process.pid)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with running(sys.executable, str(script)) as process:
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("RuntimeError: the actor ended with exit code 1")
    assert 'if __name__ == "__main__":' in errors.splitlines()[-1]
