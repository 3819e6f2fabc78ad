"""The policy gradient against enumeration, and each choice of weights by its numbers."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.control.collector import Collector, Steps, make_envs
from rlnotes.control.networks import ActorCritic
from rlnotes.control.reinforce import ReinforceConfig, reinforce, return_weights
from rlnotes.estimators.score_function import score_function
from tests.control.tiny_envs import Count, Fixed, Pays, register

PLAIN = ReinforceConfig(gamma=0.5, baseline="none", normalize=False)


def episodes(rewards: Tensor, actions: Tensor | None = None, obs: Tensor | None = None, truncate=False) -> Steps:
    """Whole episodes (T, N) of one length, on observations that count the steps."""
    T, N = rewards.shape
    if obs is None:
        obs = torch.arange(T + 1.0, dtype=rewards.dtype)[:, None, None].expand(-1, N, 1)
    last = torch.zeros(T, N, dtype=torch.bool)
    last[-1] = True
    none = torch.zeros_like(last)
    return Steps(
        obs=obs[:-1],
        actions=torch.zeros(T, N, dtype=torch.int64) if actions is None else actions,
        logp=torch.zeros(T, N),
        rewards=rewards,
        terminated=none if truncate else last,
        truncated=last if truncate else none,
        valid=~none,
        next_obs=obs[1:],
        finished=rewards.sum(0).tolist(),
    )


THREE = episodes(torch.tensor([[2.0], [0.0], [1.0]]))


def weights(config: ReinforceConfig, steps: Steps = THREE, network: ActorCritic | None = None) -> list[float]:
    return return_weights(config, network or Fixed(), steps)[0][:, 0].tolist()


# --- The weights, by hand: gamma .5, rewards 2, 0, 1


def test_weights_are_the_return_to_go():
    assert weights(PLAIN) == [2.25, 0.5, 1]
    logp = torch.tensor([-1.0, -2, -3], requires_grad=True)
    loss = -score_function(logp, torch.tensor(weights(PLAIN))) * 3
    loss.backward()
    assert loss.item() == 6.25 and logp.grad is not None and logp.grad.tolist() == [-2.25, -0.5, -1]


def test_discounted_states_put_gamma_to_the_t_before_it():
    assert weights(replace(PLAIN, discount_states=True)) == [2.25, 0.25, 0.25]


def test_the_mean_is_subtracted():
    assert weights(replace(PLAIN, baseline="mean")) == pytest.approx([1.0, -0.75, -0.25])


def test_a_learned_value_is_subtracted_and_the_returns_are_what_it_learns():
    found, returns = return_weights(replace(PLAIN, baseline="value"), Fixed(lambda obs: 4 - obs), THREE)
    assert found[:, 0].tolist() == [2.25 - 4, 0.5 - 3, 1 - 2]
    assert returns[:, 0].tolist() == [2.25, 0.5, 1]


def test_only_a_learned_value_completes_a_truncated_episode():
    """V of the final observation, 8, counts: 1 + 4, 0 + 2.5, 2 + 1.25."""
    steps = episodes(torch.tensor([[2.0], [0.0], [1.0]]), truncate=True)
    network = Fixed(lambda obs: torch.where(obs == 3, 8.0, 0.0))
    assert weights(replace(PLAIN, baseline="value"), steps, network) == [3.25, 2.5, 5]
    assert weights(PLAIN, steps, network) == [2.25, 0.5, 1]


def test_rows_after_an_environments_end_change_nothing():
    steps = episodes(torch.tensor([[2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [7.0, 1.0]]))
    valid = torch.ones(4, 2, dtype=torch.bool)
    valid[3, 0] = False
    ended = torch.zeros(4, 2, dtype=torch.bool)
    ended[2, 0] = ended[3, 1] = True
    steps = replace(steps, terminated=ended, valid=valid)
    for baseline in ("none", "value"):
        assert weights(replace(PLAIN, baseline=baseline), steps)[:3] == [2.25, 0.5, 1]


# --- The gradient, by enumeration


@pytest.mark.parametrize("baseline", ["none", "mean", "value"])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_with_discounted_states_the_expected_gradient_is_that_of_the_objective(baseline, gamma):
    """All eight episodes of three steps, each with its probability; the reward depends on all actions so far."""
    generator = torch.Generator().manual_seed(0)
    network = ActorCritic(2, 2, generator).double()
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    actions = torch.tensor(list(itertools.product((0, 1), repeat=3))).T  # (3, 8)
    pay = torch.randn(3, 8, generator=generator, dtype=torch.float64)  # by the actions so far, as a binary number
    codes = torch.stack([sum(actions[j] * 2 ** (t - j) for j in range(t + 1)) for t in range(3)])  # type: ignore
    rewards = pay.gather(1, codes)
    seen = torch.cat([torch.zeros(1, 8), codes + 1.0]).double()
    obs = torch.stack([seen, torch.arange(4.0)[:, None].expand(4, 8).double()], dim=-1)
    steps = episodes(rewards, actions, obs)

    logp = network.log_probs(steps.obs).gather(-1, actions[..., None]).squeeze(-1)
    probability = logp.sum(0).exp()
    objective = (probability * (gamma ** torch.arange(3)[:, None] * rewards).sum(0)).sum()
    policy = list(network.policy_net.parameters())
    exact = torch.cat([g.flatten() for g in torch.autograd.grad(objective, policy, retain_graph=True)])

    def estimate(discount_states: bool) -> Tensor:
        config = replace(PLAIN, gamma=gamma, baseline=baseline, discount_states=discount_states)
        used, _ = return_weights(config, network, steps)
        total = (probability.detach() * (logp * used).sum(0)).sum()
        return torch.cat([g.flatten() for g in torch.autograd.grad(total, policy, retain_graph=True)])

    torch.testing.assert_close(estimate(True), exact, atol=1e-12, rtol=1e-9)
    apart = float((estimate(False) - exact).norm() / exact.norm())
    assert apart > 0.01 if gamma < 1 else apart < 1e-9


def test_the_step_is_a_mean_over_episodes_of_sums_over_their_steps():
    """The gradient on the last biases of the policy is known by hand from the same episodes, collected once more."""
    name = register("tests/Pays-v0", Pays)
    network = ActorCritic(1, 2, torch.Generator().manual_seed(0))
    collector = Collector(make_envs(name, 4, 0), torch.Generator().manual_seed(0), 0)
    steps = collector.collect_episodes(network)
    probabilities = network.log_probs(steps.obs).exp().detach().numpy()
    expected = np.zeros(2)
    for n in range(4):
        for t in range(2):
            score = np.eye(2)[steps.actions[t, n]] - probabilities[t, n]
            expected -= float(steps.rewards[t:, n].sum()) * score / 4
    seen = []
    bias = [layer for layer in network.policy_net if isinstance(layer, torch.nn.Linear)][-1].bias
    bias.register_hook(lambda grad: seen.append(grad.clone()))
    list(reinforce(ReinforceConfig(name, updates=1, episodes=4, gamma=1.0, baseline="none", normalize=False), network))
    np.testing.assert_allclose(seen[0], expected, atol=1e-6)
    assert np.abs(expected).max() > 0.01


# --- Runs


def test_it_learns_what_pays():
    name = register("tests/Pays-v1", Pays)
    for baseline in ("none", "mean", "value"):
        config = ReinforceConfig(name, updates=60, episodes=8, baseline=baseline)
        *_, last = reinforce(config)
        assert last["return_mean"] > 1.8 and last["env_steps"] == 60 * 8 * 2


def test_a_seed_fixes_a_run_and_another_one_does_not():
    config = ReinforceConfig(updates=3, episodes=4)
    first, again, other = (list(reinforce(replace(config, seed=seed))) for seed in (0, 0, 1))
    assert first == again and first != other
    assert [row["update"] for row in first] == [1, 2, 3]


def test_a_network_that_is_given_is_the_one_that_learns():
    network = ActorCritic(4, 2, torch.Generator())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    list(reinforce(ReinforceConfig(updates=1, episodes=2), network))
    assert all(not torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_batch_of_one_step_stays_finite():
    name = register("tests/OneStep-v0", lambda: Count((1,) * 100))
    rows = list(reinforce(ReinforceConfig(name, updates=2, episodes=1)))
    assert all(math.isfinite(row["entropy"]) for row in rows)


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match=r"'median'.*none, mean or value"):
        ReinforceConfig(baseline="median")  # type: ignore
