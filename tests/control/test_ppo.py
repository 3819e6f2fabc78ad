"""PPO's loss, part by part, against the objectives of the course and against arithmetic; the loop for a few updates."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.ppo import PPOConfig, adapted_beta, look, policy_objective, ppo, ppo_loss
from rlnotes.control.samples import Samples, make_samples
from rlnotes.objectives import PPO_CLIP, Batch, policy_loss

F64 = torch.float64


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=F64)


def samples(seed: int, m: int = 40, actions: int = 3) -> Samples:
    rng = torch.Generator().manual_seed(seed)
    old = torch.randn(m, actions, generator=rng, dtype=F64).log_softmax(-1)
    chosen = torch.multinomial(old.exp(), 1, generator=rng)[:, 0]
    return Samples(
        obs=torch.randn(m, 4, generator=rng, dtype=F64),
        actions=chosen,
        logp_behavior=old.gather(-1, chosen[:, None])[:, 0],
        old_log_probs=old,
        advantages=torch.randn(m, generator=rng, dtype=F64),
        old_values=torch.randn(m, generator=rng, dtype=F64),
        targets=torch.randn(m, generator=rng, dtype=F64),
    )


def moved(old: Samples, seed: int, scale: float = 0.5) -> Tensor:
    """Log-probabilities of a policy some way off, with gradient."""
    noise = torch.randn(old.old_log_probs.shape, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return (old.old_log_probs + scale * noise).log_softmax(-1).requires_grad_()


class Table(nn.Module):
    """One row of logits and one value for every sample, whatever the observation."""

    def __init__(self, logits: Tensor, value: Tensor):
        super().__init__()
        self.table, self.values = nn.Parameter(logits.clone()), nn.Parameter(value.clone())

    def log_probs(self, obs: Tensor) -> Tensor:
        return self.table.expand(len(obs), -1).log_softmax(-1)

    def value(self, obs: Tensor) -> Tensor:
        return self.values.expand(len(obs))


# --- The policy's part


@pytest.mark.parametrize("seed", range(5))
def test_the_clipped_loss_is_the_one_of_the_objectives_gradient_included(seed: int):
    old = samples(seed)
    log_probs = moved(old, seed + 100)
    objective = policy_objective(PPOConfig(), old, log_probs, beta=0.0)
    logp = log_probs.gather(-1, old.actions[:, None])
    batch = Batch(logp, torch.ones_like(logp).bool(), old.advantages[:, None], logp_behavior=old.logp_behavior[:, None])
    loss = policy_loss(PPO_CLIP, batch)
    assert float(-objective.detach()) == pytest.approx(float(loss.detach()), rel=1e-12)
    gradients = [torch.autograd.grad(value, log_probs, retain_graph=True)[0] for value in (-objective, loss)]
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-15)
    assert ((gradients[0] != 0).sum(-1) == 0).any(), "no gate was closed: the comparison says little"


def test_the_clip_has_the_numbers_of_its_four_corners():
    """Ratio 1.5 or 0.5, advantage +1 or -1: min(rA, clip(r)A)."""
    p = vector(1.5, 1.5, 0.5, 0.5) / 2
    log_probs = torch.stack([p, 1 - p], -1).log()
    half = torch.full((4, 2), 0.5, dtype=F64).log()
    old = replace(
        samples(0, 4, 2),
        actions=torch.zeros(4, dtype=torch.int64),
        old_log_probs=half,
        logp_behavior=half[:, 0],
        advantages=vector(1, -1, 1, -1),
    )
    each = [float(policy_objective(PPOConfig(), old.rows(torch.tensor([i])), log_probs[[i]], 0.0)) for i in range(4)]
    assert each == pytest.approx([1.2, -1.5, 0.5, -0.8])


@pytest.mark.parametrize("proximal", ["clip", "kl"])
def test_at_the_old_policy_both_forms_have_the_policy_gradient(proximal):
    old = samples(7)
    log_probs = old.old_log_probs.clone().requires_grad_()
    objective = policy_objective(PPOConfig(proximal=proximal), old, log_probs.log_softmax(-1), beta=3.0)
    (gradient,) = torch.autograd.grad(objective, log_probs)
    onehot = np.eye(3)[old.actions.numpy()]
    score = onehot - old.old_log_probs.exp().numpy()
    np.testing.assert_allclose(gradient, score * old.advantages.numpy()[:, None] / 40, atol=1e-15)


def test_the_penalised_objective_is_surrogate_less_beta_times_kl():
    old = samples(8)
    log_probs = moved(old, 9)
    p, q = old.old_log_probs.exp().numpy(), log_probs.detach().exp().numpy()
    rows = np.arange(40), old.actions.numpy()
    expected = (q[rows] / p[rows] * old.advantages.numpy()).mean() - 2.5 * (p * np.log(p / q)).sum(-1).mean()
    assert float(policy_objective(PPOConfig(proximal="kl"), old, log_probs, 2.5).detach()) == pytest.approx(expected)


@pytest.mark.parametrize(("seen", "following"), [(0.0151, 2.0), (0.0149, 1.0), (0.007, 1.0), (0.0066, 0.5), (0, 0.5)])
def test_beta_doubles_far_above_the_target_and_halves_far_below(seen: float, following: float):
    assert adapted_beta(1.0, seen, 0.01) == following


def test_without_a_target_beta_stays():
    assert adapted_beta(1.0, 5.0, 0.0) == adapted_beta(1.0, 0.0, 0.0) == 1.0


# --- The critic's part, and the bonus


def test_a_column_against_a_row_is_refused_with_both_shapes():
    old = replace(samples(1), advantages=torch.zeros(40, 1, dtype=F64))
    with pytest.raises(ValueError, match=r"ratio has shape \(40,\) and advantages has shape \(40, 1\)"):
        policy_objective(PPOConfig(), old, old.old_log_probs, 0.0)


def descend_on_entropy(coefficient: float) -> Tensor:
    """200 plain steps of size 0.5 on the entropy term alone, from logits [1, 0]."""
    still = replace(samples(2, 1, 2), advantages=vector(0.0))
    policy = Table(vector(1, 0), vector(0))
    config = PPOConfig(entropy_coefficient=coefficient, value_coefficient=0.0)
    for _ in range(200):
        loss = ppo_loss(config, policy, still, 0.0)  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(loss, policy.table)
        with torch.no_grad():
            policy.table.sub_(0.5 * gradient)
    return policy.table.detach().softmax(-1)


def test_a_positive_entropy_coefficient_raises_the_entropy():
    np.testing.assert_allclose(descend_on_entropy(1.0), [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(descend_on_entropy(-1.0), [0.999133, 0.000867], atol=1e-6)


def test_the_entropy_bonus_has_its_value_and_gradient():
    still = replace(samples(2, 1, 2), advantages=vector(0.0))
    policy = Table(vector(1, 0), vector(0))
    loss = ppo_loss(PPOConfig(entropy_coefficient=1.0, value_coefficient=0.0), policy, still, 0.0)  # type: ignore[arg-type]
    (gradient,) = torch.autograd.grad(loss, policy.table)
    assert float(-loss.detach()) == pytest.approx(0.582203, abs=1e-6)
    np.testing.assert_allclose(-gradient, [-0.196612, 0.196612], atol=1e-6)


def test_the_loss_is_the_sum_of_its_parts():
    old = samples(3)
    policy = Table(vector(0.3, -0.2, 0.1), vector(0.4))
    config = PPOConfig(value_coefficient=0.7, entropy_coefficient=0.03, value_clip=0.1)
    p = policy.table.detach().softmax(-1).numpy()
    mu, a = old.logp_behavior.exp().numpy(), old.advantages.numpy()
    r = p[old.actions.numpy()] / mu
    surrogate = np.minimum(r * a, np.clip(r, 0.8, 1.2) * a).mean()
    v, target, before = 0.4, old.targets.numpy(), old.old_values.numpy()
    kept = before + np.clip(v - before, -0.1, 0.1)
    critic = np.maximum((v - target) ** 2, (kept - target) ** 2).mean()
    expected = -surrogate + 0.7 * critic + 0.03 * (p * np.log(p)).sum()
    assert float(ppo_loss(config, policy, old, 0.0).detach()) == pytest.approx(expected)  # type: ignore[arg-type]


# --- The loop

SHORT = PPOConfig(updates=3, envs=4, steps=32, epochs=2, minibatch=64)


@pytest.mark.parametrize("autoreset", ["NextStep", "SameStep"])
def test_rows_that_never_happened_do_not_reach_the_samples(autoreset: str):
    envs = make_envs("CartPole-v1", 2, 0, autoreset)
    network = make_network(envs, torch.Generator().manual_seed(0))
    steps = Collector(envs, torch.Generator().manual_seed(0), 0).collect(network, 200)
    made = make_samples(network, steps, 0.99, 0.95, normalize=True)
    phantoms = int((~steps.valid).sum())
    assert (phantoms > 5) == (autoreset == "NextStep")
    assert len(made.obs) == 400 - phantoms
    np.testing.assert_allclose(made.log_ratio(network.log_probs(made.obs)).detach(), 0, atol=1e-5)


def test_a_minibatch_of_one_leaves_finite_numbers():
    """65 transitions in minibatches of 64, and a rollout of a single one."""
    for config in (replace(SHORT, envs=1, steps=65), replace(SHORT, envs=1, steps=1)):
        network = make_network(make_envs("CartPole-v1", 1, 0), torch.Generator().manual_seed(0))
        before = [p.detach().clone() for p in network.value_net.parameters()]
        list(ppo(config, network))
        assert all(bool(p.isfinite().all()) for p in network.parameters())
        assert not torch.equal(next(network.value_net.parameters()).detach(), before[0])


def test_a_seed_decides_everything_and_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    first, second, other = list(ppo(SHORT)), list(ppo(SHORT)), list(ppo(replace(SHORT, seed=1)))
    assert repr(first) == repr(second) != repr(other)
    assert torch.equal(torch.get_rng_state(), state)


def test_metrics_say_what_an_update_did():
    metrics = list(ppo(replace(SHORT, entropy_coefficient=0.01)))
    assert [m["env_steps"] for m in metrics] == [128, 256, 384]
    for m in metrics:
        assert m["kl"] > 0 and 0 <= m["outside"] <= 1 and m["beta"] == 0
        assert 0.5 < m["entropy"] <= np.log(2) + 1e-6


def test_the_numbers_to_watch_are_those_of_the_whole_rollout():
    old = samples(4)
    policy = Table(vector(0.5, 0.0, -0.5), vector(0.2))
    seen = look(PPOConfig(), policy, old)  # type: ignore[arg-type]
    p, q = old.old_log_probs.exp().numpy(), policy.table.detach().softmax(-1).numpy()
    ratio = q[old.actions.numpy()] / old.logp_behavior.exp().numpy()
    assert seen["kl"] == pytest.approx((p * np.log(p / q)).sum(-1).mean())
    assert seen["outside"] == pytest.approx((np.abs(ratio - 1) > 0.2).mean())
    assert seen["value_loss"] == pytest.approx(((0.2 - old.targets.numpy()) ** 2).mean())


def test_beta_adapts_from_one_update_to_the_next():
    metrics = list(ppo(replace(SHORT, proximal="kl", beta=1.0, kl_target=0.01, updates=6)))
    assert metrics[0]["beta"] == 1.0
    for before, after in itertools.pairwise(metrics):
        assert after["beta"] == adapted_beta(before["beta"], before["kl"], 0.01)
    assert len({m["beta"] for m in metrics}) > 1


def test_a_heavy_penalty_keeps_the_policy_where_it_is():
    light, heavy = (
        np.mean([m["kl"] for m in ppo(replace(SHORT, proximal="kl", beta=beta, kl_target=0.0, epochs=10))])
        for beta in (0.0, 100.0)
    )
    assert heavy < light / 5


def test_an_unknown_form_is_named():
    with pytest.raises(ValueError, match="proximal is 'trust'"):
        PPOConfig(proximal="trust")  # type: ignore[arg-type]
