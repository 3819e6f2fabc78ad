"""How much shorter is a step on 2 and 4 GPUs, and is it the step of one? The same global batch, shared out by torchrun.

Without a GPU the processes share the CPU's cores, by gloo. What is not there, GPUs or cores, is passed over.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import rlnotes.gpu  # noqa: F401  its kernels
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
# first gradient and movement: at most so many times as far apart as another order of one process's sums puts them
GOAL: Json = dict(times_rounding=10)


class PartlyRight(Reverse):
    """A share of the reward for each right token, so that a model without training has groups that teach."""

    def reward(self, rollout: Rollout) -> Tensor:
        """Share (N,) of the answer's tokens that are right."""
        return (rollout.tokens == self.solve(rollout.prompts)[rollout.group]).float().mean(-1)


def flat(parts: Iterable[Tensor]) -> Tensor:
    """All numbers in one vector."""
    return torch.cat([part.detach().flatten() for part in parts]).cpu()


def work(folder: Path, micro_batches: int) -> None:
    """In each process: a run. Rank 0 leaves seconds, and the first tokens, the first gradient and how weights moved."""
    config, size = GPU if torch.cuda.is_available() else CPU
    trainer = trainer_class()(replace(config, micro_batches=micro_batches), task=PartlyRight(size))
    draw, drawn = trainer.parts.rollout, []
    trainer.parts.rollout = lambda prompts: drawn.append(draw(prompts)) or drawn[-1]
    start = flat(trainer.model.parameters())
    list(trainer.run(1))
    gradient = flat(trainer.optimizer.state[weight]["exp_avg"] for weight in trainer.model.parameters())  # times 1 - b1
    list(trainer.run(COMPARED))
    moved = flat(trainer.model.parameters()) - start
    seconds = [row["seconds"] for row in trainer.run()]
    if trainer.shard.rank == 0:
        torch.save(dict(gradient=gradient, moved=moved, tokens=drawn[0].tokens.cpu()), folder / "tensors.pt")
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


def apart(found: dict[str, Tensor], one: dict[str, Tensor]) -> Json:
    """How far a run is from that of ``one`` process: relative norms; of single weights; how many tokens differ."""
    return dict(
        gradient=relative(found["gradient"], one["gradient"]),
        movement=relative(found["moved"], one["moved"]),
        largest_weight_difference=(found["moved"] - one["moved"]).abs().max().item(),
        first_tokens_that_differ=int((found["tokens"] != one["tokens"]).sum()),
    )


def relative(a: Tensor, b: Tensor) -> float:
    """The norm of the difference over the norm of ``b``."""
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    gpus = torch.cuda.device_count()
    config, size = GPU if gpus else CPU
    there = [n for n in PROCESSES if n <= (gpus or os.cpu_count() or 1)]
    seconds, one = run(1, config.micro_batches)
    processes = {"1": dict(seconds=spread(seconds), speedup=1.0)}
    rounding = apart(run(1, 2 * config.micro_batches)[1], one)
    print(f"one process, {1000 * statistics.median(seconds):.0f} ms a step; in another order {rounding}")
    for n in there[1:]:
        taken, tensors = run(n, config.micro_batches)
        speedup = statistics.median(seconds) / statistics.median(taken)
        processes[str(n)] = dict(seconds=spread(taken), speedup=speedup, apart=apart(tensors, one))
        print(f"{n} processes: {processes[str(n)]}")
    numbers: Json = dict(
        device=torch.cuda.get_device_name() if gpus else "CPU",
        preset=config.preset,
        responses=config.prompts * config.group_size,
        size=size,
        steps_compared=COMPARED,
        weights_moved=one["moved"].abs().max().item(),
        rounding=rounding,
        processes=processes,
    )
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
