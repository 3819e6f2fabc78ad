"""The loops of chapter 05 reach their thresholds on five of five seeds, and show what the chapter says of them."""

import time
from copy import deepcopy
from itertools import combinations

import gymnasium
import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from rlnotes.bounds import mdp as bounds
from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.trpo import TRPOConfig, trpo
from rlnotes.estimators.baselines import group_mean
from rlnotes.estimators.divergences import kl
from rlnotes.estimators.importance import sequence_log_ratio
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import expected_return, optimal_policy, softmax, values
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.trust_region import next_token_log_probs, surrogate, trpo_step

SEEDS = pytest.mark.parametrize("seed", range(5))
LAKE = from_gymnasium(gymnasium.make("FrozenLake-v1", max_episode_steps=1000), gamma=0.9)


def test_chapter_05_ten_exact_steps_on_the_lake_all_gain_though_none_is_promised_anything():
    logits, start = np.zeros((16, 4)), np.full((16, 4), 0.25)
    for _ in range(10):
        pi = softmax(logits)
        a = values(LAKE, pi).a
        beta = brentq(lambda b, z=logits, a=a, pi=pi: bounds.mean_kl(LAKE, softmax(z + b * a), pi) - 0.01, 0, 1e4)
        assert isinstance(beta, float)
        logits = logits + beta * a
        found = bounds.average_kl(LAKE, softmax(logits), pi)
        assert found.holds and found.true > 0 > found.lower
    best = float(LAKE.start @ optimal_policy(LAKE)[1].v)
    gained = expected_return(LAKE, softmax(logits)) - expected_return(LAKE, start)
    assert gained > 0.8 * (best - expected_return(LAKE, start))


def cartpole(config: TRPOConfig) -> list[dict[str, float]]:
    """The run of the chapter, with the mean return of 16 fresh episodes every fifth update."""
    network, rows = make_network(make_envs(config.env, 1, 0), torch.Generator().manual_seed(config.seed)), []
    for row in trpo(config, network):
        if row["update"] % 5 == 0:
            collector = Collector(make_envs(config.env, 16, 1000), torch.Generator().manual_seed(1000), 1000)
            row["fresh"] = float(np.mean(collector.collect_episodes(network).finished))
        rows.append(row)
    return rows


@SEEDS
def test_chapter_05_trpo_reaches_475_on_cartpole_and_stays_and_its_policy_is_there_before_the_mean(seed: int):
    rows = cartpole(TRPOConfig(seed=seed, updates=80))
    reached = [row["return_mean"] >= 475 for row in rows]
    first = reached.index(True)
    assert 52 <= first < 68 and min(row["return_mean"] for row in rows[first:]) > 460
    fresh = {row["update"]: row["fresh"] for row in rows if "fresh" in row}
    assert 15 <= next(update for update, found in fresh.items() if found >= 480) <= 30
    assert fresh[40] > 50 + rows[39]["return_mean"]
    assert all(row["accepted"] and row["kl"] <= 0.01 for row in rows)
    assert 0.5 < np.mean([row["gained"] / row["predicted"] for row in rows]) < 1.5


@SEEDS
def test_chapter_05_a_limit_of_one_goes_up_and_down_though_every_surrogate_rises(seed: int):
    small = cartpole(TRPOConfig(seed=seed, delta=0.001, updates=40))[-1]
    rows = cartpole(TRPOConfig(seed=seed, delta=1.0, updates=40))
    fresh = [row["fresh"] for row in rows if "fresh" in row]
    assert small["fresh"] > 475
    assert any(later < 0.5 * earlier for earlier, later in combinations(fresh, 2))
    assert fresh[-1] < 250 or seed == 3
    assert small["return_mean"] > 240 > 200 > rows[-1]["return_mean"]
    assert all(row["kl"] <= 1 and row["gained"] > 0 for row in rows if row["accepted"])
    assert min(row["entropy"] for row in rows) < 0.35 < 0.5 < small["entropy"]


def advantages(trainer: Trainer, rollout: Rollout) -> torch.Tensor:
    return group_mean(trainer.task.reward(rollout), 16)


@SEEDS
def test_chapter_05_single_steps_of_a_transformer_follow_their_model_up_to_a_hundredth(seed: int):
    trainer = Trainer(TrainConfig(task="reverse", size=8, seed=seed))
    start = deepcopy(trainer.model.state_dict())
    choosers, judges = (trainer.sample(32, 16, "train", seed=10 * seed + k) for k in (0, 1))
    with torch.no_grad():
        old = next_token_log_probs(trainer.model, judges)
        before = surrogate(old, judges, advantages(trainer, judges))
    fair, promised, plain, weight, reports = {}, {}, {}, {}, {}
    for delta in (1e-3, 1e-2, 1e-1):
        reports[delta] = trpo_step(trainer.model, choosers, advantages(trainer, choosers), delta, iterations=5)
        with torch.no_grad():
            now = next_token_log_probs(trainer.model, judges)
            fair[delta] = float(surrogate(now, judges, advantages(trainer, judges)) - before)
            promised[delta] = fair[delta] - float(kl(old, now).mean())
            logp = token_logp(trainer.model, judges)
        w = sequence_log_ratio(judges.logp_behavior, logp, judges.mask).exp()
        plain[delta], weight[delta] = float((trainer.task.reward(judges) * (w - 1)).mean()), float(w.mean())
        trainer.model.load_state_dict(start)
        assert reports[delta].accepted and reports[delta].realised_kl <= delta
    assert all(0.5 < reports[d].realised_kl / reports[d].quadratic_kl <= 1 for d in (1e-3, 1e-2))
    assert reports[0.1].fraction < 1 and reports[0.1].realised_kl > reports[0.1].quadratic_kl
    assert all(reports[d].predicted > reports[d].gained > fair[d] for d in fair)
    assert promised[1e-3] > 0 and promised[1e-2] > 0 > promised[1e-1]
    assert 0.07 < plain[1e-2] < 0.13 and abs(weight[1e-2] - 1) < 0.05  # accuracy rises by about 0.1
    assert plain[1e-1] < 0.05


@SEEDS
def test_chapter_05_five_steps_bring_a_transformer_from_a_third_to_two_thirds(seed: int):
    trainer = Trainer(TrainConfig(task="reverse", size=8, seed=seed))
    assert trainer.evaluate(1024) < 0.45
    for k in range(1, 6):
        rollout = trainer.sample(32, 16, "train", seed=100 * (seed + 1) + k)
        assert trpo_step(trainer.model, rollout, advantages(trainer, rollout), 0.01, iterations=5).accepted
    assert 0.6 < trainer.evaluate(1024) < 0.7


def test_chapter_05_an_update_takes_longer_than_several_of_grpo():
    trainer = Trainer(TrainConfig(task="reverse", size=8, seed=0))
    list(trainer.run(1))
    start = time.process_time()
    list(trainer.run(3))
    middle = time.process_time()
    rollout = trainer.sample(32, 16, "train", seed=1)
    trpo_step(trainer.model, rollout, advantages(trainer, rollout), 0.01, iterations=5)
    assert time.process_time() - middle > middle - start
