"""The loop of chapter 08 reaches its threshold on three of three seeds, and the chapter's statements hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from rlnotes.estimators.baselines import group_mean, group_mean_std
from rlnotes.exact import tokens
from rlnotes.exact.group_gradients import group_moments
from rlnotes.exact.groups import gradient_scale, wasted_share
from rlnotes.exact.token_gradients import flat, reward_gradient, softmax_policy
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import DAPO, DR_GRPO, GRPO, Choices
from rlnotes.studies import load_table, paired_interval

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def after_training(choices: Choices, seed: int) -> tuple[float, float, float]:
    """Mean reward, and mean lengths of wrong and of right responses, after 30 steps."""
    trainer = Trainer(TrainConfig(task="ramble", learning_rate=3e-4, seed=seed), choices=choices)
    list(trainer.run(30))
    rollout = trainer.sample(prompts=128, group_size=8, split="train", seed=7)
    length, wrong = rollout.mask.sum(-1).float(), trainer.task.reward(rollout) == 0
    return 1 - wrong.float().mean().item(), length[wrong].mean().item(), length[~wrong].mean().item()


@SEEDS
def test_chapter_08_grpo_makes_wrong_responses_long_and_right_ones_short(seed: int):
    reward, wrong, right = after_training(GRPO, seed)
    assert reward >= 0.7
    assert wrong > 11 and right < 4


@SEEDS
@pytest.mark.parametrize("choices", [DR_GRPO, DAPO], ids=["dr_grpo", "dapo"])
def test_chapter_08_the_others_do_not(choices: Choices, seed: int):
    reward, wrong, right = after_training(choices, seed)
    assert reward >= 0.7
    assert wrong - right < 6 and right > 4


@pytest.mark.parametrize("seed", range(5))
def test_chapter_08_what_an_estimator_is_the_gradient_of(seed: int):
    """Theorem 8.3, on random models, for the three weights of the chapter and for a random one."""
    rng = np.random.default_rng(seed)
    model = tokens.single_prompt(rng.integers(0, 4, 81) / 3, vocab_size=3, horizon=4, eos=0)
    policy = softmax_policy(model, [rng.normal(size=(1, 3**t, 3)) for t in range(4)])
    own, b = tokens.own_tokens(model), tokens.expected_reward(model, policy)
    lengths, ends = own.sum(1), (tokens.sequences(3, 4) == 0).any(1)
    for size, w in ((2, np.full(81, 0.25)), (3, 1 / lengths), (4, ends / 4), (3, rng.normal(size=81))):
        mean = flat(group_moments(model, policy, policy, (own * w[:, None])[None], group_mean, size).mean)
        climbed = replace(model, reward=w * (model.reward - b))
        np.testing.assert_allclose(mean, (size - 1) / size * flat(reward_gradient(climbed, policy)), atol=1e-12)


def test_chapter_08_two_kept_groups_point_where_all_groups_point():
    """Fact 8.8: shares of kept groups, listed one by one, times their mean estimates, for three prompts."""
    p, G = np.array([0.05, 0.5, 0.97]), 6
    plain = np.array([q * (1 - q) * gradient_scale(group_mean_std, G, q) for q in p])
    counts, kept, sums = np.arange(1, G), [], []
    for q in p:
        estimates = []
        for right in counts:
            rewards = (np.arange(G) < right).astype(float)
            estimates.append(np.mean(group_mean_std(rewards, G) * (rewards - q)))
        chance = binom.pmf(counts, G, q)
        kept.append(chance.sum())
        sums.append(chance @ np.array(estimates))
        assert (chance @ counts / G) / chance.sum() == pytest.approx((q - q**G) / (1 - wasted_share(G, q)))
    with_sampling = np.array(sums) / np.sum(kept)
    np.testing.assert_allclose(with_sampling / plain, 1 / np.sum(kept), rtol=1e-6)


def test_chapter_08_what_the_stored_runs_are_said_to_show():
    ramble, clip = load_table("08_ramble"), load_table("08_clip")
    wrong = {name: ramble.last(name, "length_wrong", 5) for name in ramble.rows}
    assert wrong["grpo"].min() > 15
    for name in ("grpo, constant", "grpo, token mean", "dr_grpo", "dapo"):
        assert wrong[name].max() < 13 and wrong[name].min() < 6
    assert max(ramble.last("dapo, overlong", "length", 5)) < 3
    assert paired_interval(ramble.last("dr_grpo", "accuracy", 1), ramble.last("grpo", "accuracy", 1)).high < 0
    for rate in ("1e-4", "3e-4"):
        for name in ("high 0.28", "high 1.0"):
            for metric in ("accuracy", "entropy"):
                ours, grpo = (clip.last(f"{key} {rate}", metric, 1) for key in (name, "grpo"))
                found = paired_interval(ours, grpo)
                assert found.low < 0 < found.high, (rate, name, metric)
