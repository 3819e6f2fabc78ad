"""What TRPO and PPO optimise on: the transitions of one rollout with advantages and value targets, held constant."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from rlnotes.control.collector import Steps
from rlnotes.control.networks import ActorCritic
from rlnotes.estimators.returns import gae
from rlnotes.estimators.score_function import normalize_advantages


@dataclass(frozen=True)
class Samples:
    """m transitions of the old policy, in no order that matters, phantoms left out. Nothing carries a gradient."""

    obs: Tensor
    """(m, ...) float32"""
    actions: Tensor
    """(m,) int64"""
    logp_behavior: Tensor
    """(m,) log-probability of the action, as recorded when it was drawn"""
    old_log_probs: Tensor
    """(m, A) all log-probabilities of the old policy"""
    advantages: Tensor
    """(m,) GAE, minus the mean over the rollout and over its standard deviation if asked for"""
    old_values: Tensor
    """(m,) V of the old critic"""
    targets: Tensor
    """(m,) what V is fitted to"""

    def rows(self, index: Tensor) -> "Samples":
        """The transitions with these numbers."""
        return Samples(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def log_ratio(self, log_probs: Tensor) -> Tensor:
        """log pi - log mu (m,) of the actions taken, for a policy's ``log_probs`` (m, A). 002 eqs. (69), (76)."""
        return log_probs.gather(-1, self.actions[:, None]).squeeze(-1) - self.logp_behavior


@torch.no_grad()
def make_samples(network: ActorCritic, steps: Steps, gamma: float, lam: float, normalize: bool) -> Samples:
    """Advantages by GAE, 002 eq. (80), and the targets A + V, 002 eq. (81), by the critic as it stands.

    The targets take the advantages before they are normalised.
    """
    values, next_values = network.value(steps.obs), network.value(steps.next_obs)
    advantages = gae(steps.rewards, values, next_values, steps.terminated, steps.truncated, gamma, lam)
    valid = steps.valid
    return Samples(
        obs=steps.obs[valid],
        actions=steps.actions[valid],
        logp_behavior=steps.logp[valid],
        old_log_probs=network.log_probs(steps.obs[valid]),
        advantages=normalize_advantages(advantages[valid]) if normalize else advantages[valid],
        old_values=values[valid],
        targets=(advantages + values)[valid],
    )
