"""Training on what older weights wrote: which ones, and that a run goes on exactly."""

import sys
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from rlnotes import cli
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO

SMALL = TrainConfig(prompts=4, group_size=4, steps=6, epochs=2, minibatches=2)  # four updates a step


def rows(trainer: Trainer) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.run()]


def same(a: Trainer, b: Trainer) -> bool:
    theirs = b.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in a.model.state_dict().items())


@pytest.mark.parametrize(
    ("lags", "begun"), [((4,), [0, 0, 4, 8]), ((6,), [0, 0, 0, 4]), ((8,), [0, 0, 0, 4]), ((3,), [0, 0, 4, 8])]
)
def test_rollouts_come_from_the_weights_that_began_an_earlier_step(monkeypatch, lags, begun):
    """A lag between two steps reaches the next older weights: 6 of four updates a step is 8, 3 is 4."""
    trainer = Trainer(replace(SMALL, lags=lags))
    began, drawn = {0: deepcopy(trainer.model)}, []
    draw = trainer.parts.rollout
    monkeypatch.setattr(trainer.parts, "rollout", lambda prompts: drawn.append(draw(prompts)) or drawn[-1])
    for _ in trainer.run(4):
        began[trainer.updates] = deepcopy(trainer.model)
    for rollout, version in zip(drawn, begun, strict=True):
        assert (rollout.version == version).all()
        with torch.no_grad():
            gaps = {v: (token_logp(its, rollout) - rollout.logp_behavior)[rollout.mask] for v, its in began.items()}
        off = {v: gap.abs().max() for v, gap in gaps.items()}
        assert off[version] < 1e-5
        assert all(other > 1e-3 for v, other in off.items() if v != version)


LAGGING = {
    "one": dict(lags=(6,)),
    "mixed": dict(lags=(0, 4, 9), lag_weights=(2.0, 1.0, 1.0)),
    "switching": dict(lags=(0, 8), switch=0.3, rollout_weights="bfloat16", logit_noise=0.1, measure_shift=True),
}


@pytest.mark.parametrize("name", LAGGING)
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_resumed_run_goes_on_bit_for_bit(tmp_path, name, cut):
    config = replace(SMALL, **LAGGING[name])
    whole = Trainer(config)
    expected = rows(whole)
    first = Trainer(config)
    list(first.run(cut))
    first.save(tmp_path)
    again = Trainer.load(tmp_path)
    assert again.config == config and again.sampler.behavior == first.sampler.behavior
    assert rows(again) == expected[cut:]
    assert same(again, whole)
    assert expected != rows(Trainer(replace(config, lags=(), lag_weights=(), switch=0.0)))


def test_a_run_that_forgot_its_past_would_not_be_exact(tmp_path):
    trainer = Trainer(replace(SMALL, lags=(6,)))
    list(trainer.run(3))
    trainer.save(tmp_path)
    exact, forgetful = Trainer.load(tmp_path), Trainer.load(tmp_path)
    assert forgetful.past is not None
    forgetful.past.models.clear()
    assert rows(exact) != rows(forgetful)


def test_rounds_of_dynamic_sampling_are_joined_with_their_versions():
    trainer = Trainer(replace(SMALL, lags=(0, 4), switch=0.5), choices=replace(GRPO, dynamic_sampling=True))
    assert max(row["rounds"] for row in trainer.run()) > 1


def test_what_is_looked_at_is_the_newest_policy():
    plain, lagging = Trainer(SMALL), Trainer(replace(SMALL, lags=(8,)))
    assert torch.equal(plain.sample(16).tokens, lagging.sample(16).tokens)


def test_one_lag_of_zero_is_todays_run_bit_for_bit():
    first, second = Trainer(SMALL), Trainer(replace(SMALL, lags=(0,)))
    assert rows(first) == rows(second)
    assert same(first, second)


def test_the_command_line_takes_lags(tmp_path, monkeypatch):
    small = ["--prompts", "4", "--group-size", "4", "--steps", "3", "--measure-shift"]
    lagging = ["--lags", "0", "2", "--lag-weights", "1", "3", "--switch", "0.25"]
    monkeypatch.setattr(sys, "argv", ["rlnotes", "train", "--out", str(tmp_path), *small, *lagging])
    assert cli.main() == 0
    trainer = Trainer.load(tmp_path / "checkpoints")
    assert (trainer.config.lags, trainer.config.lag_weights, trainer.config.switch) == ((0, 2), (1.0, 3.0), 0.25)
    lag = [row["lag"] for row in read_metrics(tmp_path)]
    assert lag[0] == 0 < lag[1] <= 1 < lag[2] <= 2
