"""PPO on a language model: one action is one token, and a critic judges every prefix. 002 section 4.7.4."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from rlnotes.estimators.divergences import kl_estimate
from rlnotes.estimators.score_function import normalize_advantages
from rlnotes.lm.config import Metrics
from rlnotes.lm.critic import Critic, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Task
from rlnotes.objectives import PPO_CLIP, Batch, policy_loss
from rlnotes.objectives.values import clipped_value_loss
from rlnotes.settings import positive, within

EPSILON = 0.2  # of PPO_CLIP


@dataclass(frozen=True)
class TokenPPOConfig:
    """Settings of :func:`token_ppo`. The defaults write 90 % right answers to ``reverse`` from the shipped weights."""

    steps: int = 20
    """rollouts"""
    prompts: int = 256
    """prompts per rollout, with one response each: the critic is the baseline, so no group is needed"""
    epochs: int = 4
    """passes over a rollout, K"""
    minibatches: int = 4
    """updates per pass"""
    lam: float = 0.95
    """of the advantages: 1 is the reward minus V, and smaller values trust the critic more"""
    value_coefficient: float = 0.5
    """weight c_1 of the critic's loss"""
    learning_rate: float = 3e-4
    """of AdamW, for policy and critic, after a rise over the first ten updates"""
    gradient_clip: float = 1.0
    """largest gradient norm"""
    seed: int = 0
    """of prompts and samples"""

    def __post_init__(self):
        within(self, 0, "steps", "seed", "value_coefficient")
        within(self, 1, "prompts", "epochs", "minibatches")
        within(self, 0, "lam", most=1)
        positive(self, "learning_rate", "gradient_clip")


def token_ppo(config: TokenPPOConfig, task: Task, policy: Transformer, critic: Critic) -> Iterator[Metrics]:
    """PPO on tokens. ``policy`` and ``critic`` are trained in place. Yields metrics per rollout.

    Metrics: ``step``; of the rollout before the updates ``reward``, its mean, and ``value``, the critic's mean at the
    first token; ``value_loss``, the mean squared error against the targets, before; after the updates, on the rollout
    they were made from, ``outside``, the share of tokens whose ratio is outside the clip, ``largest_ratio``, and
    ``kl``, k3's estimate of KL(old, new) per token, in nats.
    """
    data = torch.Generator().manual_seed(config.seed)
    generator = torch.Generator(policy.device).manual_seed(config.seed + 1)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    weights = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.AdamW(weights, config.learning_rate, (0.9, 0.95), weight_decay=0.0, fused=True)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda updates: min(1.0, (updates + 1) / 10))
    for step in range(1, config.steps + 1):
        prompts = task.sample(config.prompts, data).prompts.to(policy.device)
        rollout = sampler.sample(policy, prompts, 1, generator)
        rewards, mask = task.reward(rollout), rollout.mask
        with torch.no_grad():
            old_values = critic.values(rollout)
        advantages = token_advantages(rewards, old_values, mask, config.lam)
        targets = advantages + old_values  # (81): before they are normalised
        advantages = advantages.masked_scatter(mask, normalize_advantages(advantages[mask]))
        for _ in range(config.epochs):
            for rows in torch.randperm(config.prompts, generator=data).chunk(config.minibatches):
                part = rollout.groups(rows)
                batch = Batch(token_logp(policy, part), part.mask, advantages[rows], part.logp_behavior)
                values = (critic.values(part), targets[rows], old_values[rows])
                value_loss = clipped_value_loss(*(v[part.mask] for v in values), limit=None)
                loss = policy_loss(PPO_CLIP, batch) + config.value_coefficient * value_loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, config.gradient_clip)
                optimizer.step()
                warm_up.step()
        first = dict(reward=rewards.mean().item(), value=old_values[:, 0].mean().item())
        first["value_loss"] = (old_values - targets)[mask].square().mean().item()
        yield dict(phase=1, step=step, **first, **look(policy, rollout))


@torch.no_grad()
def look(policy: Transformer, rollout: Rollout) -> Metrics:
    """How far the updates have moved the policy, on the rollout that they were made from."""
    log_ratio = (token_logp(policy, rollout) - rollout.logp_behavior)[rollout.mask]
    ratio = log_ratio.exp()
    outside = ((ratio - 1).abs() > EPSILON).float().mean().item()
    kl = kl_estimate(-log_ratio, "k3").mean().item()
    return dict(outside=outside, largest_ratio=ratio.max().item(), kl=kl)
