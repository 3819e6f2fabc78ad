"""Data-parallel training: ``torchrun --nproc-per-node 4 -m rlnotes train --out runs/four --device cuda``.

Every process holds the whole model and does its shard of each step: it samples some of the groups, scores them, and
adds the gradient of some of them to the others'. What was sampled is exchanged whole, so that everything which looks at
the batch (baselines, dynamic sampling, metrics) sees all of it, in every process.
"""

import atexit
import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch
from torch import distributed as dist

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.learner import needed
from rlnotes.lm.shard import ProcessShard
from rlnotes.lm.tasks import Task
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import RECIPES, Choices
from rlnotes.processes import number_of_environment, uncaught_interrupts, world_size


class ParallelTrainer(Trainer):
    """A :class:`Trainer` that is one of the processes torchrun started. Each of them makes one, with the same config.

    The global batch is ``config``'s, whatever the number of processes, and so is the result, up to the order of sums:
    prompts and the noise of all responses are drawn by every process from the same seeds, and each uses its own rows.
    Metrics are those of the whole batch, in every process. :meth:`rl_step`, :meth:`warm_step` and :meth:`run` are for
    all processes together; :meth:`save` writes in rank 0 only, a checkpoint that any number of processes can go on
    from; looking at the model is for whoever wants. ``rlnotes train`` ends all processes after the same step when it is
    interrupted; a script of your own must agree on it, as :func:`rlnotes.cli.follow` does by ``shard.any``.

    On a CPU processes talk by gloo; with device ``cuda`` by nccl, and each has the GPU of its LOCAL_RANK.
    Raises ``ValueError``, before anything starts, for settings that cannot be shared out: see :func:`check`.
    """

    def __init__(self, config: TrainConfig, task: Task | None = None, choices: Choices | None = None):
        if "WORLD_SIZE" not in os.environ:
            raise ValueError("this is not one of several processes; start them with torchrun, or use Trainer")
        size = world_size()
        check(config, choices or RECIPES.get(config.recipe), size)
        device = own_device(config.device)
        needed(replace(config, device=str(device)), task, choices)
        join(device, size)
        self.shard = ProcessShard(dist.get_rank(), size, device=device)
        super().__init__(replace(config, device=str(device)), task, choices)
        self.config = replace(self.config, device=config.device)  # as all know it, and as it is saved
        dist.barrier()  # nobody begins before all have passed their checks

    def save(self, folder: Path) -> Path:
        """:meth:`Trainer.save` in rank 0; in the others nothing, and the folder."""
        return super().save(folder) if self.shard.rank == 0 else folder


def launched() -> bool:
    """True in a process of several that torchrun, or who sets the same variables, started."""
    return world_size() > 1


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
    local, there = number_of_environment("LOCAL_RANK", 0), torch.cuda.device_count()
    if local >= there:
        raise ValueError(f"this is process {local + 1} on this machine, which has {there} GPUs: one for each process")
    return torch.device("cuda", local)


def join(device: torch.device, size: int) -> None:
    """Meet the other processes, unless that was done before; leave them when Python ends.

    Raises ``ValueError`` for an environment that does not say how, and if they do not come.
    """
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    if dist.is_initialized():
        return
    rank, port = number_of_environment("RANK"), number_of_environment("MASTER_PORT")
    address = os.environ.get("MASTER_ADDR")
    if address is None or rank >= size:
        raise ValueError(
            f"RANK is {rank}, WORLD_SIZE {size} and MASTER_ADDR {address!r} in the environment, which do not fit: "
            "start several processes with torchrun, or unset WORLD_SIZE and work in one"
        )
    if "TORCHELASTIC_RUN_ID" not in os.environ:  # nobody is there to see that all of them start
        print(
            f"rlnotes: RANK is {rank} and WORLD_SIZE {size} in the environment, so this process waits for the others "
            f"at {address}:{port}; unset WORLD_SIZE to work in one",
            file=sys.stderr,
        )
    # PyTorch imports this with the first optimiser, and a group that it finds it keeps, as a default argument: leaving
    # would not end the group's threads then, and one that frees a tensor while Python ends aborts
    import_module("torch.distributed.nn.functional")
    try:
        with uncaught_interrupts():
            dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    except dist.DistError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"process {rank} of {size} met nobody at {address}:{port}: {reason}") from error
    atexit.register(leave)


def leave() -> None:
    """Say good-bye to the other processes, and wait for the threads that talk to them to end."""
    if dist.is_initialized():
        dist.destroy_process_group()
