"""Runs of our own trainer."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.parts import Parts
from rlnotes.lm.record import read_metrics, recorded
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.tasks import Task, make_task
from rlnotes.lm.trainer import Trainer
from tests.logs.run import OurRun, Reward

LIBRARY, LOG = "rlnotes", "metrics.jsonl"


class Misjudged(Parts):
    """Parts whose reward is another than the task's."""

    judge: Reward

    def rewards(self, rollout: Rollout) -> Tensor:
        return self.judge(self.learner.task, rollout)


def task_of(run: OurRun) -> Task:
    """What it learns."""
    return run.task or make_task(run.settings.get("task", TrainConfig.task), run.settings.get("size"))


def config(run: OurRun) -> dict[str, Any]:
    """What the run was told, whole; as in a checkpoint, an objective of its own is called custom."""
    own = dict(recipe="custom") if run.choices else {}
    return asdict(TrainConfig(**run.settings, seed=run.seed)) | own


def train(run: OurRun, scratch: Path) -> tuple[str, list[dict[str, float]], float, float]:
    """The log as text, its rows, and held-out accuracy before and after."""
    trainer = Trainer(TrainConfig(**run.settings, seed=run.seed), run.task, run.choices)
    while not trainer.warm:
        trainer.warm_step()
    if run.reward is not None:
        trainer.parts = Misjudged(trainer, trainer.watches())
        trainer.parts.judge = run.reward
    if run.sampled_at is not None:
        trainer.sampler = replace(trainer.sampler, transform=SamplingTransform(run.sampled_at))
    before = trainer.evaluate()
    for _ in recorded(trainer, scratch, checkpoint_every=10**6):
        pass
    return (scratch / LOG).read_text(encoding="utf-8"), read_metrics(scratch), before, trainer.evaluate()
