"""The loop of chapter 08 on many seeds: one denominator after the other, each at its own best learning rate.

``python -m rlnotes.chapters.c08.live --out 08_live.json`` takes some ten minutes on one thread.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlnotes.chapters.c08.ramble import SAMPLER, TASK, accuracy, gap_within, lengths
from rlnotes.lm.model import Transformer
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

SHARES: dict[str, Callable[[Tensor], Tensor]] = {
    "response mean": lambda mask: 1 / (len(mask) * mask.sum(1, keepdim=True)),
    "constant": lambda mask: torch.tensor(1 / (len(mask) * TASK.max_response_length)),
    "token mean": lambda mask: 1 / mask.sum(),
}
RATES = (1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.4e-3, 4.8e-3)
TUNING, REPORTED = range(100, 103), range(10)
CHAPTER_RATE, STEPS, EVERY = 3e-4, 30, 3


def train(
    share: Callable[[Tensor], Tensor],
    seed: int,
    rate: float = CHAPTER_RATE,
    steps: int = STEPS,
    make_optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
) -> tuple[Transformer, list[dict[str, float]]]:
    """The loop as the chapter has it, on 16 groups of 16. Of each step the lengths of its rollout and the gap within
    its groups, and every three steps the exact accuracy on held-out prompts after it.
    """
    policy, draws, rows = shipped_start("ramble"), torch.Generator().manual_seed(seed), []
    optimizer = make_optimizer(policy.parameters(), rate, weight_decay=0.0)
    for step in range(1, steps + 1):
        rollout = SAMPLER.sample(policy, TASK.sample(16, draws).prompts, 16, draws)
        rewards = TASK.reward(rollout).view(16, 16)
        advantages = (rewards - rewards.mean(1, keepdim=True)).view(-1, 1)
        objective = (share(rollout.mask) * advantages * token_logp(policy, rollout))[rollout.mask].sum()
        optimizer.zero_grad()
        (-objective).backward()
        optimizer.step()
        rows.append(lengths(rollout) | dict(within=gap_within(rollout), reward=rewards.mean().item()))
        if step % EVERY == 0:
            with torch.no_grad():
                rows[-1]["accuracy"] = accuracy(policy).item()
    return policy, rows


def run(denominator: str, seed: int, rate: float, role: str) -> dict[str, Any]:
    """One run: lengths by step, None where there were none, and accuracy every three steps."""
    _, rows = train(SHARES[denominator], seed, rate)
    found: dict[str, Any] = dict(denominator=denominator, seed=seed, rate=rate, role=role)
    for name in ("right", "wrong", "all", "reward"):
        found[name] = [None if row[name] != row[name] else row[name] for row in rows]
    return found | dict(accuracy=[row["accuracy"] for row in rows if "accuracy" in row])


def best_rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The rate of each denominator at which its tuning runs have the highest mean accuracy."""
    scores = {
        (name, rate): np.mean([one["accuracy"] for one in rows if (one["denominator"], one["rate"]) == (name, rate)])
        for name in SHARES
        for rate in RATES
    }
    return {name: max(RATES, key=lambda rate: scores[name, rate]) for name in SHARES}


def rows() -> Iterator[dict[str, Any]]:
    """Tuning runs; then ten seeds at the best rate, and at the chapter's."""
    tuned = []
    for name in SHARES:
        for rate in RATES:
            for seed in TUNING:
                tuned.append(run(name, seed, rate, "tuning"))
                yield tuned[-1]
    for name, best in best_rates(tuned).items():
        for rate, role in ((CHAPTER_RATE, "chapter"), (best, "best")):
            for seed in REPORTED:
                yield run(name, seed, rate, role)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c08.live", str(__doc__), rows)
