"""TRPO: on tables, where everything is known, and on CartPole for a few updates."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.bounds.mdp import average_kl
from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.samples import make_samples
from rlnotes.control.trpo import TRPOConfig, mean_kl, trpo
from rlnotes.control.trpo import surrogate as sample_surrogate
from rlnotes.estimators.divergences import kl
from rlnotes.exact.mdp import MDP, expected_return, occupancy, policy_gradient, softmax, surrogate, values, visits
from rlnotes.exact.random_mdps import random_mdp
from rlnotes.objectives.natural_gradient import StepReport, natural_step
from tests.cases import cases
from tests.control.rollouts import ReadOff, two_episodes


def exact_step(mdp: MDP, logits: np.ndarray, delta: float, **more) -> tuple[np.ndarray, StepReport]:
    """A step on the logits (S, A) with the exact surrogate and the exact mean KL: 002 eq. (68)."""
    pi = softmax(logits)
    d, a = (torch.from_numpy(x) for x in (occupancy(mdp, pi), values(mdp, pi).a))
    table = torch.from_numpy(logits.copy()).requires_grad_()
    old = table.detach().log_softmax(-1)

    def gain() -> Tensor:
        return (d @ (table.softmax(-1) * a).sum(-1)) / (1 - mdp.gamma)

    def mean_kl() -> Tensor:
        return d @ kl(old, table.log_softmax(-1))

    return table.detach().numpy(), natural_step([table], gain, mean_kl, delta, **more)


def random_tables(number: int):
    for seed in range(number):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)), float(rng.uniform(0.3, 0.95)))
        yield mdp, rng.normal(size=mdp.r.shape)


def test_a_step_on_a_table_improves_the_true_return_within_the_limit():
    for mdp, logits in random_tables(cases() // 4):
        old = softmax(logits)
        found, report = exact_step(mdp, logits, 1e-4, damping=1e-4)
        new = softmax(found)
        assert report.accepted
        assert expected_return(mdp, new) > expected_return(mdp, old)
        assert occupancy(mdp, old) @ (old * np.log(old / new)).sum(-1) <= 1e-4 * (1 + 1e-9)
        assert surrogate(mdp, new, old) == pytest.approx(report.gained, rel=1e-6)
        assert average_kl(mdp, new, old).holds


def test_a_tiny_step_changes_the_return_as_the_policy_gradient_says():
    for mdp, logits in random_tables(20):
        found, report = exact_step(mdp, logits, 1e-9, damping=1e-4)
        change = expected_return(mdp, softmax(found)) - expected_return(mdp, softmax(logits))
        predicted = float((policy_gradient(mdp, logits) * (found - logits)).sum())
        assert change == pytest.approx(predicted, rel=1e-2)
        assert report.predicted == pytest.approx(predicted, rel=1e-6)


def test_the_natural_direction_of_a_table_is_its_advantages():
    """For logits per state and action A^-1 g is the advantage over 1 - gamma, whatever the visits."""
    for mdp, logits in random_tables(20):
        pi = softmax(logits)
        found, _ = exact_step(mdp, logits, 1e-6, damping=1e-9, iterations=200)
        direction = found - logits
        direction = direction - (pi * direction).sum(-1, keepdims=True)  # a constant per state changes no policy
        a = values(mdp, pi).a
        length = np.linalg.norm(direction) / np.linalg.norm(a)
        np.testing.assert_allclose(direction, length * a, atol=1e-3 * np.abs(direction).max())


def test_steps_on_a_table_climb_to_the_best_policy():
    mdp, logits = next(random_tables(1))
    best = np.max([expected_return(mdp, pi) for pi in deterministic(mdp)])
    for _ in range(200):
        logits, _ = exact_step(mdp, logits, 0.02, damping=1e-3)
    assert expected_return(mdp, softmax(logits)) == pytest.approx(best, abs=1e-2 * abs(best))


def deterministic(mdp: MDP) -> list[np.ndarray]:
    S, A = mdp.r.shape
    return [np.eye(A)[list(choice)] for choice in np.ndindex(*[A] * S)]


# --- Samples


@pytest.mark.parametrize(("how", "right"), [("truncated", [0, 0, 1.16, 0.8]), ("terminated", [-4.05, -9, 1.16, 0.8])])
@pytest.mark.parametrize("phantom", [False, True])
def test_advantages_tell_a_time_limit_from_an_end_and_leave_phantoms_out(how: str, right: list, phantom: bool):
    samples = make_samples(ReadOff(), two_episodes(how, phantom), 0.9, 0.5, normalize=False)  # type: ignore[arg-type]
    np.testing.assert_allclose(samples.advantages, right, atol=1e-6)
    np.testing.assert_allclose(samples.targets, np.add(right, [10, 10, 2, 2]), atol=1e-6)
    assert len(samples.obs) == len(samples.actions) == len(samples.old_log_probs) == 4


def test_normalised_advantages_leave_the_targets_as_they_are():
    raw, scaled = (
        make_samples(ReadOff(), two_episodes("truncated", True), 0.9, 0.5, normalize)  # type: ignore[arg-type]
        for normalize in (False, True)
    )
    a = raw.advantages.numpy()
    np.testing.assert_allclose(scaled.advantages, (a - a.mean()) / a.std(ddof=1), rtol=1e-5)
    assert torch.equal(scaled.targets, raw.targets)


def test_the_surrogate_and_the_kl_are_means_over_the_samples_one_by_one():
    envs = make_envs("CartPole-v1", 4, 0)
    old, new = (make_network(envs, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    steps = Collector(envs, torch.Generator().manual_seed(2), 0).collect(old, 32)
    samples = make_samples(old, steps, 0.99, 0.95, normalize=False)
    with torch.no_grad():
        p, q = (network.log_probs(samples.obs).double().exp().numpy() for network in (old, new))
    products, kls = [], []
    for row, (action, advantage) in enumerate(zip(samples.actions.tolist(), samples.advantages.tolist(), strict=True)):
        products.append(q[row, action] / p[row, action] * advantage)
        kls.append(sum(p[row, a] * np.log(p[row, a] / q[row, a]) for a in range(2)))
    assert float(sample_surrogate(new, samples).detach()) == pytest.approx(np.mean(products), rel=1e-4)
    assert float(mean_kl(new, samples).detach()) == pytest.approx(np.mean(kls), rel=1e-2, abs=1e-7)
    assert float(mean_kl(old, samples).detach()) == pytest.approx(0, abs=1e-6)


# --- The loop

SHORT = TRPOConfig(updates=3, envs=4, steps=64)


def test_every_update_keeps_its_limit_and_says_what_it_did():
    metrics = list(trpo(SHORT))
    assert [m["env_steps"] for m in metrics] == [256, 512, 768]
    for m in metrics:
        assert {"update", "return_mean", "entropy", "value_loss", "accepted", "fraction"} <= set(m)
        assert m["accepted"] == 1.0 and 0 < m["kl"] <= SHORT.delta
        assert m["gained"] > 0 and m["predicted"] > 0
    assert metrics[0]["entropy"] == pytest.approx(np.log(2), abs=1e-3)


def test_the_kl_and_the_gain_of_an_update_are_those_of_its_rollout():
    """The first rollout again, from the same seed; KL(old, new) and the surrogate by arithmetic."""
    config = replace(SHORT, updates=1, delta=0.3)  # so far that the two directions of the KL differ
    envs = make_envs(config.env, config.envs, config.seed)
    old = make_network(envs, torch.Generator().manual_seed(3))
    steps = Collector(envs, torch.Generator().manual_seed(config.seed), config.seed).collect(old, config.steps)
    a = make_samples(old, steps, config.gamma, config.lam, config.normalize).advantages.numpy()
    new = copy.deepcopy(old)
    (m,) = trpo(config, new)
    obs, rows = steps.obs[steps.valid], np.arange(len(a))
    with torch.no_grad():
        p, q = old.log_probs(obs).exp().double().numpy(), new.log_probs(obs).exp().double().numpy()
    actions = steps.actions[steps.valid].numpy()
    assert m["kl"] == pytest.approx((p * np.log(p / q)).sum(-1).mean(), rel=1e-3)
    assert abs(m["kl"] / (q * np.log(q / p)).sum(-1).mean() - 1) > 1e-2
    assert m["gained"] == pytest.approx((q[rows, actions] / p[rows, actions] * a).mean() - a.mean(), rel=1e-3)


def test_a_seed_decides_everything_and_the_global_generator_is_left_alone():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr]
    first, second, other = list(trpo(SHORT)), list(trpo(SHORT)), list(trpo(replace(SHORT, seed=1)))
    assert repr(first) == repr(second) != repr(other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # type: ignore[index]


def test_a_network_of_ones_own_is_trained_in_place():
    network = make_network(make_envs("CartPole-v1", 1, 0), torch.Generator().manual_seed(3))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    list(trpo(replace(SHORT, updates=1), network))
    assert all(not torch.equal(p.detach(), before[name]) for name, p in network.named_parameters())


def test_equal_rewards_everywhere_make_no_policy_update():
    """A critic that is right about everything leaves advantages of 0: nothing to learn, no NaN."""
    network = make_network(make_envs("CartPole-v1", 1, 0), torch.Generator().manual_seed(3))
    with torch.no_grad():
        for p in network.value_net.parameters():
            p.zero_()
        network.value_net[-1].bias.fill_(10.0)  # type: ignore[union-attr]
    before = [p.detach().clone() for p in network.policy_net.parameters()]
    # one step of CartPole from the start never ends: r + gamma V - V = 1 + 0.9 * 10 - 10 = 0
    config = TRPOConfig(updates=1, envs=4, steps=1, gamma=0.9)
    (m,) = trpo(config, network)
    assert m["accepted"] == 0.0 and m["kl"] == 0.0
    assert all(torch.equal(a.detach(), b) for a, b in zip(network.policy_net.parameters(), before, strict=True))


def test_visits_are_what_the_surrogate_weighs_with():
    """The helper of this file against the exact gradient: d / (1 - gamma) are the visits."""
    mdp, logits = next(random_tables(1))
    pi = softmax(logits)
    np.testing.assert_allclose(occupancy(mdp, pi) / (1 - mdp.gamma), visits(mdp, pi), rtol=1e-10)
