"""What the updates of A2C, TRPO and PPO did on CartPole, five seeds of each: the runs behind the instrument panel.

``python -m rlnotes.chapters.c03.panel --out 03_panel.json`` takes a quarter of an hour on one thread.
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
LOOPS = {  # settings, loop, and how often an update is read
    "a2c": (A2CConfig, a2c, 10),
    "trpo": (TRPOConfig, trpo, 2),
    "ppo": (PPOConfig, ppo, 2),
}
UPDATES = {"a2c": 800, "trpo": 80, "ppo": 80}
READ = ("update", "env_steps", "return_mean", "kl", "outside", "promised", "change", "J")


def panel_run(arm: str, seed: int) -> dict[str, Any]:
    """One run, the readings of its updates in columns."""
    settings, loop, every = LOOPS[arm]
    config = settings(seed=seed, updates=UPDATES[arm])
    network = make_network(make_envs(config.env, 1, seed), torch.Generator().manual_seed(seed))
    seen = [row for row in instruments(loop(config, network), network, config, every) if "J" in row]
    return dict(arm=arm, seed=seed) | {name: [row[name] for row in seen] for name in READ}


def rows() -> Iterator[dict[str, Any]]:
    """A row for each run."""
    for arm in LOOPS:
        for seed in SEEDS:
            yield panel_run(arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c03.panel", str(__doc__), rows)
