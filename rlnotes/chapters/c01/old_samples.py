"""Rollouts of whole responses used for many updates, with three weights, and a new one when few samples are left.

``python -m rlnotes.chapters.c01.old_samples --out 01_old_samples.json`` takes a few minutes on one thread.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c01.one_rollout import log_weights
from rlnotes.estimators import importance
from rlnotes.estimators.baselines import leave_one_out
from rlnotes.lm.config import TrainConfig, warmed_up
from rlnotes.lm.model import Transformer
from rlnotes.lm.trainer import Trainer
from rlnotes.studies.store import store_rows

PROMPTS, GROUP = 32, 8
SEEDS = range(5)
RUNS: dict[str, dict[str, Any]] = {"reverse": dict(updates=80, rate=1e-3), "sort": dict(updates=60, rate=3e-4)}
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    "reverse": {
        "below one half": dict(keep=0.5),
        "every update": dict(keep=2.0),
        "never": dict(keep=0.0),
        "never, clipped at 2": dict(keep=0.0, weigh="clipped at 2"),
        "never, self-normalised": dict(keep=0.0, weigh="self-normalised"),
        "below one half, self-normalised": dict(keep=0.5, weigh="self-normalised"),
    },
    "sort": {"every update": dict(keep=2.0), "never": dict(keep=0.0), "below one half": dict(keep=0.5)},
}
WEIGHINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": torch.exp,
    "self-normalised": lambda log_w: len(log_w) * log_w.softmax(0),
    "clipped at 2": lambda log_w: log_w.exp().clamp(max=2),
}


def train(
    trainer: Trainer, updates: int, keep: float, weigh: str = "plain", rate: float = 1e-3
) -> Iterator[dict[str, float]]:
    """A row for each update. A new rollout is drawn where less than ``keep`` of the responses are effective."""
    model, drawn, rollouts, share = trainer.model, None, 0, 0.0
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    for update in range(1, updates + 1):
        if drawn is None or share < keep:
            rollout = trainer.sample(PROMPTS, GROUP, split="train", seed=1000 * trainer.config.seed + update)
            rewards = trainer.task.reward(rollout)
            drawn, rollouts = (rollout, rewards, leave_one_out(rewards, GROUP)), rollouts + 1
        rollout, rewards, advantages = drawn
        log_w = log_weights(model, rollout)
        value = (WEIGHINGS[weigh](log_w) * advantages).mean()
        (-value).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = warmed_up(rate, update - 1, 10)
        optimizer.step()
        optimizer.zero_grad()
        w = log_w.detach().exp()
        share = float(importance.effective_sample_size(log_w.detach())) / len(w)
        row = dict(update=update, rollouts=rollouts, size=share, value=value.item(), weight=float(w.mean()))
        yield row | dict(estimate=float((w * rewards).mean()), largest=float(w.max()))


def held_out(model: Transformer, task: str, seed: int, rollouts: int) -> dict[str, float]:
    """What rollouts of the start say that took no part in the training."""
    old = Trainer(TrainConfig(task=task, size=8, seed=seed))
    others = [old.sample(PROMPTS, GROUP, split="train", seed=90_000 + k) for k in range(rollouts)]
    with torch.no_grad():
        log_w = torch.cat([log_weights(model, rollout) for rollout in others])
    found = importance.importance_sampling(log_w, torch.cat([old.task.reward(rollout) for rollout in others]))
    share = float(importance.effective_sample_size(log_w)) / len(log_w)
    return {f"held_out_{rollouts}": float(found.mean), f"held_out_{rollouts}_size": share}


def run(task: str, arm: str, seed: int) -> dict[str, Any]:
    """Where a run ends: by its own rollout, by others of the same old policy, and by new samples."""
    trainer = Trainer(TrainConfig(task=task, size=8, seed=seed))
    *_, last = train(trainer, **RUNS[task], **ARMS[task][arm])
    row = dict(task=task, arm=arm, seed=seed, rollouts=last["rollouts"], own=last["estimate"], size=last["size"])
    row |= dict(weight=last["weight"], fresh=trainer.evaluate(1024, "train"))
    for rollouts in (1, 20) if task == "sort" else ():
        row |= held_out(trainer.model, task, seed, rollouts)
    return row


def rows() -> Iterator[dict[str, Any]]:
    """All arms on all seeds."""
    for task, arms in ARMS.items():
        for arm, seed in product(arms, SEEDS):
            yield run(task, arm, seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c01.old_samples", str(__doc__), rows)
