import json
import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.checkpoint import KEEP, latest_checkpoint, load_checkpoint, part, save_checkpoint
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Reverse
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, KLPenalty

SMALL = TrainConfig(prompts=4, group_size=4, steps=6, epochs=2, minibatches=2)
WARM = replace(SMALL, warm_start="train", warm_batch=8, warm_limit=8)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def rows(trainer: Trainer, steps: int | None = None) -> list[dict[str, float]]:
    """Metrics without what differs from run to run: time."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.run(steps)]


def test_first_update_has_ratio_one_and_a_loss_near_zero_with_a_gradient():
    trainer = Trainer(TrainConfig(steps=3))
    for row in trainer.run():
        assert row["ratio_deviation"] < 1e-5
        assert abs(row["loss"]) < 1e-3 < row["gradient_norm"]


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_sampler_and_trainer_use_one_temperature(temperature):
    (row,) = Trainer(replace(SMALL, temperature=temperature, epochs=1, minibatches=1)).run(1)
    assert row["ratio_deviation"] < 1e-5


@pytest.mark.parametrize(
    ("setting", "same"), [(dict(temperature=0.6), True), (dict(top_k=3), False), (dict(top_p=0.9), False)], ids=str
)
def test_the_metrics_say_whether_sampler_and_trainer_agree(setting, same):
    """A temperature belongs to both. Top-k and top-p belong to mu only: pi / mu is then the mass that was left."""
    trainer = Trainer(replace(SMALL, **setting, epochs=1, minibatches=1))
    (row,) = trainer.run(1)
    assert (row["ratio_deviation"] < 1e-5) == (row["mismatch"] < 1e-6) == same
    assert row["ratio_deviation"] < 1  # pi is never above mu where mu samples
    if not same:
        rollout = trainer.parts.draw()
        with torch.no_grad():
            left = token_logp(trainer.model, rollout, transform=trainer.transform) - rollout.logp_behavior
        assert left[rollout.mask].max() < 1e-5 and left[rollout.mask].min() < -1e-3


def test_tokens_that_fall_out_of_the_top_k_do_not_stop_a_run():
    """Scored with the sampler's own cut, such a token would have probability 0 after the first update."""
    for row in Trainer(replace(SMALL, top_k=2, epochs=4, learning_rate=1e-2, warmup_updates=1)).run():
        assert row["gradient_norm"] < 1e3


def test_a_run_repeats_itself():
    assert rows(Trainer(SMALL)) == rows(Trainer(SMALL))
    assert rows(Trainer(SMALL)) != rows(Trainer(replace(SMALL, seed=1)))


@pytest.mark.parametrize(
    ("config", "cut"),
    [(SMALL, 1), (SMALL, 4), (WARM, 3), (WARM, 8), (WARM, 11)],
    ids=["rl-1", "rl-4", "warm-3", "warm-8", "warm-11"],
)
@pytest.mark.parametrize("kl", [None, KLPenalty(0.1)], ids=["plain", "kl"])
def test_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tmp_path, config, cut, kl):
    choices = replace(GRPO, kl=kl)
    whole = Trainer(config, choices=choices)
    expected = rows(whole)
    first = Trainer(config, choices=choices)
    run = first.run()
    seen = [next(run) for _ in range(cut)]
    first.save(tmp_path)
    second = Trainer.load(tmp_path, choices=choices)
    rest = rows(second)
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in seen] + rest == expected
    assert same(weights(second), weights(whole))


def test_checkpoint_without_momentum_would_not_be_exact(tmp_path):
    """The test above can fail: leave the optimiser's state out and the runs part."""
    trainer = Trainer(SMALL)
    list(trainer.run(3))
    trainer.save(tmp_path)
    exact, forgetful = Trainer.load(tmp_path), Trainer.load(tmp_path)
    forgetful.begin_rl()
    assert rows(exact) != rows(forgetful)


@pytest.mark.parametrize("missing", ["model", "optimizer", "rng"])
def test_a_checkpoint_that_lacks_a_part_says_which(tmp_path, missing):
    trainer = Trainer(SMALL)
    list(trainer.run(2))
    path = trainer.save(tmp_path) / "tensors.safetensors"
    save_file({k: v for k, v in load_file(path).items() if not k.startswith(missing)}, path)
    with pytest.raises(ValueError, match=rf"lacks {missing}\."):
        Trainer.load(tmp_path)


