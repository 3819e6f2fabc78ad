"""The step itself: short enough to be read whole, and open to other parts."""

import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlnotes.lm import step as step_module
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.parts import Parts
from rlnotes.lm.step import step
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import Batch, policy_loss

SMALL = TrainConfig(prompts=4, group_size=4, steps=2, epochs=2, minibatches=2)
LINES = ["prompts", "rollout", "rewards", "filled", "advantages", "minibatches"]
OF_AN_UPDATE = ["micro_batches", "log_probs", "batch", "loss", "look", "update"]


def test_it_fits_on_a_screen():
    assert len(Path(inspect.getfile(step_module)).read_text(encoding="utf-8").splitlines()) <= 40
    assert len(inspect.getsource(step).splitlines()) <= 20


def test_it_does_each_line_in_its_turn():
    done: list[str] = []

    class Told(Parts):
        def __getattribute__(self, name: str):
            if name in (*LINES, *OF_AN_UPDATE, "metrics"):
                caller = sys._getframe(1)
                if caller.f_code is step.__code__:
                    done.append(name)
            return super().__getattribute__(name)

    step(Told(Trainer(SMALL)))
    assert done == [*LINES, *OF_AN_UPDATE * 4, "metrics"]


def test_a_part_of_ones_own_is_a_method():
    """Twice the loss is twice the gradient: the clip of its norm hides it from the weights, not from the metric."""

    class Twice(Parts):
        def loss(self, batch: Batch) -> Tensor:
            return 2 * policy_loss(self.learner.choices, batch)

    config = replace(SMALL, epochs=1, minibatches=1)
    plain, own = (step(parts(Trainer(config))) for parts in (Parts, Twice))
    assert own["gradient_norm"] == pytest.approx(2 * plain["gradient_norm"], rel=1e-5)
    assert own["reward"] == plain["reward"]


def test_a_trainer_only_repeats_it():
    usual, by_hand = Trainer(SMALL), Trainer(SMALL)

    def timeless(row: Metrics) -> Metrics:
        return {name: value for name, value in row.items() if name != "seconds"}

    assert [timeless(row) for row in usual.run()] == [step(by_hand.parts) for _ in range(2)]
    weights = zip(usual.model.parameters(), by_hand.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)


def test_this_room_knows_nothing_of_the_gpus_and_says_so_where_it_is_wanted():
    code = (
        "import pkgutil, sys, warnings, rlnotes.lm\n"
        "for one in pkgutil.walk_packages(rlnotes.lm.__path__, 'rlnotes.lm.'):\n"
        "    if one.name.split('.')[-1] not in ('batched_runs', 'compare', 'comparisons', 'arena', 'arena_parts',\n"
        "                                       'stability'):\n"
        "        __import__(one.name)\n"
        "assert not [name for name in sys.modules if name.startswith('rlnotes.gpu')]\n"
        "from rlnotes.lm.config import TrainConfig\n"
        "from rlnotes.lm.trainer import Trainer\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    Trainer(TrainConfig(prompts=2, group_size=2, cuda_graph=True)).rl_step()\n"
        "assert 'import rlnotes.gpu' in str(seen[-1].message)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
