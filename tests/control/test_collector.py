"""The collector gives the transitions that happened, whatever way the environments start again."""

import random
from dataclasses import fields

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor

from rlnotes.control.collector import Collector, Steps, make_envs, make_network
from rlnotes.estimators.returns import discounted_reward_to_go, gae, reward_to_go
from tests.control.tiny_envs import BOTH_MODES, Count, Fixed, Leaves, register, ten_then_two, vector

SAME, NEXT = BOTH_MODES
both_modes = pytest.mark.parametrize("mode", BOTH_MODES)


def collector(makers: list, mode: AutoresetMode, seed: int = 0) -> Collector:
    return Collector(vector(makers, mode), torch.Generator().manual_seed(seed), seed)


def tensors(steps: Steps) -> dict[str, Tensor]:
    return {field.name: getattr(steps, field.name) for field in fields(Steps) if field.name != "finished"}


# --- Phantoms


def test_eight_calls_hold_two_phantoms_where_the_next_call_resets():
    found = collector([lambda: Count((3,) * 9, truncate=True)], NEXT)
    steps = found.collect(Fixed(), 8)
    assert steps.valid[:, 0].tolist() == [True, True, True, False, True, True, True, False]
    row = steps.obs[3, 0], steps.rewards[3, 0], steps.next_obs[3, 0], steps.truncated[3, 0]
    assert [float(value) for value in row] == [3, 0, 0, 0]
    assert steps.next_obs[2, 0] == 3
    assert steps.finished == [3, 3] and found.env_steps == 6


def test_eight_calls_are_eight_transitions_where_the_ending_call_resets():
    found = collector([lambda: Count((3,) * 9, truncate=True)], SAME)
    steps = found.collect(Fixed(), 8)
    assert steps.valid.all()
    assert steps.obs[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert steps.next_obs[:, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert steps.finished == [3, 3] and found.env_steps == 8


def test_a_thousand_random_calls_of_cartpole_hold_41_phantoms():
    """The environments are stepped by hand here: their starts and their action space are seeded by make_envs."""
    envs = make_envs("CartPole-v1", 1, seed=0, autoreset=NEXT)
    ends, phantoms, before = 0, 0, False
    for _ in range(1000):
        _, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
        phantoms += before
        assert (reward[0] == 0) == before
        before = bool(terminated[0] or truncated[0])
        ends += before
    assert (ends, phantoms) == (41, 41)


@pytest.mark.parametrize("truncate", [False, True])
def test_both_modes_give_the_same_batch(truncate: bool):
    """Episodes of two steps in three environments: six rows without phantoms, eight with."""
    batches = []
    for mode, rows in zip(BOTH_MODES, (6, 8), strict=True):
        steps = collector([lambda: Count((2,) * 9, truncate)] * 3, mode).collect(Fixed(logits=(0.0, 200.0)), rows)
        values = steps.obs[..., 0] + 1, steps.next_obs[..., 0] + 1
        flags = steps.terminated, steps.truncated
        batch = tensors(steps)
        batch["gae"] = gae(steps.rewards, *values, *flags, gamma=0.9, lam=0.5)
        batch["reward_to_go"] = reward_to_go(steps.rewards, 0.9, steps.ended)
        batch["discounted"] = discounted_reward_to_go(steps.rewards, 0.9, steps.ended)
        batches.append({name: value[steps.valid].tolist() for name, value in batch.items()})
        assert steps.finished == [2.0] * 9
    assert batches[0] == batches[1]
    assert batches[0]["discounted"] == pytest.approx(([1.9] * 3 + [0.9] * 3) * 3)


@both_modes
@pytest.mark.parametrize(("truncate", "expected"), [(True, [0, 0, 1.16, 0.8]), (False, [-4.05, -9, 1.16, 0.8])])
def test_a_time_limit_keeps_the_final_observations_value_and_an_end_does_not(mode, truncate, expected):
    """Episode A counts from 100, V = 10, for two steps; B goes on past the last row, V = 2."""
    network = Fixed(ten_then_two)
    found = collector([lambda: Count((2,), truncate, first=100.0)], mode)
    steps = found.collect(network, 4 + (mode is NEXT))
    values = network.value(steps.obs), network.value(steps.next_obs)
    advantages = gae(steps.rewards, *values, steps.terminated, steps.truncated, gamma=0.9, lam=0.5)
    np.testing.assert_allclose(advantages[steps.valid], expected, atol=1e-5)


@both_modes
def test_a_batch_may_stop_anywhere(mode: AutoresetMode):
    """Also between an end and its phantom: pieces put together are the batch that is taken at once."""
    makers = [lambda: Count((2, 3, 1) * 9), lambda: Count((4, 1) * 9, truncate=True)]
    network = Fixed()
    whole = collector(makers, mode).collect(network, 12)
    pieces_of = collector(makers, mode)
    pieces = [pieces_of.collect(network, rows) for rows in (1, 1, 1, 2, 3, 4)]
    for name, value in tensors(whole).items():
        assert torch.equal(value, torch.cat([getattr(piece, name) for piece in pieces])), name
    assert whole.finished == [value for piece in pieces for value in piece.finished]


def test_an_ending_that_is_both_is_kept_as_both():
    class Both(Count):
        def step(self, action: int):
            obs, reward, ended, _, info = super().step(action)
            return obs, reward, ended, ended, info

    steps = collector([lambda: Both((2,) * 9)], SAME).collect(Fixed(), 4)
    assert steps.terminated[:, 0].tolist() == steps.truncated[:, 0].tolist() == [False, True, False, True]


def test_the_limit_of_gymnasium_make_is_a_truncation():
    envs = make_envs(register("tests/Endless-v0", Count, max_episode_steps=3), 2, seed=0)
    steps = Collector(envs, torch.Generator(), 0).collect(Fixed(), 6)
    assert steps.truncated[:, 0].tolist() == [False, False, True] * 2
    assert not steps.terminated.any()
    assert steps.next_obs[2].tolist() == [[3.0], [3.0]]


# --- Whole episodes


@both_modes
def test_whole_episodes_are_one_of_each_environment(mode: AutoresetMode):
    makers = [lambda n=n: Count((0, n, n)) for n in (3, 1, 5)]  # the first is the one that is not asked for
    found = collector(makers, mode)
    steps = found.collect_episodes(Fixed())
    assert steps.valid.sum(0).tolist() == [3, 1, 5]
    assert steps.terminated.sum(0).tolist() == [1, 1, 1]
    assert steps.finished == [1, 3, 5] and found.env_steps == 9 and found.return_mean == 3
    returns = reward_to_go(steps.rewards, 1.0, steps.ended)
    assert returns[0].tolist() == [3, 1, 5]


@both_modes
def test_whole_episodes_have_the_length_that_the_policy_gives_them(mode: AutoresetMode):
    """2 on average, standard deviation sqrt(2). The first 300 to end of many would be shorter."""
    steps = collector([Leaves] * 300, mode).collect_episodes(Fixed())
    assert len(steps.finished) == 300
    assert np.mean(steps.finished) == pytest.approx(2, abs=4 * np.sqrt(2 / 300))


@both_modes
def test_collecting_after_whole_episodes_starts_afresh(mode: AutoresetMode):
    found = collector([lambda: Count((3,) * 9), lambda: Count((1,) * 9)], mode)
    found.collect(Fixed(), 2)
    found.collect_episodes(Fixed())
    steps = found.collect(Fixed(), 1)
    assert steps.valid.all() and not steps.obs.any()


# --- Actions


def test_actions_come_from_the_policy_with_their_log_probability():
    steps = collector([Count] * 4, SAME).collect(Fixed(logits=(float(np.log(0.2)), float(np.log(0.8)))), 1000)
    assert float(steps.actions.float().mean()) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 4000))
    expected = np.log(np.where(steps.actions == 1, 0.8, 0.2))
    np.testing.assert_allclose(steps.logp, expected, rtol=1e-6)