def test_where_there_is_no_checkpoint_that_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        Trainer.load(tmp_path / "elsewhere")


def test_checkpoints_hold_no_pickle_and_old_ones_go(tmp_path):
    trainer = Trainer(SMALL)
    for _ in trainer.run():
        trainer.save(tmp_path)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [f"step_{step:08d}" for step in range(7 - KEEP, 7)]
    assert sorted(p.name for p in latest_checkpoint(tmp_path).iterdir()) == ["state.json", "tensors.safetensors"]
    json.loads((latest_checkpoint(tmp_path) / "state.json").read_text(encoding="utf-8"))


def test_a_broken_write_leaves_the_checkpoint_before_it(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, dict(x=torch.ones(2)), dict(step=1))
    monkeypatch.setattr(json, "dumps", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, 2, dict(x=torch.ones(2)), dict(step=2))
    assert latest_checkpoint(tmp_path).name == "step_00000001"


def test_an_interrupt_waits_for_the_step_and_leaves_a_trainer_that_goes_on():
    trainer = Trainer(TrainConfig(steps=200, prompts=8))
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in trainer.run():
            pass
    assert 0 < trainer.step < 200
    assert trainer.updates == trainer.step
    twin = Trainer(TrainConfig(steps=200, prompts=8))
    list(twin.run(trainer.step + 2))
    list(trainer.run(trainer.step + 2))
    assert same(weights(trainer), weights(twin))


def test_groups_without_a_gradient_are_left_out_exactly():
    """Weights after steps with and without the shortcut agree up to the rounding of sums."""
    config = TrainConfig(steps=4, prompts=8, group_size=4)
    fast = Trainer(config)
    slow = Trainer(config, choices=replace(GRPO, kl=KLPenalty(0.0)))  # a KL term, even of weight 0, keeps all groups
    wasted = [row["wasted_groups"] for row in fast.run()]
    list(slow.run())
    assert max(wasted) > 0
    for name, value in weights(fast).items():
        assert torch.allclose(value, weights(slow)[name], atol=1e-5), name


def test_a_rollout_in_which_nothing_differs_changes_weights_only_by_momentum():
    class Hopeless(Reverse):
        def reward(self, rollout):
            return torch.zeros(len(rollout.tokens))

    trainer = Trainer(replace(SMALL, warm_start="none"), task=Hopeless())
    before = weights(trainer)
    for row in trainer.run():
        assert row["wasted_groups"] == 1 and row["gradient_norm"] == 0
    assert same(before, weights(trainer))


def test_an_objective_of_ones_own_trains_and_is_asked_for_again(tmp_path):
    mine = replace(GRPO, advantage=partial(group_mean_std, ddof=1, eps=1e-4, eps_inside=False))
    trainer = Trainer(SMALL, choices=mine)
    list(trainer.run(1))
    trainer.save(tmp_path)
    with pytest.raises(ValueError, match="pass it again as choices"):
        Trainer.load(tmp_path)
    assert Trainer.load(tmp_path, choices=mine).step == 1


