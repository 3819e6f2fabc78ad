"""How many steps and seconds until CartPole-v1 is balanced? PPO and TRPO of rlnotes, Stable-Baselines3, sb3-contrib.

A run ends at the first update after which the last 100 episodes have a mean return of at least 475, or after 200 000
environment steps. All take turns, seed by seed, in one process on one thread. Three contenders per algorithm:

- ``rlnotes``: the defaults of its config, which were chosen on the same five seeds.
- ``same settings``: the peer, told the same. What is left between them: which random numbers, how the minibatches of
  advantages are normalised (the peer's PPO does it for each), and for TRPO which KL is limited (the peer: new to old).
- ``tuned``: the peer with what the RL Baselines3 Zoo gives for CartPole-v1, schedules included; its schedules end at
  100 000 steps. Its TRPO has 2 environments there, here 8 with the same number of steps in a rollout.

The same for all: 8 environments in this process, two tanh networks of 64 and 64, Adam, float32. Counted: everything
from the construction of the environments to the end of the run. Not counted: imports, and a short run of each first.
The peers keep logs, which they do not write; rlnotes computes the metrics that it yields.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.common import INSTALL_PEERS, THREADS, Clock, Environment, Json, installed, spread, write_result
from rlnotes.control.ppo import PPOConfig, ppo
from rlnotes.control.trpo import TRPOConfig, trpo

NAME = "cartpole_against_sb3"
SEEDS = range(5)
TARGET, LIMIT = 475.0, 200_000
ENVS = 8
GOAL: Json = dict(mean_return=TARGET, env_steps_ratio=1.0, wall_per_step_ratio=0.5)
ALGORITHMS = ("ppo", "trpo")
PEERS = ("same settings", "tuned")


@dataclass(frozen=True)
class Run:
    """One run: whether it got there, after how many environment steps, in how many seconds."""

    seed: int
    reached: bool
    env_steps: int
    wall: float
    cpu: float


Contender = Callable[[int, int], tuple[int, bool]]  # seed and limit to env steps and whether the target was reached


def ours(algorithm: str, seed: int, limit: int) -> tuple[int, bool]:
    """A run of rlnotes."""
    for metrics in _metrics(algorithm, seed):
        reached = metrics["return_mean"] >= TARGET
        if reached or metrics["env_steps"] >= limit:
            return int(metrics["env_steps"]), reached
    raise AssertionError("a million updates are more than the limit")


def _metrics(algorithm: str, seed: int) -> Iterator[dict[str, float]]:
    endless = dict(seed=seed, envs=ENVS, updates=1_000_000)
    return ppo(replace(PPOConfig(), **endless)) if algorithm == "ppo" else trpo(replace(TRPOConfig(), **endless))


def theirs(algorithm: str, settings: Json, seed: int, limit: int) -> tuple[int, bool]:
    """A run of a peer."""
    from sb3_contrib import TRPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.logger import Logger

    kind: Any = PPO if algorithm == "ppo" else TRPO
    envs = make_vec_env("CartPole-v1", ENVS, seed=seed)
    model = kind("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    model.set_logger(Logger(folder=None, output_formats=[]))  # else every run leaves a folder behind
    until = stop_at_target()
    model.learn(limit, callback=until, log_interval=None)
    return model.num_timesteps, until.reached


def stop_at_target() -> Any:
    """A callback that ends a peer's run where a run of rlnotes ends: after an update, on the last 100 episodes."""
    from stable_baselines3.common.callbacks import BaseCallback

    class StopAtTarget(BaseCallback):
        reached = False

        def _on_rollout_end(self) -> None:  # the update comes after it, and then the first step of the next rollout
            returns = [episode["r"] for episode in self.model.ep_info_buffer or []]
            self.reached = len(returns) > 0 and statistics.fmean(returns) >= TARGET

        def _on_step(self) -> bool:
            return not self.reached

    return StopAtTarget()


def settings_of(algorithm: str, peer: str) -> Json:
    """What the peer is told."""
    if algorithm == "ppo":
        return _ppo_as_ours() if peer == "same settings" else _ppo_tuned()
    return _trpo_as_ours() if peer == "same settings" else _trpo_tuned()


