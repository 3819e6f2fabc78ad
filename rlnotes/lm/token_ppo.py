"""PPO on a language model: one action is one token, and a critic judges every prefix. 002 section 4.7.4."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rlnotes.estimators.divergences import kl_estimate
from rlnotes.estimators.score_function import normalize_advantages
from rlnotes.lm.config import Metrics
from rlnotes.lm.critic import Critic, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Task
from rlnotes.objectives import PPO_CLIP, Batch, policy_loss
from rlnotes.objectives.gates import Clip, no_gate
from rlnotes.objectives.values import clipped_value_loss
from rlnotes.settings import positive, within

EPSILON = 0.2  # of the band that metrics are about


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
    clip: float | None = 0.2
    """epsilon of the clip; None for none"""
    kl_limit: float | None = None
    """no more updates on a rollout once KL(old, new) per token of a minibatch, in nats, is above it; None: no limit"""
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
        positive(self, "learning_rate", most=1)  # AdamW moves a weight by about so much
        positive(self, "gradient_clip")


def token_ppo(config: TokenPPOConfig, task: Task, policy: Transformer, critic: Critic) -> Iterator[Metrics]:
    """PPO on tokens. ``policy`` and ``critic`` are trained in place. Yields metrics per rollout.

    Metrics: ``step``; of the rollout before the updates ``reward``, its mean, and ``value``, the critic's mean at the
    first token; ``value_loss``, the mean squared error against the targets, before; ``updates``, their number;
    ``clipped``, the share of tokens whose gate is closed (without a clip: would be, at 0.2), mean over the minibatches,
    and ``clipped_last``, that of the last one looked at; ``kl_steps``, the mean of -log r over the minibatches, each
    before its own step, as verl logs ``actor/ppo_kl``; after the updates, on the rollout they were made from,
    ``outside``, the share of tokens whose ratio is outside the band, ``largest_ratio``, and ``kl``, k3's estimate of
    KL(old, new) per token, in nats.
    """
    gate = no_gate if config.clip is None else Clip(config.clip, config.clip)
    choices = replace(PPO_CLIP, gate=gate)
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
        closed, gone, updates = [], [], 0
        for rows in passes(config, data):
            part = rollout.groups(rows)
            batch = Batch(token_logp(policy, part), part.mask, advantages[rows], part.logp_behavior)
            log_ratio = (batch.logp.detach() - part.logp_behavior)[part.mask]
            closed.append(closed_share(log_ratio, advantages[rows][part.mask]))
            gone.append(-log_ratio.mean().item())
            if config.kl_limit is not None and kl_estimate(-log_ratio, "k3").mean() > config.kl_limit:
                break
            values = (critic.values(part), targets[rows], old_values[rows])
            value_loss = clipped_value_loss(*(v[part.mask] for v in values), limit=None)
            loss = policy_loss(choices, batch) + config.value_coefficient * value_loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, config.gradient_clip)
            optimizer.step()
            warm_up.step()
            updates += 1
        first = dict(reward=rewards.mean().item(), value=old_values[:, 0].mean().item())
        first["value_loss"] = (old_values - targets)[mask].square().mean().item()
        during = dict(updates=updates, clipped=sum(closed) / len(closed), clipped_last=closed[-1])
        during["kl_steps"] = sum(gone) / len(gone)
        yield dict(phase=1, step=step, **first, **during, **look(policy, rollout))


def passes(config: TokenPPOConfig, generator: torch.Generator) -> list[Tensor]:
    """Rows of every minibatch of a rollout, drawn in one go: a round that ends early asks for the same prompts next."""
    orders = [torch.randperm(config.prompts, generator=generator) for _ in range(config.epochs)]
    return [rows for order in orders for rows in order.chunk(config.minibatches)]


def closed_share(log_ratio: Tensor, advantages: Tensor) -> float:
    """Share of tokens (n,) that have gone out of the band the way their advantage (n,) wants."""
    return Clip(EPSILON, EPSILON).closed(log_ratio.exp(), advantages).float().mean().item()


@torch.no_grad()
def look(policy: Transformer, rollout: Rollout) -> Metrics:
    """How far the updates have moved the policy, on the rollout that they were made from."""
    log_ratio = (token_logp(policy, rollout) - rollout.logp_behavior)[rollout.mask]
    ratio = log_ratio.exp()
    outside = ((ratio - 1).abs() > EPSILON).float().mean().item()
    kl = kl_estimate(-log_ratio, "k3").mean().item()
    return dict(outside=outside, largest_ratio=ratio.max().item(), kl=kl)
