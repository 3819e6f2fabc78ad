"""The live run of chapter 09 on six seeds and three starts: with each of its ranges, with one that it measures, and
with one update to a round.

``python -m rlnotes.chapters.c09.live --out 09_live.json`` takes some five minutes on one thread.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import torch

from rlnotes.chapters.c09.rounds import (
    PASSES,
    PIECES,
    TASK,
    accuracy,
    by_sign,
    log_ratios,
    moved,
    parts,
    sample,
    scatter,
)
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.lm.model import Transformer
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import GSPO, Batch, policy_loss
from rlnotes.objectives.gates import Clip
from rlnotes.studies.contest import STARTS
from rlnotes.studies.store import store_rows

SEEDS, ROUNDS, RATE = range(6), 6, 1e-4
WIDE = 0.2
RANGES = {"0.2": WIDE, "0.03": 0.03, "4e-4": 4e-4, "measured": WIDE, "0.2, one update": WIDE}  # of the first round
BINS = ((17, 32), (33, 48), (49, 65))  # lengths
FEWEST = 8  # responses of a bin

Numbers = dict[str, float]


@cache
def begun(start: int) -> dict[str, float]:
    """Sampled and greedy accuracy of a start."""
    policy = shipped_start("ledger", start=start)
    return dict(start=accuracy(policy), greedy=accuracy(policy, greedy=True))


def train(arm: str, seed: int, count: int = ROUNDS) -> tuple[Transformer, list[Numbers], list[list[Numbers]]]:
    """As many rounds of the chapter's loop as ``count`` says: the policy, numbers of each round, and those of its
    lengths. A range that is ``measured`` is sigma / sqrt(T) of the round before, and its rounds have closed
    gates by sign.
    """
    policy, draws = shipped_start("ledger", start=seed % STARTS), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(policy.parameters(), RATE, (0.9, 0.95), weight_decay=0.0)
    cut = (1, 1) if arm.endswith("one update") else (PASSES, PIECES)
    epsilon, rounds, lengths = RANGES[arm], [], []
    for _ in range(count):
        rollout, A = sample(policy, draws)
        gate, shares, seen = Clip(epsilon, epsilon), [], torch.zeros(1)
        for part, own in parts(rollout, A, draws, *cut):
            batch = Batch(token_logp(policy, part), part.mask, own, part.logp_behavior)
            optimizer.zero_grad()
            policy_loss(replace(GSPO, gate=gate), batch).backward()
            log_r = (batch.logp.detach() - part.logp_behavior) * part.mask
            shut = gate.closed((log_r.sum(1) / part.mask.sum(1)).exp(), own)
            shares += [shut[own != 0].float().mean().item()] * bool((own != 0).any())
            seen = log_r[part.mask]
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        found = {"range": epsilon, "reward": TASK.reward(rollout).mean().item(), "clip fraction": fmean(shares)}
        found["KL at the last update"] = kl_estimate(-seen, "k3").mean().item()
        rounds.append(found | moved(policy, rollout, A, epsilon))
        log_r, length = log_ratios(policy, rollout), rollout.mask.sum(1)
        inside = [(length >= low) & (length <= high) for low, high in BINS]
        lengths.append([scatter(log_r[rows], rollout.mask[rows]) for rows in inside if rows.sum() > FEWEST])
        if arm == "measured":
            rounds[-1] |= by_sign(policy, rollout, A, epsilon)
            epsilon = rounds[-1]["sigma / sqrt(T)"]
    return policy, rounds, lengths


def run(arm: str, seed: int) -> dict[str, Any]:
    """One run, and the accuracy before and after."""
    policy, rounds, lengths = train(arm, seed)
    ends = begun(seed % STARTS) | dict(end=accuracy(policy))
    return dict(arm=arm, seed=seed) | ends | dict(rounds=rounds, lengths=lengths)


def rows() -> Iterator[dict[str, Any]]:
    """A row for each range and seed."""
    for arm in RANGES:
        for seed in SEEDS:
            yield run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c09.live", str(__doc__), rows)
