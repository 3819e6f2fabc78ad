"""The round of chapter 06 on which cells try their updates: a policy on its way, responses, and their advantages."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.score_function import normalize_advantages
from rlnotes.exact.divergences import kl
from rlnotes.lm.critic import Critic, answer_logp, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, response_logits, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.token_ppo import TokenPPOConfig, token_ppo
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives.gates import Clip


@dataclass(frozen=True)
class Round:
    """N responses of ``policy``, one to each prompt, with advantages (N, T) as ``critic`` sees them."""

    task: Misled
    policy: Transformer
    critic: Critic
    rollout: Rollout
    advantages: Tensor


def one_round(n: int = 86, rounds: int = 4, seed: int = 0) -> Round:
    """A round of PPO: after ``rounds`` of training, ``n`` fresh responses."""
    task, policy = Misled(), shipped_start("misled")
    critic = Critic(policy)
    for _ in token_ppo(TokenPPOConfig(steps=rounds, learning_rate=6e-4, seed=seed), task, policy, critic):
        pass
    return fresh_round(task, policy, critic, n, torch.Generator().manual_seed(seed))


def fresh_round(task: Misled, policy: Transformer, critic: Critic, n: int, generator: torch.Generator) -> Round:
    """One response to each of ``n`` prompts, and normalised advantages with lambda at 0.95."""
    prompts = task.sample(n, generator).prompts
    rollout = Sampler(task.max_response_length, task.vocabulary.eos).sample(policy, prompts, 1, generator)
    with torch.no_grad():
        values = critic.values(rollout)
    advantages = token_advantages(task.reward(rollout), values, rollout.mask, lam=0.95)
    scaled = normalize_advantages(advantages[rollout.mask])
    return Round(task, policy, critic, rollout, advantages.masked_scatter(rollout.mask, scaled))


def heldout_J(task: Misled, policy: Transformer, n: int = 256) -> float:
    """J on ``n`` held-out prompts, exact: the mean chance of the right answer."""
    asked = task.sample(n, torch.Generator().manual_seed(0), "heldout").prompts
    answered = Rollout.of_responses(asked, task.solve(asked), task.vocabulary.eos)
    return answer_logp(policy, task, answered).sum(-1).exp().mean().item()


@torch.no_grad()
def exact_kl(p: Transformer, q: Transformer, rollout: Rollout) -> float:
    """KL(p || q) of a token in nats, over the whole vocabulary: the mean over the states of a round."""
    logp, logq = (response_logits(model, rollout).log_softmax(-1) for model in (p, q))
    return kl(logp, logq)[rollout.mask].mean().item()


def ratios_of(
    made: Round, epsilon: float, updates: int, rate: float = 3e-4, state: dict[str, Any] | None = None
) -> list[Tensor]:
    """The ratios (n,) of a round's tokens before the first of some updates with PPO's clip, and after each. Adam begins
    anew, or with the ``state`` that another one's ``state_dict`` gives.
    """
    policy, mask, found = deepcopy(made.policy), made.rollout.mask, []
    optimizer, gate = torch.optim.Adam(policy.parameters(), rate), Clip(epsilon, epsilon)
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(updates + 1):
        ratio = (token_logp(policy, made.rollout) - made.rollout.logp_behavior).exp()
        found.append(ratio[mask].detach())
        optimizer.zero_grad()
        (-gate(ratio, made.advantages)[mask].mean()).backward()
        optimizer.step()
    return found
