"""What does it cost to record mu's likeliest tokens? Whole rollouts with and without them, in turns.

The model is as large as the one that is trained, with random weights: no response ends early in all of them.
"""

import statistics
from dataclasses import replace

import torch

from benchmarks.common import Clock, Environment, Json, spread, write_result
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer

NAME = "topk_sampling"
TASKS = (("sort", 8), ("needle", 4), ("needle", 8))  # of 24, 128 and 256 tokens
K, ROUNDS, WARM = 20, 40, 3
GOAL: Json = dict(most_overhead=0.1)


def measure(task: str, size: int) -> Json:
    """CPU milliseconds of a rollout of 512 responses, without and with the likeliest tokens, and the extra share."""
    trainer = Trainer(TrainConfig(task=task, size=size, warm_start="none"))
    prompts = trainer.task.sample(32, torch.Generator().manual_seed(0)).prompts
    samplers = dict(without=trainer.sampler, recorded=replace(trainer.sampler, top_logp=K))
    clocks = {name: Clock() for name in samplers}
    for i in range(ROUNDS + WARM):
        for name, sampler in samplers.items():
            generator = torch.Generator().manual_seed(i)
            clocks[name].time(lambda s=sampler, g=generator: s.sample(trainer.model, prompts, 16, g))
    seconds = {name: clock.seconds("cpu", WARM) for name, clock in clocks.items()}
    milliseconds = {name: spread([1000 * value for value in values]) for name, values in seconds.items()}
    rounds = [a / b - 1 for a, b in zip(seconds["recorded"], seconds["without"], strict=True)]
    overhead = statistics.median(seconds["recorded"]) / statistics.median(seconds["without"]) - 1
    return dict(
        tokens=len(trainer.task.vocabulary),
        milliseconds=milliseconds,
        overhead=overhead,
        round_quartiles=spread(rounds)["quartiles"],
    )


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    numbers: Json = dict(k=K, rounds=ROUNDS, tasks={})
    for task, size in TASKS:
        found = numbers["tasks"][f"{task}-{size}"] = measure(task, size)
        print(f"{task}-{size}: {found['overhead']:+.1%} with the {K} likeliest of {found['tokens']} tokens")
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
