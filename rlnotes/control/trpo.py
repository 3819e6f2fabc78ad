"""Trust region policy optimisation: the best step that a KL limit allows. 002 section 4.6."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.networks import ActorCritic
from rlnotes.control.samples import Samples, make_samples
from rlnotes.control.settings import ActorCriticConfig
from rlnotes.estimators.divergences import entropy, kl
from rlnotes.objectives.natural_gradient import natural_step
from rlnotes.settings import positive, within


@dataclass(frozen=True)
class TRPOConfig(ActorCriticConfig):
    """Settings of :func:`trpo`. The defaults reach a mean return of 475 on CartPole-v1."""

    steps: int = 128
    delta: float = 0.01
    """largest mean KL(old, new) of an update, in nats"""
    damping: float = 0.01
    """added to the diagonal of the Fisher matrix"""
    cg_iterations: int = 10
    """products with the Fisher matrix per update"""
    learning_rate: float = 3e-3
    """of the critic"""
    value_epochs: int = 5
    """passes over the rollout that the critic makes"""
    minibatch: int = 128
    """transitions per step of the critic"""

    def __post_init__(self):
        super().__post_init__()
        positive(self, "delta")
        within(self, 0, "damping")
        within(self, 1, "cg_iterations", "minibatch")
        within(self, 0, "value_epochs")


def surrogate(policy: ActorCritic, samples: Samples) -> Tensor:
    """The mean () over samples of ratio times advantage, with gradient: 002 eq. (69)."""
    return (samples.log_ratio(policy.log_probs(samples.obs)).exp() * samples.advantages).mean()


def mean_kl(policy: ActorCritic, samples: Samples) -> Tensor:
    """KL(old, policy) (), mean over the sampled states and exact in the actions, with gradient: 002 eq. (70)."""
    return kl(samples.old_log_probs, policy.log_probs(samples.obs)).mean()


def trpo(config: TRPOConfig, network: ActorCritic | None = None) -> Iterator[dict[str, float]]:
    """TRPO, 002 section 4.6.4. Yields metrics per update.

    ``network`` is trained in place; without it a fresh one is made from ``config.seed``.
    Metrics: ``update``, ``env_steps``, ``return_mean`` over the last 100 episodes, ``entropy`` of the old policy in
    nats, ``value_loss`` before the critic's update, and of
    :class:`rlnotes.objectives.natural_gradient.StepReport` ``accepted`` (0 or 1), ``kl``, ``gained``, ``predicted``,
    ``fraction``.
    """
    envs = make_envs(config.env, config.envs, config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    network = network or make_network(envs, generator)
    collector = Collector(envs, generator, config.seed)
    critic = torch.optim.Adam(network.value_net.parameters(), config.learning_rate, fused=True)
    for update in range(1, config.updates + 1):
        steps = collector.collect(network, config.steps)
        samples = make_samples(network, steps, config.gamma, config.lam, config.normalize)

        policy_parameters = list(network.policy_net.parameters())
        report = natural_step(
            policy_parameters,
            partial(surrogate, network, samples),
            partial(mean_kl, network, samples),
            config.delta,
            damping=config.damping,
            iterations=config.cg_iterations,
        )
        for _ in range(config.value_epochs):
            for rows in torch.randperm(len(samples.obs), generator=generator).split(config.minibatch):
                value_loss = (network.value(samples.obs[rows]) - samples.targets[rows]).square().mean()
                critic.zero_grad()
                value_loss.backward()
                critic.step()
        yield dict(
            update=update,
            env_steps=collector.env_steps,
            return_mean=collector.return_mean,
            entropy=entropy(samples.old_log_probs).mean().item(),
            value_loss=(samples.old_values - samples.targets).square().mean().item(),
            accepted=float(report.accepted),
            kl=report.realised_kl,
            gained=report.gained,
            predicted=report.predicted,
            fraction=report.fraction,
        )
