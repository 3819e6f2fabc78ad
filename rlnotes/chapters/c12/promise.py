"""Both sides of the bounds of chapter 12 on the transformer of misled: one answer to each prompt is right.

So the value of a text is 0 once a token is wrong, and else the chance of what is missing. Return, surrogates and the
largest advantages are exact on ``PROMPTS`` prompts; distances are exact in the contexts of a rollout.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.estimators.divergences import tv_estimate
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.trust_region import next_token_log_probs

PROMPTS = 1024


@dataclass(frozen=True)
class Path:
    """Along the right answer to each prompt, (B, T): the chance of each ``token``, of getting there, of what is left
    after it.
    """

    token: Tensor
    reached: Tensor
    after: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, policy: Transformer, task: Misled, prompts: Tensor) -> "Path":
        """Of ``policy`` on ``prompts`` (B, P)."""
        answers = Rollout.of_responses(prompts, task.solve(prompts), task.vocabulary.eos)
        token = token_logp(policy, answers).double().exp()
        one = torch.ones_like(token[:, :1])
        before = torch.cat([one, token.cumprod(1)[:, :-1]], 1)
        left = token.flip(1).cumprod(1).flip(1)
        return cls(token, before, torch.cat([left[:, 1:], one], 1))

    @property
    def expected_reward(self) -> float:
        """J, the mean chance of the right answer."""
        return self.token.prod(1).mean().item()

    def gains(self, policy: "Path") -> Tensor:
        """The advantage (B, T) of this policy that ``policy`` expects along the right answer; elsewhere it is 0."""
        return (policy.token - self.token) * self.after

    @property
    def largest_advantage(self) -> float:
        """xi_k, of right and of wrong tokens."""
        return (torch.maximum(self.token, 1 - self.token) * self.after).max().item()


def split_penalties(length: int, gain: float, advantage: float, update: float, stale: float) -> tuple[float, float]:
    """C_1 U and C_2 S for responses of up to ``length`` tokens. ``gain`` is xi, ``advantage`` xi_k.

    >>> u, s = split_penalties(length=6, gain=0.5, advantage=1.0, update=0.01, stale=0.1)
    >>> print(f"{u:.2f} {s:.2f}")
    0.30 4.20
    """
    shift = 2 * length * (length - 1) * gain
    return shift * update, (shift + 2 * length * advantage) * stale


def sides(
    task: Misled,
    prompts: Tensor,
    versions: Mapping[int, Transformer],
    shares: Mapping[int, float],
    before: Transformer,
    after: Transformer,
    rollout: Rollout,
) -> dict[str, float]:
    """What a round is promised, and what happened: a number by its name.

    ``versions`` are the models that wrote ``rollout``, ``shares`` their chances to begin a response, each of which has
    one version. ``before`` and ``after`` are pi_k and pi. J, L, xi are exact on ``prompts``; S and U are mean
    total variations over the vocabulary in the contexts of ``rollout``, and ``... sampled`` what its tokens estimate.
    """
    own, new = (Path.of(policy, task, prompts) for policy in (before, after))
    mixed = [(shares[i], Path.of(model, task, prompts)) for i, model in versions.items()]

    def surrogate(policy: Path, of_current: bool) -> float:
        terms = ((share, old.reached * (own if of_current else old).gains(policy)) for share, old in mixed)
        return sum(share * term.sum(1).mean().item() for share, term in terms)

    update, stale, whole, estimates = _distances(versions, before, after, rollout)
    length = task.max_response_length
    gain = max(old.gains(new).abs().max().item() for _, old in mixed)
    own_gain, advantage = own.gains(new).abs().max().item(), own.largest_advantage
    L, of_current = surrogate(new, False), surrogate(new, True)
    return {
        "J": own.expected_reward,
        "change": new.expected_reward - own.expected_reward,
        "L": L,
        "L of staying": surrogate(own, False),
        "U": update,
        "S": stale,
        "xi": gain,
        "promised": L - sum(split_penalties(length, gain, advantage, update, stale)),
        "promised, own": of_current - 2 * length * (length - 1) * own_gain * whole,
        **estimates,
    }


@torch.no_grad()
def _distances(
    versions: Mapping[int, Transformer], before: Transformer, after: Transformer, rollout: Rollout
) -> tuple[float, float, float, dict[str, float]]:
    """Mean TV of pi and pi_k, of pi_k and who wrote, of pi and who wrote; then what the tokens alone tell of it."""
    pi_k, pi = (next_token_log_probs(policy, rollout).double().exp() for policy in (before, after))
    written, mu = rollout.version[rollout.mask][:, None], torch.zeros_like(pi)
    for version, model in versions.items():
        mu = torch.where(written == version, next_token_log_probs(model, rollout).double().exp(), mu)

    def mean_tv(p: Tensor, q: Tensor) -> float:
        return ((p - q).abs().sum(-1) / 2).mean().item()

    tokens = rollout.tokens[rollout.mask][:, None]
    of_mu, now, then = (p.gather(-1, tokens) for p in (mu, pi_k, pi))
    estimates = {
        "S sampled": tv_estimate((now / of_mu).log()).mean().item(),
        "U sampled": tv_estimate((then / of_mu).log(), (now / of_mu).log()).mean().item(),
        "mismatch": (now - of_mu).abs().mean().item(),
    }
    return mean_tv(pi, pi_k), mean_tv(pi_k, mu), mean_tv(pi, mu), estimates


def fixed_prompts(task: Misled) -> Tensor:
    """The held-out prompts (PROMPTS, P) of the exact numbers."""
    return task.sample(PROMPTS, torch.Generator().manual_seed(0), "heldout").prompts


def mean_lag(rollout: Rollout, updates: int) -> float:
    """By how many updates the weights that wrote a token are behind, in the mean over tokens."""
    return (updates - rollout.version[rollout.mask]).double().mean().item()
