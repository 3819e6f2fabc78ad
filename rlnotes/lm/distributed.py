"""Data-parallel training: ``torchrun --nproc-per-node 4 -m rlnotes train --out runs/four --device cuda``.

Every process holds the whole model and does its share of each step: it samples some of the groups, scores them, and
adds the gradient of some of them to the others'. What was sampled is exchanged whole, so that everything which looks at
the batch (baselines, dynamic sampling, metrics) sees all of it, in every process.
"""

import atexit
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.lora import merged
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.share import ProcessShare, Share
from rlnotes.lm.tasks import Task
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import RECIPES, Choices


class ParallelTrainer(Trainer):
    """A :class:`Trainer` that is one of the processes torchrun started. Each of them makes one, with the same config.

    The global batch is ``config``'s, whatever the number of processes, and so is the result, up to the order of sums:
    prompts and the noise of all responses are drawn by every process from the same seeds, and each uses its own rows.
    Metrics are those of the whole batch, in every process. :meth:`rl_step`, :meth:`warm_step` and :meth:`run` are for
    all processes together; :meth:`save` writes in rank 0 only, a checkpoint that any number of processes can go on
    from; looking at the model is for whoever wants. ``rlnotes train`` ends all processes after the same step when it is
    interrupted; a script of your own must agree on it, as :func:`rlnotes.cli.follow` does by ``share.any``.

    On a CPU processes talk by gloo; with device ``cuda`` by nccl, and each has the GPU of its LOCAL_RANK.
    Raises ``ValueError``, before anything starts, for settings that cannot be shared out: see :func:`check`.
    """

    def __init__(self, config: TrainConfig, task: Task | None = None, choices: Choices | None = None):
        if "WORLD_SIZE" not in os.environ:
            raise ValueError("this is not one of several processes; start them with torchrun, or use Trainer")
        size = int(os.environ["WORLD_SIZE"])
        check(config, choices or RECIPES.get(config.recipe), size)
        device = own_device(config.device)
        join(device)
        self.share = ProcessShare(dist.get_rank(), size, device=device)
        super().__init__(replace(config, device=str(device)), task, choices)
        self.config = replace(self.config, device=config.device)  # as all know it, and as it is saved
        dist.barrier()  # nobody begins before all have passed their checks

    def save(self, folder: Path) -> Path:
        """:meth:`Trainer.save` in rank 0; in the others nothing, and the folder."""
        return super().save(folder) if self.share.rank == 0 else folder

    def _draw(self) -> Rollout:
        """Fresh prompts for all, and everybody's responses."""
        prompts = self.task.sample(self.config.prompts, self.data_generator).prompts.to(self.device)
        own = self.sampler.sample(
            *(merged(self.model), self.share.of(prompts), self.config.group_size, self.generator, self.updates),
            past=self.past,
            share=self.share,
        )
        return joined(own, self.share)

    def _scorer(self, model: Transformer, replay: bool = False) -> Callable[[Rollout], Tensor]:
        return self.share.by_groups(super()._scorer(model, replay))

    def _update(self, learning_rate: float, updates_before: int) -> float:
        self.share.add_up(self.model.parameters())
        return super()._update(learning_rate, updates_before)


def launched() -> bool:
    """True in a process of several that torchrun, or who sets the same variables, started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def trainer_class() -> type[Trainer]:
    """The trainer for this process: one of several, or alone."""
    return ParallelTrainer if launched() else Trainer


def check(config: TrainConfig, choices: Choices | None, size: int) -> None:
    """Raise ``ValueError`` for what ``size`` processes cannot share: groups and objectives that must stay whole."""
    groups = config.prompts // config.minibatches
    if groups % size:
        raise ValueError(
            f"an update has {groups} groups (prompts {config.prompts}, minibatches {config.minibatches}), and each of "
            f"{size} processes takes as many of them: make prompts a multiple of {size * config.minibatches}, or start "
            "another number of processes"
        )
    if config.warm_batch < size:
        raise ValueError(f"warm_batch is {config.warm_batch}, and there are {size} processes; give each an example")
    if choices is not None and choices.needs_whole_batch:
        raise ValueError(
            "this objective divides by what it keeps (divide_by) or by its mean weight (normalised), which one of "
            f"{size} processes cannot know; train it in one process"
        )


def own_device(device: str) -> torch.device:
    """The device of this process: the CPU, or the GPU of its LOCAL_RANK. Raises ``ValueError`` for another, or none."""
    if device == "cpu":
        return torch.device("cpu")
    if device != "cuda":
        raise ValueError(f"device is {device!r}; each process takes the GPU of its own rank: say cuda, or cpu")
    local, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= there:
        raise ValueError(f"this is process {local + 1} on this machine, which has {there} GPUs: one for each process")
    return torch.device("cuda", local)


def join(device: torch.device) -> None:
    """Meet the other processes, unless that was done before; leave them when Python ends."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
        atexit.register(leave)


def leave() -> None:
    """Say good-bye to the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()


def joined(own: Rollout, share: Share) -> Rollout:
    """The rollouts of all processes, one below the other."""
    parts = {one.name: share.parts(value) for one in fields(own) if isinstance(value := getattr(own, one.name), Tensor)}
    ranks = range(share.size)
    return Rollout.joined([replace(own, **{name: values[rank] for name, values in parts.items()}) for rank in ranks])
