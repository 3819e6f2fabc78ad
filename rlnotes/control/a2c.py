"""Advantage actor-critic, A2C: a critic stands in for what comes after a few steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.control.collector import Collector, Steps, make_envs, make_network
from rlnotes.control.networks import ActorCritic
from rlnotes.control.settings import ActorCriticConfig
from rlnotes.estimators.divergences import entropy, kl
from rlnotes.estimators.returns import gae, td_target
from rlnotes.estimators.score_function import normalize_advantages, score_function
from rlnotes.settings import positive, within


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of :func:`a2c`. The defaults reach a mean return of 475 on CartPole-v1."""

    updates: int = 800
    envs: int = 16
    steps: int = 16
    learning_rate: float = 2e-3
    value_coefficient: float = 0.5
    """weight of the critic's loss"""
    entropy_coefficient: float = 0.01
    """weight of the entropy bonus; positive raises the entropy"""
    gradient_clip: float = 0.5
    """largest gradient norm"""

    def __post_init__(self):
        super().__post_init__()
        within(self, 0, "value_coefficient")
        positive(self, "gradient_clip")


def a2c(config: A2CConfig, network: ActorCritic | None = None) -> Iterator[dict[str, float]]:
    """Advantage actor-critic, 002 eqs. (43) to (47). Yields metrics per update.

    ``network`` is trained in place; without it a fresh one is made from ``config.seed``.
    Metrics: ``update``, ``env_steps``, ``return_mean`` over the last 100 episodes, ``kl``, the mean of KL(old || new)
    over the update's own samples, and those of :func:`a2c_loss`.
    """
    envs = make_envs(config.env, config.envs, config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    network = network or make_network(envs, generator)
    collector = Collector(envs, generator, config.seed)
    optimizer = torch.optim.Adam(network.parameters(), config.learning_rate)
    for update in range(1, config.updates + 1):
        steps = collector.collect(network, config.steps)
        loss, seen = a2c_loss(config, network, steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), config.gradient_clip)
        with torch.no_grad():
            obs = steps.obs[steps.valid]
            old = network.log_probs(obs)
            optimizer.step()
            seen["kl"] = kl(old, network.log_probs(obs)).mean().item()
        yield dict(update=update, env_steps=collector.env_steps, return_mean=collector.return_mean, **seen)


def a2c_loss(config: A2CConfig, network: ActorCritic, steps: Steps) -> tuple[Tensor, dict[str, float]]:
    """Loss () of one rollout, to be minimised, and two parts of it.

    ``value_loss`` is the mean squared TD error, 002 eq. (45), and ``entropy`` the policy's mean entropy in nats.
    """
    valid = steps.valid
    values = network.value(steps.obs)
    with torch.no_grad():  # what the critic is pulled towards is held constant
        next_values = network.value(steps.next_obs)
        targets = td_target(steps.rewards, next_values, steps.terminated, config.gamma)
        flags = steps.terminated, steps.truncated
        advantages = gae(steps.rewards, values, next_values, *flags, gamma=config.gamma, lam=config.lam)[valid]
        if config.normalize:
            advantages = normalize_advantages(advantages)
    log_probs = network.log_probs(steps.obs[valid])
    logp = log_probs.gather(-1, steps.actions[valid][:, None]).squeeze(-1)
    value_loss = (targets - values)[valid].square().mean()
    spread = entropy(log_probs).mean()
    loss = -score_function(logp, advantages)
    loss = loss + config.value_coefficient * value_loss - config.entropy_coefficient * spread
    return loss, dict(value_loss=value_loss.item(), entropy=spread.item())
