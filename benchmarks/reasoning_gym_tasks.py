"""Does GRPO raise the held-out score on tasks of another package? Four datasets of reasoning-gym, three seeds each.

Counted in the CPU seconds: everything after the task's table is built, evaluations included.
"""

import math
import time
from dataclasses import asdict, replace

import torch

from benchmarks.common import THREADS, Environment, Json, installed, write_result
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer

NAME = "reasoning_gym_tasks"
SEEDS = (0, 1, 2)
EVALUATION_PROMPTS = 2048
EVALUATION_SEED = 1000
STANDARD_ERRORS = 10  # the raise must be this many standard errors of the difference
GOAL: Json = dict(raise_in_standard_errors=STANDARD_ERRORS, datasets=4, seeds=len(SEEDS))

BASE = TrainConfig(warm_start="train", warm_learning_rate=2e-3, learning_rate=5e-4, threads=THREADS)
SETTINGS: tuple[TrainConfig, ...] = (
    replace(BASE, task="reasoning-gym/spell_backward", size=6, warm_target=0.35, steps=100),
    replace(BASE, task="reasoning-gym/gcd", size=2, warm_batch=256, warm_target=0.5, steps=100),
    replace(BASE, task="reasoning-gym/number_sorting", size=2, warm_target=0.35, steps=120),
    # from a warm start at 0.2 GRPO stays there, and with the learning rate of the others it falls back
    replace(
        BASE,
        task="reasoning-gym/chain_sum",
        size=2,
        warm_batch=256,
        warm_target=0.45,
        learning_rate=3e-4,
        prompts=64,
        steps=150,
    ),
)


def heldout_score(trainer: Trainer) -> Json:
    """Mean reward on held-out prompts, its standard error, and the share that equals the dataset's own answer."""
    rollout = trainer.sample(EVALUATION_PROMPTS, seed=EVALUATION_SEED)
    rewards = trainer.task.reward(rollout)
    generator = torch.Generator().manual_seed(EVALUATION_SEED)
    examples = trainer.task.sample(EVALUATION_PROMPTS, generator, "heldout")  # the same prompts, with answers
    assert torch.equal(examples.prompts, rollout.prompts)
    return dict(
        score=rewards.mean().item(),
        standard_error=(rewards.std() / math.sqrt(len(rewards))).item(),
        equal_to_answer=(rollout.tokens == examples.answers).all(-1).float().mean().item(),
        prompts=len(rewards),
        distinct_prompts=len(rollout.prompts.unique(dim=0)),
    )


def learn(config: TrainConfig) -> Json:
    """Warm start, measure, RL, measure again."""
    trainer = Trainer(config)
    started = time.process_time()
    while not trainer.warm:
        trainer.warm_step()
    before, warm_seconds = heldout_score(trainer), time.process_time() - started
    for _ in trainer.run():
        pass
    after, seconds = heldout_score(trainer), time.process_time() - started
    raised = after["score"] - before["score"]
    return dict(
        dataset=config.task,
        seed=config.seed,
        warm_updates=trainer.warm_updates,
        before=before,
        after=after,
        raised_by=raised,
        raised_by_standard_errors=raised / math.hypot(before["standard_error"], after["standard_error"]),
        cpu_seconds=dict(warm_start=warm_seconds, rl=seconds - warm_seconds),
        config=asdict(config),
    )


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    runs: list[Json] = []
    for config in SETTINGS:
        for seed in SEEDS:
            run = learn(replace(config, seed=seed))
            runs.append(run)
            before, after = run["before"], run["after"]
            print(
                f"{config.task} seed {seed}: {before['score']:.3f} ± {before['standard_error']:.3f} to "
                f"{after['score']:.3f} ± {after['standard_error']:.3f}, {run['warm_updates']} warm-start updates, "
                f"{config.steps} RL steps, {sum(run['cpu_seconds'].values()):.0f} CPU s",
                flush=True,
            )
    numbers = {
        "reasoning-gym": installed("reasoning-gym"),
        "reached": sum(run["raised_by_standard_errors"] >= STANDARD_ERRORS for run in runs),
        "runs": runs,
    }
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
