"""How soon does GRPO learn to reverse eight letters? Steps and CPU seconds, for three seeds.

Counted: the RL steps, each from drawing the prompts to the optimiser's update. Not counted: importing, building the
trainer, the supervised warm start, and the evaluations between steps.
"""

import statistics

from benchmarks.common import THREADS, Clock, Environment, Json, write_result
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import has_weights

NAME = "learn_reverse"
SEEDS = (0, 1, 2)
TARGET = 0.95
CPU_LIMIT = 20.0
EVALUATE_EVERY = 5
EVALUATION_PROMPTS = 1024
MOST_STEPS = 150
GOAL: Json = dict(accuracy=TARGET, cpu_seconds=CPU_LIMIT, seeds=len(SEEDS))


def warm_trainer(seed: int) -> Trainer:
    """A trainer that is ready for its first RL step."""
    trainer = Trainer(TrainConfig(task="reverse", size=8, preset="tiny", recipe="grpo", seed=seed, threads=THREADS))
    while not trainer.warm:  # without shipped weights the warm start is trained here, off the clock
        trainer.warm_step()
    return trainer


def learn(seed: int) -> Json:
    """Train until the held-out accuracy reaches the target; say what that took."""
    trainer, clock = warm_trainer(seed), Clock()
    curve = [dict(step=0, accuracy=trainer.evaluate(EVALUATION_PROMPTS), cpu_seconds=0.0)]
    while curve[-1]["accuracy"] < TARGET and trainer.step < MOST_STEPS:
        for _ in range(EVALUATE_EVERY):
            clock.time(trainer.rl_step)
        accuracy = trainer.evaluate(EVALUATION_PROMPTS)
        curve.append(dict(step=trainer.step, accuracy=accuracy, cpu_seconds=sum(clock.seconds("cpu"))))
    last = curve[-1]
    return dict(
        seed=seed,
        accuracy_before=curve[0]["accuracy"],
        accuracy_after=last["accuracy"],
        steps=last["step"],
        cpu_seconds=last["cpu_seconds"],
        wall_seconds=sum(clock.seconds("wall")),
        cpu_seconds_per_step=statistics.median(clock.seconds("cpu")),
        reached=last["accuracy"] >= TARGET and last["cpu_seconds"] <= CPU_LIMIT,
        curve=curve,
    )


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    runs: list[Json] = []
    for seed in SEEDS:
        run = learn(seed)
        runs.append(run)
        print(
            f"seed {seed}: {run['accuracy_before']:.3f} to {run['accuracy_after']:.3f} "
            f"in {run['steps']} steps, {run['cpu_seconds']:.1f} CPU s"
        )
    warm_start = "shipped" if has_weights("reverse", 8, "tiny") else "trained per seed"
    numbers = dict(
        warm_start=warm_start,
        evaluation_prompts=EVALUATION_PROMPTS,
        evaluate_every=EVALUATE_EVERY,
        reached=sum(run["reached"] for run in runs),
        runs=runs,
    )
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
