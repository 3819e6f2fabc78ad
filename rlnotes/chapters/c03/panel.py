"""What the updates of A2C, TRPO and PPO did on CartPole, several seeds of each: the runs behind the instrument panel
of chapters 03 and 05.

``python -m rlnotes.chapters.c03.panel --out 03_panel.json`` makes the table, in some ten minutes of one core.
"""

from collections.abc import Iterator
from typing import Any

import torch

from rlnotes.control.a2c import A2CConfig, a2c
from rlnotes.control.collector import make_envs, make_network
from rlnotes.control.instruments import instruments
from rlnotes.control.ppo import PPOConfig, ppo
from rlnotes.control.trpo import TRPOConfig, trpo
from rlnotes.studies.store import store_rows

SEEDS = range(5)
BLOCK = 4096  # environment steps between two readings
BLOCKS = 50
LOOPS = {"a2c": (A2CConfig, a2c), "trpo": (TRPOConfig, trpo), "ppo": (PPOConfig, ppo)}
READ = ("kl", "outside", "promised", "by_returns", "change", "J")


def panel_run(arm: str, seed: int, blocks: int = BLOCKS) -> dict[str, Any]:
    """One run, its readings in columns, one for each block of updates. ``largest`` is the largest KL of a single update
    of the block, on the samples that it was made from.
    """
    settings, loop = LOOPS[arm]
    every = BLOCK // (settings.envs * settings.steps)
    config = settings(seed=seed, updates=every * blocks)
    network = make_network(make_envs(config.env, 1, seed), torch.Generator().manual_seed(seed))
    run = (row | dict(own_kl=row["kl"]) for row in loop(config, network))
    seen = list(instruments(run, network, config, every))
    own_kl = torch.tensor([row["own_kl"] for row in seen]).reshape(blocks, every)
    columns = {name: [row[name] for row in seen[every - 1 :: every]] for name in READ}
    return dict(arm=arm, seed=seed, largest=own_kl.max(1).values.tolist()) | columns


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run."""
    for seed in SEEDS:
        for arm in LOOPS:
            yield panel_run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c03.panel", str(__doc__), rows)
