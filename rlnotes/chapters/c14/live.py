"""The loop of chapter 14 on several seeds: a mask of responses, and what each round could have been promised.

``python -m rlnotes.chapters.c14.live --out 14_live.json`` takes some five minutes on one thread.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import torch

from rlnotes.bounds.token_closed_forms import minoriser
from rlnotes.chapters.c12.promise import Path, fixed_prompts
from rlnotes.estimators.baselines import group_mean
from rlnotes.estimators.divergences import kl
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import RolloutWeights
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.trust_region import next_token_log_probs
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.contest import STARTS
from rlnotes.studies.store import store_rows

ROUNDS, UPDATES = 20, 4  # updates on one rollout
RATES = (1e-5, 5e-5, 2e-4, 8e-4)  # the third is the best of this mask in the contest behind four bits
SAMPLERS: dict[str, RolloutWeights] = {"exact": "float32", "four bits": "int4"}
MOST, AVERAGE = 0.5, 0.05  # of the mask: |log r| of a token, k3 in the mean over a response


def masked_start(
    weights: RolloutWeights, seed: int, start: int = 0
) -> tuple[Misled, Transformer, Sampler, torch.Generator]:
    """The task, a policy that comes with the package, what samples with its weights as ``weights``, and the draws."""
    task, policy = Misled(), shipped_start("misled", start=start)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos, behavior=Behavior(weights))
    return task, policy, sampler, torch.Generator().manual_seed(seed)


@torch.no_grad()
def inspected(
    task: Misled, sampler: Sampler, rollout: Rollout, before: Transformer, after: Transformer
) -> dict[str, float]:
    """What was promised of ``after``, the policy pi, over mu, what sampled with ``before``: a number by its name.

    One answer to each prompt is right. So J, L and the mean of R log w are exact on the prompts of ``fixed_prompts``.
    D_seq and the largest KL are by whole rows in the contexts of one response of mu to each of them. ``own`` is the
    mean of R log w over ``rollout``, on which pi was trained, and ``fresh`` over those new responses.
    """
    prompts, mu = fixed_prompts(task), sampler.behavior.rollout_model(before)
    old, new, current = (Path.of(policy, task, prompts) for policy in (mu, after, before))
    right, log_r = old.token.prod(1), (new.token / old.token).log()
    seen = sampler.sample(before, prompts, 1, torch.Generator().manual_seed(0))
    row_kl = kl(*(next_token_log_probs(policy, seen).double() for policy in (mu, after)))
    D_seq, largest, J = row_kl.sum().item() / len(prompts), row_kl.max().item(), old.expected_reward
    L = (right * log_r.expm1().sum(1)).mean().item()
    return {
        "J": J,
        "change": new.expected_reward - J,
        "over pi_k": new.expected_reward - current.expected_reward,
        "L": L,
        "D_seq": D_seq,
        "D_max": largest,
        "L - D_seq": L - D_seq,
        "R log w": (right * log_r.sum(1)).mean().item(),
        "published": L - float(minoriser(task.max_response_length, largest, D_seq)),
        **{name: _of_batch(task, some, after) for name, some in (("own", rollout), ("fresh", seen))},
    }


def _of_batch(task: Misled, rollout: Rollout, policy: Transformer) -> float:
    """The mean of R log w over the responses of ``rollout``."""
    log_r = torch.where(rollout.mask, token_logp(policy, rollout) - rollout.logp_behavior, 0.0).double()
    return (task.reward(rollout) * log_r.sum(1)).mean().item()


def train(
    weights: RolloutWeights, rate: float, seed: int = 0, start: int = 0, rounds: int = ROUNDS
) -> list[dict[str, float]]:
    """The loop as the chapter has it: a row for each round."""
    task, policy, sampler, draws = masked_start(weights, seed, start)
    optimizer, rows = torch.optim.Adam(policy.parameters(), rate), []
    for _ in range(rounds):
        before, kept = deepcopy(policy), []
        rollout = sampler.sample(policy, task.sample(32, draws).prompts, 16, draws)
        advantages = group_mean(task.reward(rollout), 16).view(32, 16)
        for own in torch.arange(32).view(UPDATES, -1):
            part, A = rollout.groups(own), advantages[own].view(-1, 1)
            log_r = torch.where(part.mask, token_logp(policy, part) - part.logp_behavior, 0.0)
            x = log_r.detach()
            k3 = (x.expm1() - x).sum(1) / part.mask.sum(1)
            keep = (x.abs().amax(1) <= MOST) & (k3 <= AVERAGE)
            loss = -(keep * (log_r.exp() * A * part.mask).sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 6.0)
            optimizer.step()
            kept.append(keep.double().mean().item())
        rows.append({"kept": sum(kept) / UPDATES} | inspected(task, sampler, rollout, before, policy))
    return rows


def run(sampler: str, rate: float, seed: int) -> dict[str, Any]:
    """One run, a list for each column."""
    rows = train(SAMPLERS[sampler], rate, seed, start=seed % STARTS)
    return {"sampler": sampler, "rate": rate, "seed": seed} | {name: [row[name] for row in rows] for name in rows[0]}


def rows() -> Iterator[dict[str, Any]]:
    """All arms, a seed for each start."""
    for seed, sampler, rate in product(range(STARTS), SAMPLERS, RATES):
        yield run(sampler, rate, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c14.live", str(__doc__), rows)