def _ppo_as_ours() -> Json:
    c = PPOConfig()
    return dict(
        n_steps=c.steps,
        batch_size=c.minibatch,
        n_epochs=c.epochs,
        gamma=c.gamma,
        gae_lambda=c.lam,
        clip_range=c.clip,
        learning_rate=c.learning_rate,
        ent_coef=c.entropy_coefficient,
        vf_coef=c.value_coefficient,
        max_grad_norm=c.gradient_clip,
    )


def _ppo_tuned() -> Json:
    def falling(first: float, end: int = 100_000) -> Callable[[float], float]:
        return lambda remaining: first * max(0.0, 1 - (1 - remaining) * LIMIT / end)

    return dict(
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        clip_range=falling(0.2),
        learning_rate=falling(1e-3),
        ent_coef=0.0,
    )


def _trpo_as_ours() -> Json:
    c = TRPOConfig()
    return dict(
        n_steps=c.steps,
        batch_size=c.minibatch,
        n_critic_updates=c.value_epochs,
        gamma=c.gamma,
        gae_lambda=c.lam,
        learning_rate=c.learning_rate,
        target_kl=c.delta,
        cg_damping=c.damping,
        cg_max_steps=c.cg_iterations,
    )


def _trpo_tuned() -> Json:
    return dict(
        n_steps=128,
        batch_size=512,
        n_critic_updates=20,
        gamma=0.99,
        gae_lambda=0.98,
        learning_rate=1e-3,
        cg_damping=1e-3,
    )


def contenders(algorithm: str) -> dict[str, Contender]:
    """By name."""

    def peer(name: str) -> Contender:
        return lambda seed, limit: theirs(algorithm, settings_of(algorithm, name), seed, limit)

    return {"rlnotes": lambda seed, limit: ours(algorithm, seed, limit)} | {name: peer(name) for name in PEERS}


def measure(work: Contender, seed: int) -> Run:
    """One timed run."""
    clock = Clock()
    env_steps, reached = clock.time(lambda: work(seed, LIMIT))
    return Run(seed, reached, env_steps, clock.timings[0].wall, clock.timings[0].cpu)


def compare(algorithm: str) -> Json:
    """All seeds of all contenders, in turns, and the ratios of rlnotes to each peer."""
    work = contenders(algorithm)
    for run in work.values():
        run(99, 2_000)
    runs: dict[str, list[Run]] = {name: [] for name in work}
    for seed in SEEDS:
        for name, run in work.items():
            runs[name].append(measure(run, seed))
            print(algorithm, name, runs[name][-1], flush=True)
    return dict(
        contenders={name: summary(found) for name, found in runs.items()},
        ratios={name: ratios(runs["rlnotes"], runs[name]) for name in PEERS},
    )


def summary(runs: list[Run]) -> Json:
    """Medians over the seeds, and each run. One that did not get there counts with the steps it made: too few."""
    return dict(
        reached=sum(run.reached for run in runs),
        env_steps=spread([run.env_steps for run in runs]),
        wall_seconds=spread([run.wall for run in runs]),
        microseconds_per_step=dict(
            wall=spread([1e6 * run.wall / run.env_steps for run in runs]),
            cpu=spread([1e6 * run.cpu / run.env_steps for run in runs]),
        ),
        runs=[vars(run) for run in runs],
    )


def ratios(own: list[Run], peer: list[Run]) -> Json:
    """Medians of rlnotes over medians of the peer: below 1 is fewer steps, or less time."""

    def of(measured: Callable[[Run], float]) -> float:
        return statistics.median(map(measured, own)) / statistics.median(map(measured, peer))

    return dict(
        env_steps=of(lambda run: run.env_steps),
        wall_per_step=of(lambda run: run.wall / run.env_steps),
        cpu_per_step=of(lambda run: run.cpu / run.env_steps),
    )


def main() -> None:
    if find_spec("sb3_contrib") is None:
        raise SystemExit(f"this benchmark compares with sb3-contrib, not installed; run\n\n    {INSTALL_PEERS}\n")
    environment = Environment(f"python -m benchmarks.{NAME}")
    torch.set_num_threads(THREADS)
    numbers: Json = {package: installed(package) for package in ("gymnasium", "stable-baselines3", "sb3-contrib")}
    numbers["algorithms"] = {algorithm: compare(algorithm) for algorithm in ALGORITHMS}
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
