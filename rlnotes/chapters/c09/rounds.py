"""The long task of chapter 09: what a round samples, how far the updates on it went, and what came of it."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.exact.gaussian_ratios import closed_share
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks.ledger import Ledger
from rlnotes.objectives.gates import Clip

TASK = Ledger()
SAMPLER = Sampler(TASK.max_response_length, TASK.vocabulary.eos)
PROMPTS, GROUP, PASSES, PIECES = 16, 8, 2, 4  # of a round
HELD_OUT = 512  # prompts, one response to each
GLUED = 2000  # responses of each length
AT_ONCE = 0.2  # of a token's ratio: what a clip made for tokens lets pass


def sample(
    policy: Transformer, draws: torch.Generator, behavior: Behavior | None = None, prompts: int = PROMPTS
) -> tuple[Rollout, Tensor]:
    """Groups of ``GROUP`` responses to as many ``prompts``, and their advantages (N,) as in GRPO. ``behavior`` is what
    makes the sampler differ from the policy.
    """
    sampler = Sampler(SAMPLER.max_length, SAMPLER.eos, behavior=behavior or Behavior())
    rollout = sampler.sample(policy, TASK.sample(prompts, draws).prompts, GROUP, draws)
    return rollout, group_mean_std(TASK.reward(rollout), GROUP)


def parts(
    rollout: Rollout, advantages: Tensor, draws: torch.Generator, passes: int = PASSES, pieces: int = PIECES
) -> Iterator[tuple[Rollout, Tensor]]:
    """The responses and advantages of each update on a round: whole groups, each once in a pass."""
    of_group = advantages.view(-1, GROUP)
    for _ in range(passes):
        for rows in torch.randperm(len(of_group), generator=draws).chunk(pieces):
            yield rollout.groups(rows), of_group[rows].flatten()


@torch.no_grad()
def log_ratios(policy: Transformer, rollout: Rollout) -> Tensor:
    """log pi - log mu of each token (N, T), 0 behind the end of a response."""
    return (token_logp(policy, rollout) - rollout.logp_behavior) * rollout.mask


def scatter(log_r: Tensor, mask: Tensor) -> dict[str, float]:
    """Of the log-ratios (N, T) of some responses: their mean length, the standard deviation ``sigma`` of a token's,
    that of the responses' means, and what the latter would be if tokens were uncorrelated and responses equally long.
    """
    T, own = mask.sum(1), log_r[mask]
    sigma, length = own.std().item(), T.float().mean().item()
    spread = (log_r.sum(1) / T).std().item()
    return {"T": length, "sigma": sigma, "sigma / sqrt(T)": sigma / length**0.5, "spread": spread}


def moved(policy: Transformer, rollout: Rollout, advantages: Tensor, epsilon: float) -> dict[str, float]:
    """After the updates on a round: :func:`scatter`, the share of responses with an advantage whose gate is closed,
    the share of tokens whose ratio is more than 0.2 from 1, and the KL of a token, in nats, by k3.
    """
    log_r, active = log_ratios(policy, rollout), advantages != 0
    bar_r = (log_r.sum(1) / rollout.mask.sum(1)).exp()
    own = log_r[rollout.mask]
    found = {"closed": Clip(epsilon, epsilon).closed(bar_r, advantages)[active].float().mean().item()}
    found["tokens beyond 0.2"] = ((own.exp() - 1).abs() > AT_ONCE).float().mean().item()
    return found | scatter(log_r, rollout.mask) | {"KL": kl_estimate(-own, "k3").mean().item()}


def by_sign(policy: Transformer, rollout: Rollout, advantages: Tensor, epsilon: float) -> dict[str, float]:
    """After the updates on a round the mean log-ratio of a response, and the share of closed gates among the responses
    below the mean of their group, and among those above it.
    """
    mean = log_ratios(policy, rollout).sum(1) / rollout.mask.sum(1)
    shut = Clip(epsilon, epsilon).closed(mean.exp(), advantages).float()
    signs = {"closed, wrong": advantages < 0, "closed, right": advantages > 0}
    return {"mean": mean.mean().item()} | {name: shut[some].mean().item() for name, some in signs.items()}


def glued_gates(
    log_r: Tensor, mask: Tensor, right: Tensor, low: float, high: float, counts: Sequence[int] = (1, 4, 16, 64)
) -> list[dict[str, float]]:
    """Shares of closed gates over the length, among wrong responses below 1 - ``low``, among ``right`` ones (N,) above
    1 + ``high``: of as many responses of ``log_r`` (N, T) as each of ``counts`` says, drawn with replacement and glued
    to one; for 1, of each as it is. Beside them the shares by :func:`closed_share` for the sigma of all tokens and the
    drift -sigma**2 / 2.
    """
    draws, T, total, found = torch.Generator().manual_seed(0), mask.sum(1), log_r.sum(1), []
    sigma, length = log_r[mask].std().item(), T.float().mean().item()
    for pieces in counts:
        row: dict[str, float] = {"tokens": round(pieces * length)}
        for name, which in (("wrong", ~right), ("right", right)):
            rows = torch.nonzero(which)[:, 0]
            some = rows[torch.randint(len(rows), (GLUED, pieces), generator=draws)] if pieces > 1 else rows[:, None]
            ratio = (total[some].sum(1) / T[some].sum(1)).exp()
            row[name] = (ratio > 1 + high if name == "right" else ratio < 1 - low).float().mean().item()
            law = (-(sigma**2) / 2, sigma, pieces * length, "sequence_mean")
            row[f"{name}, by the formula"] = float(
                closed_share(*law, high if name == "right" else low, name == "right")
            )
        found.append(row)
    return found


def accuracy(policy: Transformer, greedy: bool = False) -> float:
    """Share of held-out prompts answered right, by a sampled response or by the likeliest one."""
    sampler = Sampler(SAMPLER.max_length, SAMPLER.eos, SamplingTransform(temperature=0.0 if greedy else 1.0))
    prompts = TASK.sample(HELD_OUT, torch.Generator().manual_seed(0), "heldout").prompts
    return TASK.reward(sampler.sample(policy, prompts, 1, torch.Generator().manual_seed(1))).mean().item()
