"""The loop of chapter 13 on several seeds: one clip with three centres, and none, on data of the past.

``python -m rlnotes.chapters.c13.live --out 13_live.json`` takes some two minutes on one thread.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c11.live import accuracy
from rlnotes.chapters.c12.live import RATE, UPDATES, lagging_start
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.sampler import token_logp
from rlnotes.studies.contest import STARTS, UNCLIPPED
from rlnotes.studies.store import store_rows

Band = Callable[[Tensor], tuple[Tensor, Tensor]]
BANDS: dict[str, Band] = {  # between which ratios to mu a token is pushed, from its ratio before the round
    "at mu": lambda before: (0 * before + 0.8, 0 * before + 1.2),
    "at pi_k, plus": lambda before: (before - 0.2, before + 0.2),
    "at pi_k, times": lambda before: (0.8 * before, 1.2 * before),
    UNCLIPPED: lambda before: (0 * before, before + torch.inf),
}
ROUNDS, SEEDS = 24, range(STARTS)  # a seed for each start


ARMS: dict[str, tuple[str, int, float]] = {  # centre, lag in updates, rate
    "at mu, one round": ("at mu", UPDATES, RATE),
    **{f"{centre}, eight rounds": (centre, 8 * UPDATES, RATE) for centre in BANDS},
    **{f"{centre}, eight rounds, half the rate": (centre, 8 * UPDATES, RATE / 2) for centre in BANDS},
}


def train(
    centre: str, lag: int, rate: float = RATE, seed: int = 0, start: int = 0, rounds: int = ROUNDS
) -> list[dict[str, float]]:
    """The loop as the chapter has it: a row for each round, and J after the last."""
    task, policy, sampler, past, draws = lagging_start((lag,), seed, start)
    optimizer, rows = torch.optim.Adam(policy.parameters(), rate), []
    for done in range(0, UPDATES * rounds, UPDATES):
        past.remember(done, policy)
        J = accuracy(policy)
        rollout = sampler.sample(policy, task.sample(32, draws).prompts, 16, draws, done, past=past)
        advantages = group_mean_std(task.reward(rollout), 16).view(-1, 1)
        with torch.no_grad():
            logp_k = token_logp(policy, rollout)
        before = (logp_k - rollout.logp_behavior).exp()
        low, high = BANDS[centre](before)
        rows.append({"J": J} | shut(before, logp_k, advantages, rollout.mask, (low, high)))
        for own in torch.arange(512).view(UPDATES, -1):  # the responses of an update, 8 groups
            part, A = rollout.groups(own[::16] // 16), advantages[own]
            ratio = (token_logp(policy, part) - part.logp_behavior).exp()
            terms = torch.minimum(ratio * A, torch.clamp(ratio, low[own], high[own]) * A) * part.mask
            loss = -(terms.sum(1) / part.mask.sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
    return [*rows, {"J": accuracy(policy)}]


def shut(
    ratio: Tensor, logp: Tensor, advantages: Tensor, mask: Tensor, band: tuple[Tensor, Tensor]
) -> dict[str, float]:
    """What a clip leaves without a push: the share of good tokens, of bad ones, and of what all would push together
    without it, each its own logit, which is its ratio times |A| times what is left to learn, 1 - pi.
    """
    low, high = band
    good, bad = mask & (advantages > 0), mask & (advantages < 0)
    closed = torch.where(advantages > 0, ratio >= high, ratio <= low)
    pushes = (ratio * advantages.abs() * -torch.expm1(logp)) * mask
    found = {"good": closed[good].double().mean(), "bad": closed[bad].double().mean()}
    for sign, own in (("good", good), ("bad", bad)):
        found[f"{sign} push"] = (pushes * closed * own).sum() / (pushes * own).sum()
    return {f"{name} shut": x.nan_to_num(0.0).item() for name, x in found.items()}


def run(arm: str, seed: int) -> dict[str, Any]:
    """One run, a list for each column."""
    centre, lag, rate = ARMS[arm]
    rows = train(centre, lag, rate, seed, start=seed)
    columns = {name: [round(row[name], 4) for row in rows if name in row] for name in rows[0]}
    return {"arm": arm, "centre": centre, "lag": lag, "rate": rate, "seed": seed} | columns


def rows() -> Iterator[dict[str, Any]]:
    """All arms on all seeds."""
    for seed, arm in product(SEEDS, ARMS):
        yield run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c13.live", str(__doc__), rows)
