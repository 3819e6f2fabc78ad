"""The seven seeded batches again: the arrays ``in/BATCH/...``, from the seeds that the manifest gives.

The construction was found from the numbers, not from the program that made them, and gives every one of them. The
other inputs (``in/topk``, ``in/overlong``, ``in/dynfilter``) are read.
"""

import json
from dataclasses import dataclass

import numpy as np

from tests.golden import FOLDER

HIGHEST = -1e-4


@dataclass(frozen=True)
class Spread:
    """How far the policies of a batch are from the old one: standard deviations of log ratios, and large ones."""

    trained: float
    sampled: float
    large: tuple[str, float, float] | None = None
    """Which policy, and the least and the greatest size of a large log ratio."""


SPREADS = {
    "mild": Spread(0.12, 0.03),
    "extreme": Spread(0.4, 0.1, ("logp", 1.0, 5.0)),
    "toolmask": Spread(0.25, 0.05),
    "onpolicy": Spread(0.0, 0.0),
    "stale": Spread(0.15, 0.35, ("rollout_logp", 0.6, 3.0)),
    "tiny": Spread(0.3, 0.1),
    "single": Spread(0.2, 0.05),
}
BY_HAND = ((0, 1, -6.5, 5.0), (0, 2, -0.25, -5.0), (2, 0, -6.0, 5.0), (3, 0, -0.5, -5.0))
"""Row, column, old log probability and log ratio of the tokens of ``extreme`` and ``stale`` that fire every branch."""
LAST_GROUP = {"extreme": (0.0, 1.5, 0.0, -1.5), "stale": (0.0, -1.5, 0.0, 1.5)}


def batch(name: str) -> dict[str, np.ndarray]:
    """The arrays of a seeded batch."""
    shape = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["batches"][name]
    groups, size, length = shape["groups"], shape["group_size"], shape["T"]
    rows, spread, draw = groups * size, SPREADS[name], np.random.default_rng(shape["seed"])
    n = (rows, length)
    likely, high, low = draw.random(n) < 0.55, np.log(draw.uniform(0.6, 0.995, n)), -draw.uniform(0.7, 7.0, n)
    old = np.where(likely, high, low)
    ratios = {
        "logp": spread.trained * draw.standard_normal(n),
        "rollout_logp": spread.sampled * draw.standard_normal(n),
    }
    lengths = draw.integers(2, length + 1, rows)
    lengths[[0, 1, -1]] = length, 1, 1
    if spread.large:
        policy, least, greatest = spread.large
        lengths[2:4] = length
        large, sizes = draw.random(n) < 0.15, draw.uniform(least, greatest, n)
        ratios[policy] = np.where(large, sizes * draw.choice([-1.0, 1.0], n), ratios[policy])
    found = {policy: np.minimum(old + ratio, HIGHEST) for policy, ratio in ratios.items()}
    if spread.large:
        for row, column, value, ratio in BY_HAND:
            old[row, column], found["logp"][row, column] = value, value + ratio
            if column == 0:
                found["rollout_logp"][row, column] = value
    found |= {"old_logp": old, "ref_logp": np.minimum(old + 0.35 * draw.standard_normal(n), HIGHEST)}
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    if name == "toolmask":
        for row in np.flatnonzero(lengths >= 5):
            start = draw.integers(1, lengths[row] - 3)
            mask[row, start : start + 2] = 0
    for policy in ("logp", "old_logp", "rollout_logp", "ref_logp"):
        found[policy][mask == 0] = draw.uniform(-3.0, -0.1, int((mask == 0).sum()))
    rewards = rewards_of(name, groups, size, draw)
    group = np.repeat(np.arange(groups), size)
    found |= {"mask": mask, "lengths": mask.sum(-1), "rewards": rewards.ravel(), "group": group}
    return found | {"adv": advantages_of(name, rewards).ravel()}


def rewards_of(name: str, groups: int, size: int, draw: np.random.Generator) -> np.ndarray:
    """The first group's are 0 or 1, the last group's all 1, those between normal."""
    if name == "tiny":
        return np.array([[0.0, 1.0]])
    first = (draw.random(size) < 0.5).astype(float)
    return np.stack([first, *(draw.standard_normal(size) for _ in range(groups - 2)), np.ones(size)])


def advantages_of(name: str, rewards: np.ndarray) -> np.ndarray:
    if rewards.shape[1] == 1:
        return rewards
    found = (rewards - rewards.mean(-1, keepdims=True)) / (rewards.std(-1, ddof=1, keepdims=True) + 1e-6)
    if name in LAST_GROUP:
        found[-1] = LAST_GROUP[name]
    return found
