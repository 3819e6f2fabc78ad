"""The live runs of chapter 06 on six seeds: what a round did, beside the numbers that trainers log of it.

``python -m rlnotes.chapters.c06.live --out 06_live.json`` takes some fifteen minutes on one thread.
"""

from collections.abc import Iterator
from typing import Any

from rlnotes.chapters.c06.experiment import in_columns
from rlnotes.lm.critic import Critic
from rlnotes.lm.instruments import instruments
from rlnotes.lm.tasks import Misled
from rlnotes.lm.token_ppo import TokenPPOConfig, token_ppo
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

SEEDS = range(6)
ARMS = {"clip": 0.2, "unclipped": None}
READ = ("J", "change", "promised", "estimated", "outside", "clipped", "kl", "kl_round", "kl_steps")


def live_run(arm: str, seed: int) -> dict[str, Any]:
    """One run of the chapter's loop, 14 rounds of 256 responses: ``kl`` is exact and held out, ``kl_round`` k3's
    estimate after the round, and ``kl_steps`` what verl logs.
    """
    task, policy = Misled(), shipped_start("misled")
    config = TokenPPOConfig(steps=14, learning_rate=6e-4, lam=1.0, clip=ARMS[arm], seed=seed)
    rounds = (row | dict(kl_round=row["kl"]) for row in token_ppo(config, task, policy, Critic(policy)))
    found = [{name: row[name] for name in READ} for row in instruments(rounds, task, policy)]
    return dict(arm=arm, seed=seed) | in_columns(found)


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run."""
    for seed in SEEDS:
        for arm in ARMS:
            yield live_run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c06.live", str(__doc__), rows)
