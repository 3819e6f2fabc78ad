"""Vanilla policy gradient, REINFORCE: whole episodes, and every action weighted with the return that followed it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.control.collector import Collector, Steps, make_envs, make_network
from rlnotes.control.networks import ActorCritic
from rlnotes.control.settings import LoopConfig
from rlnotes.estimators.divergences import entropy
from rlnotes.estimators.returns import gae, reward_to_go
from rlnotes.estimators.score_function import normalize_advantages, score_function
from rlnotes.settings import within

Baseline = Literal["none", "mean", "value"]


@dataclass(frozen=True)
class ReinforceConfig(LoopConfig):
    """Settings of :func:`reinforce`. The defaults reach a mean return of 475 on CartPole-v1."""

    episodes: int = 16
    """whole episodes per batch, N"""
    discount_states: bool = False
    """weight step t with gamma^t as well: the gradient of the discounted J. Practice leaves it out"""
    baseline: Baseline = "value"
    """none; mean: the batch's mean return-to-go; value: a learned V(s), which also completes truncated episodes"""
    normalize: bool = True
    """divide the weights by their standard deviation over the batch"""
    learning_rate: float = 1e-2
    value_epochs: int = 5
    """passes of regression of V on the returns, per batch"""

    def __post_init__(self):
        super().__post_init__()
        within(self, 1, "episodes")
        within(self, 0, "value_epochs")
        if self.baseline not in ("none", "mean", "value"):
            raise ValueError(f"baseline is {self.baseline!r}; choose none, mean or value")


def reinforce(config: ReinforceConfig, network: ActorCritic | None = None) -> Iterator[dict[str, float]]:
    """Vanilla policy gradient, 002 eqs. (37) to (40), with a baseline, 002 eq. (42). Yields metrics per update.

    ``network`` is trained in place; without it a fresh one is made from ``config.seed``.
    Metrics: ``update``, ``env_steps``, ``return_mean`` over the last 100 episodes, ``entropy`` in nats,
    ``weight_std``, the standard deviation of the weights before they are normalised.
    """
    envs = make_envs(config.env, config.episodes, config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    network = network or make_network(envs, generator)
    collector = Collector(envs, generator, config.seed)
    actor = torch.optim.Adam(network.policy_net.parameters(), config.learning_rate)
    critic = torch.optim.Adam(network.value_net.parameters(), config.learning_rate)
    for update in range(1, config.updates + 1):
        steps = collector.collect_episodes(network)
        valid = steps.valid
        weights, returns = return_weights(config, network, steps)
        used = normalize_advantages(weights[valid]) if config.normalize else weights[valid]
        log_probs = network.log_probs(steps.obs[valid])
        logp = log_probs.gather(-1, steps.actions[valid][:, None]).squeeze(-1)
        # score_function is a mean over steps; the gradient, 002 eq. (39), is a sum over steps and a mean over episodes
        loss = -score_function(logp, used) * len(logp) / config.episodes
        actor.zero_grad()
        loss.backward()
        actor.step()
        for _ in range(config.value_epochs if config.baseline == "value" else 0):
            value_loss = (network.value(steps.obs[valid]) - returns[valid]).square().mean()
            critic.zero_grad()
            value_loss.backward()
            critic.step()
        yield dict(
            update=update,
            env_steps=collector.env_steps,
            return_mean=collector.return_mean,
            entropy=entropy(log_probs).mean().item(),
            weight_std=weights[valid].std(correction=0).item(),
        )


@torch.no_grad()
def return_weights(config: ReinforceConfig, network: ActorCritic, steps: Steps) -> tuple[Tensor, Tensor]:
    """Weights (T, N) of log pi, and the returns (T, N) that V is fitted to. Rows that are not valid mean nothing.

    ``steps`` are whole episodes from row 0. Without a value function nobody knows what a truncated episode left out:
    then its return counts what came, and J is that of the task with its time limit.
    """
    if config.baseline == "value":
        values, next_values = network.value(steps.obs), network.value(steps.next_obs)
        flags = steps.terminated, steps.truncated
        weights = gae(steps.rewards, values, next_values, *flags, gamma=config.gamma, lam=1.0)
        returns = weights + values
    else:
        returns = reward_to_go(steps.rewards, config.gamma, steps.ended)
        weights = returns - returns[steps.valid].mean() if config.baseline == "mean" else returns
    if config.discount_states:
        weights = weights * config.gamma ** torch.arange(len(weights))[:, None]
    return weights, returns
