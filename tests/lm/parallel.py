"""Runs that one process makes, or several: ``torchrun ... -m tests.lm.parallel FOLDER CASE...``."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rlnotes.estimators.baselines import group_mean_batch_std
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.distributed import leave, trainer_class
from rlnotes.objectives import DAPO, GRPO, RECIPES, Choices, KLPenalty

SMALL = TrainConfig(prompts=8, group_size=4, steps=3, epochs=2, minibatches=2)
OLDER = replace(SMALL, lags=(0, 2, 5), switch=0.3, logit_noise=0.3, top_p=0.9, measure_shift=True)
EXPERTS = replace(SMALL, preset="moe-top2", routing_replay=True, warm_start="train", warm_batch=10, warm_limit=4)
# what the two answers of a group share has no gradient but rounding, of which Adam makes steps: so let them be small
FEW = replace(SMALL, prompts=4, group_size=2, learning_rate=3e-4, seed=1)
CASES: dict[str, tuple[TrainConfig, Choices]] = {
    "plain": (replace(SMALL, recipe="grpo"), GRPO),
    "groups that teach are few": (FEW, GRPO),
    "warm start": (replace(SMALL, warm_start="train", warm_batch=10, warm_limit=5), GRPO),
    "dynamic sampling": (replace(SMALL, group_size=2, most_rounds=3), DAPO),
    "baseline of the whole batch": (SMALL, replace(GRPO, advantage=group_mean_batch_std)),
    "old weights and noise": (OLDER, RECIPES["minirl_tis"]),
    "experts, in parts": (replace(EXPERTS, micro_batches=2), GRPO),
    "a reference and adapters": (replace(SMALL, lora_rank=4), replace(GRPO, kl=KLPenalty(0.1), entropy=0.01)),
    "penalised rewards": (SMALL, replace(GRPO, kl=KLPenalty(0.1, where="reward"), anchor="proximal")),
    "likeliest tokens": (replace(SMALL, count_clipped=True), RECIPES["dppo_topk_tv"]),
}


def outcome(name: str) -> dict[str, Any]:
    """Metrics, the tokens of the first rollout, and the weights in the end."""
    config, choices = CASES[name]
    trainer = trainer_class()(config, choices=choices)
    draw, rollouts = trainer.parts.rollout, []
    trainer.parts.rollout = lambda prompts: rollouts.append(draw(prompts)) or rollouts[-1]
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in trainer.run()]
    weights = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    counted = None if trainer.clipped is None else trainer.clipped.sums
    return dict(rows=rows, tokens=rollouts[0].tokens, weights=weights, counted=counted, rank=trainer.shard.rank)


def threads() -> list[str]:
    """The names of this process's threads, also of those that Python does not know: on Linux."""
    return [path.read_text(encoding="utf-8").strip() for path in Path("/proc/self/task").glob("*/comm")]


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for case in names:
        result = outcome(case)
        torch.save(result, Path(folder) / f"{case} {result['rank']}.pt")
    found = dict(rank=os.environ["RANK"], before=threads())
    leave()
    torch.save(found | dict(after=threads()), Path(folder) / f"threads {found['rank']}.pt")