def test_proximal_anchor_is_recomputed_and_equals_the_recorded_one_here():
    recorded_anchor = rows(Trainer(SMALL))
    proximal = rows(Trainer(SMALL, choices=replace(GRPO, anchor="proximal")))
    for a, b in zip(recorded_anchor, proximal, strict=True):
        assert a["reward"] == b["reward"]
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(group_size=1), "group_size is 1: a group of one has no baseline"),
        (dict(minibatches=3), "minibatches 3 does not divide prompts 4"),
        (dict(learning_rate=0.0), "learning_rate is 0.0; it must be positive"),
        (dict(temperature=0.0), "temperature is 0.0"),
        (dict(preset="huge"), "unknown preset 'huge'"),
        (dict(precision="bfloat16"), "bfloat16 needs a GPU"),
        (dict(steps=-1), "steps is -1"),
        (dict(prompts=0), "prompts is 0"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


def test_unknown_recipe_is_refused():
    with pytest.raises(ValueError, match="unknown recipe 'gropo'; choose one of"):
        Trainer(replace(SMALL, recipe="gropo"))


def test_shipped_weights_are_used_and_solve_a_third():
    trainer = Trainer(TrainConfig(steps=0))
    assert trainer.warm
    assert 0.33 < trainer.evaluate(2048) < 0.42
    assert Trainer(TrainConfig(warm_start="none")).evaluate(64) == 0


def test_metrics_are_logged_once_per_step_also_after_a_cut(tmp_path):
    config = replace(WARM, steps=5)
    trainer = Trainer(config)
    run = recorded(trainer, tmp_path / "run", checkpoint_every=4)
    for _ in range(11):  # 8 warm-start updates and 3 RL steps; the last checkpoint holds 8
        next(run)
    killed = shutil.copytree(tmp_path / "run", tmp_path / "killed")  # what a kill would leave now
    log = killed / "metrics.jsonl"
    log.write_text(log.read_text(encoding="utf-8") + '{"phase": 1, "st', encoding="utf-8")
    again = Trainer.load(killed / "checkpoints")
    assert again.step == 0 and again.warm_updates == 8
    with pytest.warns(UserWarning, match="ends in the middle of a line"):
        list(recorded(again, killed, checkpoint_every=4))
    logged = [(row["phase"], row["step"]) for row in read_metrics(killed)]
    assert logged == [(0, i) for i in range(1, 9)] + [(1, i) for i in range(1, 6)]
    assert list((killed / "tensorboard").iterdir())


def test_a_step_is_fast_enough_to_watch():
    """A ratio, not a time: a whole RL step costs less than two plain passes over as many sequences."""
    trainer = Trainer(TrainConfig(steps=20))
    list(trainer.run(2))
    tokens = torch.randint(24, (512, 18))

    def plain() -> None:
        trainer.model(tokens).sum().backward()

    def seconds(work) -> float:
        times = []
        for _ in range(5):
            started = time.process_time()
            work()
            times.append(time.process_time() - started)
        return sorted(times)[2]

    plain()
    assert seconds(trainer.rl_step) < 2 * seconds(plain)


def test_paths_are_made_on_the_way(tmp_path):
    list(recorded(Trainer(replace(SMALL, steps=1)), tmp_path / "a" / "b"))
    assert isinstance(latest_checkpoint(tmp_path / "a" / "b" / "checkpoints"), Path)


@pytest.mark.parametrize(
    ("make", "with_state", "without"),
    [
        (lambda w: torch.optim.SGD([w], 0.1, momentum=0.9), 0.486, 0.648),
        (lambda w: torch.optim.Adam([w], 0.1), 0.701586, 0.700412),
    ],
    ids=["sgd", "adam"],
)
def test_what_a_forgotten_optimiser_state_costs(tmp_path, make, with_state, without):
    """w^2 / 2 from w = 1, saved after two steps: the third step tells whether the moments came back."""

    def step(w: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        (w**2 / 2).backward()
        optimizer.step()

    w = torch.tensor(1.0, requires_grad=True)
    optimizer = make(w)
    for _ in range(2):
        step(w, optimizer)
    moments = optimizer.state_dict()["state"][0]
    save_checkpoint(tmp_path, 2, {"w": w.detach(), **{f"o.{k}": v for k, v in moments.items() if v is not None}}, {})
    tensors, _ = load_checkpoint(latest_checkpoint(tmp_path))
    for state, expected in ((part(tensors, "o"), with_state), ({}, without)):
        again = tensors["w"].clone().requires_grad_()
        fresh = make(again)
        if state:
            fresh.load_state_dict(dict(state={0: state}, param_groups=fresh.state_dict()["param_groups"]))
        step(again, fresh)
        assert again.item() == pytest.approx(expected, abs=1e-5)


def test_a_step_that_breaks_off_is_not_saved(tmp_path, monkeypatch):
    """The second of a step's four updates fails: what is on the disk is the state before the step."""
    trainer = Trainer(SMALL)
    run = recorded(trainer, tmp_path, checkpoint_every=2)
    for _ in range(3):
        next(run)
    update, calls = trainer.update, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise RuntimeError("no more memory")
        return update(*arguments)

    monkeypatch.setattr(trainer, "update", failing)
    with pytest.raises(RuntimeError, match="no more memory"):
        next(run)
    again = Trainer.load(tmp_path / "checkpoints")
    assert again.step == 2
    assert rows(again) == rows(Trainer(SMALL))[2:]


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone(monkeypatch):
    trainer = Trainer(SMALL)
    before = weights(trainer)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(torch.nan))
    with pytest.raises(ValueError, match="the gradient norm is nan; the weights were left as they were"):
        list(trainer.run(1))
    assert same(before, weights(trainer))
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
