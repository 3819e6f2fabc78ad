"""Proximal policy optimisation: many small steps on one rollout, with a reason not to go far. 002 section 4.7."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.networks import ActorCritic
from rlnotes.control.samples import Samples, make_samples
from rlnotes.control.settings import ActorCriticConfig
from rlnotes.estimators.checks import same_shape
from rlnotes.estimators.divergences import entropy, kl
from rlnotes.objectives.gates import Clip, no_gate
from rlnotes.objectives.values import clipped_value_loss
from rlnotes.settings import positive, within

Proximal = Literal["clip", "kl"]


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Settings of :func:`ppo`. The defaults reach a mean return of 475 on CartPole-v1; the KL form takes longer."""

    updates: int = 200
    gamma: float = 0.98
    epochs: int = 10
    """passes over a rollout, K"""
    minibatch: int = 256
    """transitions per gradient step, M; the last of a pass takes what is left"""
    proximal: Proximal = "clip"
    """what keeps the policy near: the clip, or a penalty on KL(old, new)"""
    clip: float = 0.2
    """epsilon of the clip"""
    beta: float = 1.0
    """first weight of the KL penalty"""
    kl_target: float = 0.01
    """KL per update, in nats, that beta is adapted to; 0 leaves beta as it is"""
    value_clip: float | None = None
    """farthest that V may usefully move from its old value per update; None for no limit"""
    value_coefficient: float = 0.5
    """weight c_1 of the critic's loss"""
    entropy_coefficient: float = 0.0
    """weight c_2 of the entropy bonus; positive raises the entropy"""
    gradient_clip: float = 0.5
    """largest gradient norm"""

    def __post_init__(self):
        super().__post_init__()
        within(self, 1, "epochs", "minibatch")
        within(self, 0, "clip", "beta", "kl_target", "value_coefficient")
        positive(self, "gradient_clip")
        if self.value_clip is not None:
            within(self, 0, "value_clip")
        if self.proximal not in ("clip", "kl"):
            raise ValueError(f"proximal is {self.proximal!r}; choose clip or kl")


def ppo(config: PPOConfig, network: ActorCritic | None = None) -> Iterator[dict[str, float]]:
    """PPO, 002 section 4.7.4. Yields metrics per update.

    ``network`` is trained in place; without it a fresh one is made from ``config.seed``.
    Metrics: ``update``, ``env_steps``, ``return_mean`` over the last 100 episodes; over the rollout, after its last
    gradient step: ``kl`` in nats, ``entropy`` in nats, ``value_loss``, ``outside``, the share of ratios outside the
    clip; and ``beta``, with which the update was made, 0 for the clip.
    """
    envs = make_envs(config.env, config.envs, config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    network = network or make_network(envs, generator)
    collector = Collector(envs, generator, config.seed)
    optimizer = torch.optim.Adam(network.parameters(), config.learning_rate, eps=1e-5, fused=True)
    beta = config.beta if config.proximal == "kl" else 0.0
    for update in range(1, config.updates + 1):
        steps = collector.collect(network, config.steps)
        samples = make_samples(network, steps, config.gamma, config.lam, config.normalize)
        for _ in range(config.epochs):
            for rows in torch.randperm(len(samples.obs), generator=generator).split(config.minibatch):
                loss = ppo_loss(config, network, samples.rows(rows), beta)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), config.gradient_clip)
                optimizer.step()
        seen = look(config, network, samples)
        yield dict(update=update, env_steps=collector.env_steps, return_mean=collector.return_mean, beta=beta, **seen)
        beta = adapted_beta(beta, seen["kl"], config.kl_target)


def ppo_loss(config: PPOConfig, network: ActorCritic, samples: Samples, beta: float) -> Tensor:
    """Minus 002 eq. (85) on a minibatch, () to be minimised; or with the KL penalty of section 4.7.4 for the clip."""
    log_probs = network.log_probs(samples.obs)
    objective = policy_objective(config, samples, log_probs, beta)
    value_loss = clipped_value_loss(network.value(samples.obs), samples.targets, samples.old_values, config.value_clip)
    loss = -objective + config.value_coefficient * value_loss
    if config.entropy_coefficient == 0:  # a bonus of nothing would cost time
        return loss
    return loss - config.entropy_coefficient * entropy(log_probs).mean()


def policy_objective(config: PPOConfig, samples: Samples, log_probs: Tensor, beta: float) -> Tensor:
    """002 eq. (79), or the KL-penalised surrogate of section 4.7.4, () to be maximised. ``log_probs`` (m, A)."""
    ratio = samples.log_ratio(log_probs).exp()
    same_shape(ratio=ratio, advantages=samples.advantages)
    if config.proximal == "clip":
        return Clip(config.clip, config.clip)(ratio, samples.advantages).mean()
    return (no_gate(ratio, samples.advantages) - beta * kl(samples.old_log_probs, log_probs)).mean()


def adapted_beta(beta: float, seen: float, target: float) -> float:
    """The next weight of the KL penalty: doubled if the KL ``seen`` is above 1.5 targets, halved if below target / 1.5.

    The rule of Schulman et al. (2017), Proximal Policy Optimization Algorithms, section 4. 002 section 4.7.4 names
    adaptation without a rule. A ``target`` of 0 leaves beta as it is.
    """
    if target == 0:
        return beta
    if seen > 1.5 * target:
        return 2 * beta
    return beta / 2 if seen < target / 1.5 else beta


@torch.no_grad()
def look(config: PPOConfig, network: ActorCritic, samples: Samples) -> dict[str, float]:
    """What an update has done, on the rollout that it was made from."""
    log_probs = network.log_probs(samples.obs)
    ratio = samples.log_ratio(log_probs).exp()
    return dict(
        kl=kl(samples.old_log_probs, log_probs).mean().item(),
        entropy=entropy(log_probs).mean().item(),
        value_loss=(network.value(samples.obs) - samples.targets).square().mean().item(),
        outside=((ratio - 1).abs() > config.clip).double().mean().item(),
    )
