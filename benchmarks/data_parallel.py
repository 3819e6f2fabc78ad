"""How much shorter is a step on 2 and 4 GPUs, and is it the step of one? The same global batch, shared out by torchrun.

Without a GPU the processes share the CPU's cores, by gloo. What is not there, GPUs or cores, is passed over.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.common import HERE, Environment, Json, spread, write_result
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.distributed import trainer_class
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Reverse

NAME = "data_parallel"
PROCESSES = (1, 2, 4)
COMPARED, TIMED = 5, 20  # steps until the weights are compared, and after that
COMMON = TrainConfig(group_size=16, warm_start="none", steps=COMPARED + TIMED)
CPU = (replace(COMMON, prompts=32, micro_batches=2), 8)
GPU = (replace(COMMON, prompts=256, micro_batches=4, preset="large", device="cuda"), 32)
GOAL: Json = dict(times_rounding=10)  # weights: at most so far apart as many times what another order of one sum makes


class PartlyRight(Reverse):
    """A share of the reward for each right token, so that a model without training has groups that teach."""

    def score(self, rollout: Rollout) -> Tensor:
        """Share (N,) of the answer's tokens that are right."""
        return (rollout.tokens == self.solve(rollout.prompts)[rollout.group]).float().mean(-1)


def weights_of(trainer) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()]).cpu()


def work(folder: Path, micro_batches: int) -> None:
    """In each process: a run. Rank 0 leaves seconds, first tokens, and weights before and after some steps."""
    config, size = GPU if torch.cuda.is_available() else CPU
    trainer = trainer_class()(replace(config, micro_batches=micro_batches), task=PartlyRight(size))
    draw, drawn = trainer._draw, []
    trainer._draw = lambda: drawn.append(draw()) or drawn[-1]
    start = weights_of(trainer)
    list(trainer.run(COMPARED))
    compared = weights_of(trainer)
    seconds = [row["seconds"] for row in trainer.run()]
    if trainer.share.rank == 0:
        torch.save(dict(start=start, compared=compared, tokens=drawn[0].tokens.cpu()), folder / "tensors.pt")
        (folder / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


def run(processes: int, micro_batches: int) -> tuple[list[float], dict[str, Tensor]]:
    """Seconds of each timed step, and the tensors, of a run by so many processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command += ["-m", f"benchmarks.{NAME}", folder, str(micro_batches)]
        environment = os.environ | dict(OMP_NUM_THREADS="1")
        subprocess.run([sys.executable, "-m", *command], cwd=HERE.parent, env=environment, check=True)
        seconds = json.loads((Path(folder) / "seconds.json").read_text(encoding="utf-8"))
        return seconds, torch.load(Path(folder) / "tensors.pt")


def farthest(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).abs().max().item()


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    gpus = torch.cuda.device_count()
    config, size = GPU if gpus else CPU
    there = [n for n in PROCESSES if n <= (gpus or os.cpu_count() or 1)]
    seconds, tensors = {}, {}
    for n in there:
        seconds[n], tensors[n] = run(n, config.micro_batches)
        print(f"{n} processes: {1000 * statistics.median(seconds[n]):.0f} ms a step")
    one = tensors[1]
    rounding = farthest(run(1, 2 * config.micro_batches)[1]["compared"], one["compared"])
    numbers: Json = dict(
        device=torch.cuda.get_device_name() if gpus else "CPU",
        preset=config.preset,
        responses=config.prompts * config.group_size,
        size=size,
        steps_compared=COMPARED,
        weights_moved=farthest(one["compared"], one["start"]),
        rounding=rounding,
        processes={
            str(n): dict(
                seconds=spread(seconds[n]),
                speedup=statistics.median(seconds[1]) / statistics.median(seconds[n]),
                largest_weight_difference=farthest(tensors[n]["compared"], one["compared"]),
                first_tokens_that_differ=int((tensors[n]["tokens"] != one["tokens"]).sum()),
            )
            for n in there
        },
    )
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
