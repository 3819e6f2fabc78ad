"""Updates on one round of chapter 06, on seven seeds: how far ratios go, why they go on, and what each limit holds.

``python -m rlnotes.chapters.c06.one_round_runs --out 06_one_round.json`` takes some five minutes on one thread.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c06.rounds import Round, fresh_round, heldout_J, one_round, ratios_of, shipped_start
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.lm.sampler import token_logp
from rlnotes.studies.store import store_rows

SEEDS = range(7)
RATE, DEFAULT_RATE = 3e-4, 1e-6  # of the chapter, and of TRL and verl
KL_LIMIT, BETA, STRONG_BETA = 0.02, 0.1, 0.5
INF = float("inf")
ARMS = {
    "before": (1.0, INF, -1.0, 0.0),  # any KL is above -1, so it stops before its first update
    "unclipped": (1.0, INF, INF, 0.0),
    "clip": (1.0, 0.2, INF, 0.0),
    "stop": (1.0, INF, KL_LIMIT, 0.0),
    "clip_stop": (1.0, 0.2, KL_LIMIT, 0.0),
    "penalty": (1.0, INF, INF, BETA),
    "strong penalty": (1.0, INF, INF, STRONG_BETA),
    "penalty alone": (0.0, INF, INF, BETA),  # no reward
}
"""a factor on the advantages, epsilon, limit on KL(old, new), weight of KL(new, reference)"""


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
    return dict(largest=r.max().item(), q99=torch.quantile(r, 0.99).item(), outside=outside)


def drift_row(made: Round, seed: int, beta_1: float, held: bool = False) -> dict[str, Any]:
    """How far tokens go on, in log r, from update 1 to 8, whose gate the first update has closed. ``held``: they push
    no more, even if their gate opens again.
    """
    policy, mask, A = deepcopy(made.policy), made.rollout.mask, made.advantages
    optimizer, seen = torch.optim.Adam(policy.parameters(), RATE, betas=(beta_1, 0.999)), []
    closed = torch.zeros_like(mask)
    for update in range(9):
        log_ratio = token_logp(policy, made.rollout) - made.rollout.logp_behavior
        seen.append(log_ratio.detach())
        if update == 1:
            r = log_ratio.detach().exp()
            closed = mask & (((A > 0) & (r > 1.2)) | ((A < 0) & (r < 0.8)))
        step(optimizer, -clipped_mean(log_ratio.exp(), A, mask & ~closed if held else mask, 0.2))
    further = ((seen[8] - seen[1]) * A.sign())[closed]
    counts = dict(closed=int(closed.sum()), on=int((further > 0).sum()))
    return dict(table="drift", seed=seed, beta_1=beta_1, held=held, further=further.mean().item()) | counts


def arm_row(made: Round, seed: int, arm: str) -> dict[str, Any]:
    """Up to 16 updates under one limit; the chapter has this loop in the open."""
    factor, epsilon, limit, beta = ARMS[arm]
    policy, mask, A = deepcopy(made.policy), made.rollout.mask, factor * made.advantages
    with torch.no_grad():
        logp_ref = token_logp(shipped_start()[1], made.rollout)
    optimizer = torch.optim.Adam(policy.parameters(), RATE)
    for update in range(17):
        logp = token_logp(policy, made.rollout)
        ratio = (logp - made.rollout.logp_behavior).exp()
        kl = kl_estimate(-ratio[mask].log(), "k3").mean().item()
        to_ref = (ratio * kl_estimate(logp - logp_ref, "k3"))[mask].mean()
        if update == 16 or kl > limit:
            numbers = dict(updates=update, kl=kl, kl_reference=to_ref.item(), largest=ratio[mask].max().item())
            return dict(table="arms", seed=seed, arm=arm) | numbers | dict(J=heldout_J(made.task, policy))
        step(optimizer, beta * to_ref - clipped_mean(ratio, A, mask, epsilon))
    raise AssertionError("the last pass returns")


def clipped_mean(ratio: Tensor, A: Tensor, mask: Tensor, epsilon: float) -> Tensor:
    """The clipped objective."""
    return torch.minimum(ratio * A, ratio.clamp(1 - epsilon, 1 + epsilon) * A)[mask].mean()


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One update."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def rows() -> Iterator[dict[str, Any]]:
    """All rows of a seed, then those of the next."""
    for seed in SEEDS:
        made = one_round(seed=seed)
        yield from ratio_rows(made, seed)
        yield from carried_rows(made, seed)
        for beta_1, held in product((0.9, 0.0), (False, True)):
            yield drift_row(made, seed, beta_1, held)
        for arm in ARMS:
            yield arm_row(made, seed, arm)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c06.one_round_runs", str(__doc__), rows)
