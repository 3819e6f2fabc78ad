"""What the instrument panel reads of an update."""

from copy import deepcopy
from itertools import islice

import pytest
import torch

from rlnotes.lm.critic import Critic
from rlnotes.lm.instruments import instruments
from rlnotes.lm.tasks import Misled
from rlnotes.lm.token_ppo import TokenPPOConfig, token_ppo
from rlnotes.lm.warm_start import shipped_start


def moved(size: float) -> dict[str, float]:
    """Readings of one round that moves the weights along PPO's own update, ``size`` times as far."""
    task, policy = Misled(), shipped_start("misled")

    def one_round():
        goal = deepcopy(policy)
        list(token_ppo(TokenPPOConfig(steps=1, prompts=64, learning_rate=3e-4), task, goal, Critic(goal)))
        with torch.no_grad():
            for weight, to in zip(policy.parameters(), goal.parameters(), strict=True):
                weight.lerp_(to, size)
        yield dict(step=1.0)

    (row,) = instruments(one_round(), task, policy, prompts=2048)
    return row


def test_no_move_reads_zero_everywhere():
    still = moved(0.0)
    readings = ("kl", "outside", "promised", "estimated", "change")
    assert all(still[name] == pytest.approx(0, abs=1e-6) for name in readings)
    assert 0.03 < still["J"] < 0.08


def test_of_a_small_move_the_promise_is_the_change():
    """The surrogate has the gradient of J; the estimate has it up to the noise of 2048 responses."""
    row = moved(0.01)
    assert row["change"] != 0
    assert row["promised"] == pytest.approx(row["change"], rel=0.02)
    assert row["estimated"] == pytest.approx(row["change"], rel=0.35)


def test_the_promise_is_the_surrogate_summed_over_every_next_token():
    """By its definition: for each prefix of the answer, how likely it is, times the sum over tokens of (pi - mu) A."""
    task, policy = Misled(), shipped_start("misled")
    old, surrogate = deepcopy(policy), 0.0
    (row,) = instruments(token_ppo(TokenPPOConfig(steps=1, prompts=64), task, policy, Critic(policy)), task, policy, 3)
    prompts = task.sample(3, torch.Generator().manual_seed(0), "heldout").prompts
    for prompt, answer in zip(prompts, task.solve(prompts), strict=True):
        mu, pi = (
            model(torch.cat([prompt, answer])[None])[0, len(prompt) - 1 : -1].detach().double().softmax(-1)
            for model in (old, policy)
        )
        taken = mu[torch.arange(len(answer)), answer]
        for t, token in enumerate(answer):
            Q = torch.zeros(len(mu[t]), dtype=torch.float64)  # a wrong token is worth nothing
            Q[token] = taken[t + 1 :].prod()
            A = Q - mu[t] @ Q
            surrogate += (taken[:t].prod() * ((pi[t] - mu[t]) @ A)).item() / len(prompts)
    assert row["promised"] == pytest.approx(surrogate, rel=1e-4)
    assert row["promised"] != pytest.approx(row["estimated"], rel=1e-2)


def test_readings_are_of_each_round_alone():
    task, policy = Misled(), shipped_start("misled")
    run = token_ppo(TokenPPOConfig(steps=3, prompts=64), task, policy, Critic(policy))
    first, second, third = islice(instruments(run, task, policy, prompts=64), 3)
    assert {"step", "reward", "clipped", "kl", "outside", "promised", "change", "J"} <= set(third)
    assert first["J"] != second["J"]
