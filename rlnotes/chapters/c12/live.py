"""The loop of chapter 12 on several seeds: a sampler whose weights lag, and what each round was promised.

``python -m rlnotes.chapters.c12.live --out 12_live.json`` takes some ten minutes on one thread.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import torch

from rlnotes.chapters.c12.promise import fixed_prompts, mean_lag, sides
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.behavior import Behavior, VersionMixture
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled
from rlnotes.lm.versions import Snapshots
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.contest import STARTS
from rlnotes.studies.store import store_rows

RATE, ROUNDS, UPDATES = 8e-4, 24, 4  # of the chapter's loop; four updates on a rollout
SEEDS = range(6)
ARMS: dict[str, tuple[tuple[int, ...], float]] = {  # lags in updates, and the rate
    "fresh": ((0,), RATE),
    "fresh, half the rate": ((0,), RATE / 2),
    "half old": ((0, 32), RATE),
    "all old": ((32,), RATE),
    "all old, half the rate": ((32,), RATE / 2),
    "all old, half the lag": ((16,), RATE),
    "all old, one round": ((UPDATES,), RATE),
}


def lagging_start(
    lags: Sequence[int], seed: int, start: int = 0
) -> tuple[Misled, Transformer, Sampler, Snapshots, torch.Generator]:
    """The task, a policy that comes with the package, what samples from weights ``lags`` updates old, equally many
    responses each, the past where those weights will be, and the draws.
    """
    task, policy = Misled(), shipped_start("misled", start=start)
    mixture = VersionMixture(tuple(lags), [1 / len(lags)] * len(lags))
    sampler = Sampler(task.max_response_length, task.vocabulary.eos, behavior=Behavior(mixture=mixture))
    return task, policy, sampler, Snapshots(max(lags)), torch.Generator().manual_seed(seed)


def measured(
    task: Misled, past: Snapshots, rollout: Rollout, before: Transformer, after: Transformer, updates: int
) -> dict[str, float]:
    """A row of a round: its mean lag, and :func:`rlnotes.chapters.c12.promise.sides`."""
    lags = rollout.behavior.mixture.lags if rollout.behavior.mixture else (0,)
    shares: dict[int, float] = {}
    for lag in lags:  # two of them may reach one version, the start's
        version = past.version_of(updates - lag)
        shares[version] = shares.get(version, 0.0) + 1 / len(lags)
    models = {version: past.models[version] for version in shares}
    found = sides(task, fixed_prompts(task), models, shares, before, after, rollout)
    return {"round": updates // UPDATES + 1, "lag": mean_lag(rollout, updates)} | found


def train(
    lags: Sequence[int], rate: float = RATE, seed: int = 0, start: int = 0, rounds: int = ROUNDS
) -> list[dict[str, float]]:
    """The loop as the chapter has it: a row for each round."""
    task, policy, sampler, past, draws = lagging_start(lags, seed, start)
    optimizer, rows = torch.optim.Adam(policy.parameters(), rate), []
    for done in range(0, UPDATES * rounds, UPDATES):
        past.remember(done, policy)
        asked, before = task.sample(32, draws).prompts, deepcopy(policy)
        rollout = sampler.sample(policy, asked, 16, draws, done, past=past)
        advantages = group_mean_std(task.reward(rollout), 16).view(32, 16)
        for own in torch.arange(32).view(UPDATES, -1):
            part, A = rollout.groups(own), advantages[own].view(-1, 1)
            ratio = (token_logp(policy, part) - part.logp_behavior).exp()
            terms = torch.minimum(ratio * A, ratio.clamp(0.8, 1.2) * A) * part.mask
            loss = -(terms.sum(1) / part.mask.sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        rows.append(measured(task, past, rollout, before, policy, done))
    return rows


def run(arm: str, seed: int) -> dict[str, Any]:
    """One run, a list for each column."""
    lags, rate = ARMS[arm]
    rows = train(lags, rate, seed, start=seed % STARTS)
    return {"arm": arm, "seed": seed, "rate": rate} | {name: [row[name] for row in rows] for name in rows[0]}


def rows() -> Iterator[dict[str, Any]]:
    """All arms on all seeds."""
    for seed in SEEDS:
        for arm in ARMS:
            yield run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c12.live", str(__doc__), rows)
