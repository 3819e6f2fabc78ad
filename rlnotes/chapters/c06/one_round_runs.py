"""Updates on one round of chapter 06, on seven seeds: how far ratios go, why they go on, and what each limit holds.

``python -m rlnotes.chapters.c06.one_round_runs --out 06_one_round.json`` takes some five minutes on one thread.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c06.rounds import Round, exact_kl, fresh_round, heldout_J, one_round, ratios_of
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.lm.model import Transformer
from rlnotes.lm.sampler import response_logits, token_logp
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives.gates import Clip
from rlnotes.studies.store import store_rows

SEEDS = range(7)
MORE_SEEDS, MORE_ARMS = (0, 7, 8, 9), ("before", "unclipped", "clip", "clip_penalty")
SELDOM = 0.01  # a probability
RATE, DEFAULT_RATE = 3e-4, 1e-6  # of the chapter, and of TRL and verl
KL_LIMIT, BETA, STRONG_BETA = 0.02, 0.1, 0.5
INF = float("inf")
ARMS = {
    "before": (INF, -1.0, 0.0),  # any KL is above -1, so it stops before its first update
    "unclipped": (INF, INF, 0.0),
    "clip": (0.2, INF, 0.0),
    "stop": (INF, KL_LIMIT, 0.0),
    "clip_stop": (0.2, KL_LIMIT, 0.0),
    "penalty": (INF, INF, BETA),
    "clip_penalty": (0.2, INF, BETA),
    "strong_penalty": (INF, INF, STRONG_BETA),
}
"""epsilon, limit on KL(old, new), weight of KL(new, reference)"""

WAYS = {
    "Adam": (0.9, False, 1.0),
    "Adam, kept shut": (0.9, True, 1.0),
    "memory alone": (0.9, False, 0.0),  # after the first update every gradient is 0
    "no momentum": (0.0, False, 1.0),
    "no momentum, kept shut": (0.0, True, 1.0),
}
"""Adam's first beta; whether tokens push no more whose gate has closed, even if it opens again; the weight of the
objective after the first update"""


def ratio_rows(made: Round, seed: int) -> Iterator[dict[str, Any]]:
    """The ratios after one and four updates with the clip and a new Adam, at two learning rates."""
    for rate in (RATE, DEFAULT_RATE):
        found = ratios_of(made, 0.2, 4, rate)
        for updates in (1, 4):
            yield dict(table="ratios", seed=seed, rate=rate, updates=updates) | spread(found[updates])


def carried_rows(made: Round, seed: int) -> Iterator[dict[str, Any]]:
    """The same on the round that follows eight updates, with a new Adam and with the one that has made them."""
    policy, mask = deepcopy(made.policy), made.rollout.mask
    optimizer = torch.optim.Adam(policy.parameters(), RATE)
    for _ in range(8):
        ratio = (token_logp(policy, made.rollout) - made.rollout.logp_behavior).exp()
        step(optimizer, -clipped_mean(ratio, made.advantages, mask, 0.2))
    following = fresh_round(made.task, policy, made.critic, len(mask), torch.Generator().manual_seed(100 + seed))
    for name, state in (("new", None), ("carried", optimizer.state_dict())):
        found = ratios_of(following, 0.2, 4, RATE, state)
        for updates in (1, 4):
            yield dict(table="carried", seed=seed, adam=name, updates=updates) | spread(found[updates])


def spread(r: Tensor) -> dict[str, float]:
    """How far ratios (n,) are spread."""
    outside = ((r - 1).abs() > 0.2).float().mean().item()
    return dict(smallest=r.min().item(), largest=r.max().item(), q99=torch.quantile(r, 0.99).item(), outside=outside)


def drift_row(made: Round, seed: int, way: str) -> dict[str, Any]:
    """How far tokens go on, in log r, from update 1 to 8, whose gate the first update has closed; by ``WAYS``."""
    beta_1, held, weight = WAYS[way]
    policy, mask, A = deepcopy(made.policy), made.rollout.mask, made.advantages
    optimizer, seen = torch.optim.Adam(policy.parameters(), RATE, betas=(beta_1, 0.999)), []
    closed = torch.zeros_like(mask)
    for update in range(9):
        log_ratio = token_logp(policy, made.rollout) - made.rollout.logp_behavior
        seen.append(log_ratio.detach())
        if update == 1:
            closed = mask & Clip(0.2, 0.2).closed(log_ratio.detach().exp(), A)
        objective = clipped_mean(log_ratio.exp(), A, mask & ~closed if held else mask, 0.2)
        step(optimizer, -objective * (weight if update else 1.0))
    further = ((seen[8] - seen[1]) * A.sign())[closed]
    counts = dict(closed=int(closed.sum()), on=int((further > 0).sum()))
    return dict(table="drift", seed=seed, way=way, further=further.mean().item()) | counts


def arm_row(made: Round, seed: int, arm: str, why: bool = False) -> dict[str, Any]:
    """Up to 16 updates under one limit; the chapter has this loop in the open. Both KLs are there twice: exactly, and
    as k3 has them on the tokens of the round. If ``why``, then also why k3 of KL(new, reference) is off: the
    share of it that its largest token makes, and the share of the exact KL on what the old policy seldom wrote.
    """
    epsilon, limit, beta = ARMS[arm]
    policy, mask, A = deepcopy(made.policy), made.rollout.mask, made.advantages
    reference = shipped_start("misled")
    with torch.no_grad():
        logp_ref = token_logp(reference, made.rollout)
    optimizer = torch.optim.Adam(policy.parameters(), RATE)
    for update in range(17):
        logp = token_logp(policy, made.rollout)
        ratio = (logp - made.rollout.logp_behavior).exp()
        k3 = kl_estimate(-ratio[mask].log(), "k3").mean().item()
        terms = (ratio * kl_estimate(logp - logp_ref, "k3"))[mask]
        to_ref = terms.mean()
        if update == 16 or k3 > limit:
            exact = exact_kl(made.policy, policy, made.rollout), exact_kl(policy, reference, made.rollout)
            numbers = dict(kl=exact[0], k3=k3, kl_reference=exact[1], k3_reference=to_ref.item())
            numbers |= dict(largest=ratio[mask].max().item(), J=heldout_J(made.task, policy))
            if why:
                numbers |= dict(one_token=(terms.max() / terms.sum()).item(), seldom=seldom(made, policy, reference))
            return dict(table="arms", seed=seed, arm=arm, updates=update) | numbers
        step(optimizer, beta * to_ref - clipped_mean(ratio, A, mask, epsilon))
    raise AssertionError("the last pass returns")


@torch.no_grad()
def seldom(made: Round, p: Transformer, q: Transformer) -> float:
    """The share of KL(p || q), as a sum of p (q / p - 1 - log (q / p)), on what the old policy gives less than
    ``SELDOM``.
    """
    logp, logq, old = (response_logits(one, made.rollout).double().log_softmax(-1) for one in (p, q, made.policy))
    parts = (logp.exp() * kl_estimate(logp - logq, "k3"))[made.rollout.mask]
    return (parts[old[made.rollout.mask] < math.log(SELDOM)].sum() / parts.sum()).item()


def clipped_mean(ratio: Tensor, A: Tensor, mask: Tensor, epsilon: float) -> Tensor:
    """The clipped objective."""
    return torch.minimum(ratio * A, ratio.clamp(1 - epsilon, 1 + epsilon) * A)[mask].mean()


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One update."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def rows() -> Iterator[dict[str, Any]]:
    """All rows of a seed, then those of the next; then ``MORE_ARMS`` on ``MORE_SEEDS``, and why k3 is off there."""
    for seed in SEEDS:
        made = one_round(seed=seed)
        yield from ratio_rows(made, seed)
        yield from carried_rows(made, seed)
        for way in WAYS:
            yield drift_row(made, seed, way)
        for arm in ARMS:
            yield arm_row(made, seed, arm)
    for seed in MORE_SEEDS:
        made = one_round(seed=seed)
        for arm in MORE_ARMS:
            yield arm_row(made, seed, arm, why=True) | dict(table="more arms")


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c06.one_round_runs", str(__doc__), rows)