def test_an_action_space_may_start_anywhere():
    seen = []

    class FromFive(Count):
        action_space = Discrete(2, start=5)

        def reward(self, action: int) -> float:
            seen.append(int(action))
            return 1.0

    steps = collector([FromFive], SAME).collect(Fixed(), 50)
    assert [action + 5 for action in steps.actions[:, 0].tolist()] == seen
    assert set(seen) == {5, 6}


# --- Seeds


def run(seed: int) -> Steps:
    generator = torch.Generator().manual_seed(seed)
    envs = make_envs("CartPole-v1", 2, seed)
    return Collector(envs, generator, seed).collect(make_network(envs, generator), 300)


def test_a_seed_fixes_everything_and_nothing_global_is_touched():
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore
    first, again, other = run(0), run(0), run(1)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all() and states[2] == random.getstate()  # type: ignore
    for name, value in tensors(first).items():
        assert torch.equal(value, getattr(again, name)), name
    assert not torch.equal(first.obs, other.obs)
    np.testing.assert_allclose(first.obs[0, 0], [0.013696, -0.023021, -0.045903, -0.048347], atol=1e-6)


def test_every_episode_has_a_start_of_its_own():
    steps = run(0)
    after_an_end = steps.ended[:-1]
    starts = steps.obs[1:][after_an_end]
    assert len(starts) >= 20 and len(np.unique(starts.numpy(), axis=0)) == len(starts)


def test_the_action_space_is_seeded_too():
    draws = [make_envs("CartPole-v1", 4, seed).action_space.sample().tolist() for seed in (3, 3)]
    assert draws[0] == draws[1]
    envs = vector([Count] * 4, SAME)
    draws = []
    for _ in range(2):
        Collector(envs, torch.Generator(), seed=3)
        draws.append([envs.action_space.sample().tolist() for _ in range(8)])
    assert draws[0] == draws[1]


# --- Refusals


def test_a_mode_that_it_was_not_written_for_is_refused():
    envs = vector([Count], AutoresetMode.DISABLED)
    with pytest.raises(ValueError, match=r"DISABLED.*make_envs"):
        Collector(envs, torch.Generator(), 0)
    del envs.metadata["autoreset_mode"]
    with pytest.raises(ValueError, match=r"is None.*make_envs"):
        Collector(envs, torch.Generator(), 0)


def test_what_it_cannot_serve_is_refused_with_a_way_out():
    class Deep(Count):
        observation_space = Box(0, 1, (2, 2), np.float32)

    class Continuous(Count):
        action_space = Box(0, 1, (1,), np.float32)  # type: ignore

    with pytest.raises(ValueError, match=r"not a vector environment.*make_envs"):
        Collector(gymnasium.make("CartPole-v1"), torch.Generator(), 0)  # type: ignore
    for made, message in ((Deep, "FlattenObservation"), (Continuous, "Discrete")):
        with pytest.raises(ValueError, match=message):
            make_network(SyncVectorEnv([made]), torch.Generator())
    with pytest.raises(ValueError, match="n is 0"):
        make_envs("CartPole-v1", 0, 0)
    with pytest.raises(ValueError, match="seed is -1"):
        make_envs("CartPole-v1", 1, -1)
    with pytest.raises(ValueError, match="steps is 0"):
        collector([Count], SAME).collect(Fixed(), 0)


def test_without_an_episode_there_is_no_mean_return():
    found = collector([Count], SAME)
    found.collect(Fixed(), 5)
    assert np.isnan(found.return_mean)
