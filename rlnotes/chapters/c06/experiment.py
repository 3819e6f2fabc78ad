"""What PPO's clip buys and what it costs, on two tasks: the runs behind the experiment of chapter 06.

``python -m rlnotes.chapters.c06.experiment --out 06_clip.json --workers 16`` makes the starts, tunes the learning rate
of each arm on seeds of their own, and makes the reported runs at each arm's best rate, and for some arms at a second
one. It works in processes of one thread, which share a GPU with ``--device cuda``.
"""

import argparse
import json
import platform
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.critic import Critic
from rlnotes.lm.progress import bar
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.token_ppo import TokenPPOConfig, token_ppo
from rlnotes.lm.trainer import Trainer

KL_LIMIT = 0.02  # nats per token of a minibatch
ARMS: dict[str, dict[str, Any]] = {
    "unclipped": dict(clip=None),
    "clip": {},
    "clip_stop": dict(kl_limit=KL_LIMIT),
    "stop": dict(clip=None, kl_limit=KL_LIMIT),
}
ROUNDS = {"misled": 16, "needle": 16}
RATES = (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 6.4e-3)
FURTHER = {("needle", arm): (1.28e-2, 2.56e-2) for arm in ("clip_stop", "stop")}
"""rates beyond the grid, for those whose best one was the grid's last"""
SECOND = {("misled", "unclipped"): 2e-4, ("needle", "unclipped"): 2e-4}
SECOND |= {("needle", arm): 1.28e-2 for arm in ("clip_stop", "stop")}
"""a second rate for the reported seeds, chosen after the first results: half of the best one, or twice"""
STARTS = 5
TUNING = ((0, 100), (0, 101), (1, 100), (2, 100))  # start and seed
REPORTED = tuple((start, seed) for start in range(STARTS) for seed in (0, 1, 2))
WATCHED = ("clipped", "clipped_last", "kl", "largest_ratio", "outside", "updates")


@dataclass(frozen=True)
class Run:
    """One run: an arm on a task at a learning rate, from a start, with a seed of prompts and samples."""

    task: str
    arm: str
    rate: float
    start: int
    seed: int


def settings(run: Run) -> TokenPPOConfig:
    """512 responses a round and 4 x 4 updates on them; advantages are the reward minus V."""
    return TokenPPOConfig(*(ROUNDS[run.task], 512), lam=1.0, learning_rate=run.rate, seed=run.seed, **ARMS[run.arm])


def made_start(task: str, start: int, device: str = "cpu") -> Trainer:
    """A trainer whose model is the start: number 0 is the one that comes with the package."""
    from_package = TrainConfig(task=task, seed=start, warm_start="train" if start else "shipped", warm_batch=128)
    trainer = Trainer(replace(from_package, device=device))
    for _ in trainer.run(steps=0):
        pass
    return trainer


def store_start(folder: Path, device: str, task: str, start: int) -> None:
    """Train a start and keep its weights."""
    save_file(made_start(task, start, device).model.state_dict(), folder / f"{task}-{start}.safetensors")


def accuracies(trainer: Trainer) -> dict[str, float]:
    """Held-out accuracy of greedy and of sampled responses to 256 prompts."""
    greedy = trainer.evaluate(256, transform=SamplingTransform(temperature=0))
    return dict(greedy=greedy, sampled=trainer.evaluate(256))


def made_run(folder: Path, device: str, run: Run) -> dict[str, Any]:
    """The row of one run: accuracies before and after each round, and what was logged of it."""
    torch.set_num_threads(1)
    trainer = Trainer(TrainConfig(task=run.task, warm_start="none", steps=0, device=device))
    trainer.model.load_state_dict(load_file(folder / f"{run.task}-{run.start}.safetensors"))
    reference = deepcopy(trainer.model)
    found, logged = [accuracies(trainer)], []
    for metrics in token_ppo(settings(run), trainer.task, trainer.model, Critic(trainer.model)):
        found.append(accuracies(trainer))
        logged.append({name: metrics[name] for name in WATCHED} | dict(kl_reference=to_reference(trainer, reference)))
    return vars(run) | in_columns(found) | in_columns(logged)


@torch.no_grad()
def to_reference(trainer: Trainer, reference: torch.nn.Module) -> float:
    """KL(pi, reference) per token, in nats: the mean log-ratio over 256 responses of pi itself."""
    rollout = trainer.sample(256)
    gap = token_logp(trainer.model, rollout) - token_logp(reference, rollout)  # type: ignore[arg-type]
    return gap[rollout.mask].mean().item()


def in_columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    """A list for each name, of four digits."""
    return {name: [float(f"{row[name]:.4g}") for row in rows] for name in rows[0]}


def score(row: Mapping[str, Any]) -> float:
    """Mean held-out accuracy of sampled responses after the rounds: what is early and lasts is worth most."""
    return sum(row["sampled"][1:]) / len(row["sampled"][1:])


def best_rates(tuned: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """The rate of each task and arm with the highest mean score."""
    scores: dict[tuple[str, str], dict[float, list[float]]] = {}
    for row in tuned:
        scores.setdefault((row["task"], row["arm"]), {}).setdefault(row["rate"], []).append(score(row))
    return {key: max(own, key=lambda rate, own=own: sum(own[rate]) / len(own[rate])) for key, own in scores.items()}


def tuning_runs() -> list[Run]:
    """The grid, and the rates beyond it."""
    grid = [(task, arm, rate) for task in ROUNDS for rate in RATES for arm in ARMS]
    grid += [(*key, rate) for key, beyond in FURTHER.items() for rate in beyond]
    return [Run(*one, *pair) for one in grid for pair in TUNING]


def reported_runs(rates: Mapping[tuple[str, str], float]) -> list[Run]:
    """The reported seeds of each task and arm at its one of the ``rates``."""
    return [Run(*key, rate, *pair) for key, rate in rates.items() for pair in REPORTED]


def rows(workers: int, device: str, known: Mapping[Run, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All rows, tuning first; each with what it is for. Those that are ``known`` are not made again."""
    grid, second = tuning_runs(), reported_runs(SECOND)
    runs = len(grid) + len(ROUNDS) * len(ARMS) * len(REPORTED) + len(second)
    with (
        TemporaryDirectory() as name,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        bar(runs) as shown,
    ):
        make = partial(made_run, Path(name), device)
        for one in [
            pool.submit(store_start, Path(name), device, task, start) for task in ROUNDS for start in range(STARTS)
        ]:
            one.result()

        def made(role: str, wanted: list[Run]) -> Iterator[dict[str, Any]]:
            fresh = pool.map(make, [run for run in wanted if run not in known])
            for run in wanted:
                shown.update()
                yield known[run] if run in known else dict(role=role) | next(fresh)

        tuned = []
        for row in made("tuning", grid):
            tuned.append(row)
            yield row
        yield from made("reported", reported_runs(best_rates(tuned)))
        yield from made("second", second)


def run_of(row: Mapping[str, Any]) -> Run:
    """Which run a row is of."""
    return Run(*(row[field.name] for field in fields(Run)))


def main() -> None:
    """Write the table, with what made it. Until it is whole its rows stand beside it, and a new call goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    began = time.perf_counter()
    part, found = arguments.out.with_suffix(".part"), []
    known = [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()] if part.exists() else []
    with part.open("a", encoding="utf-8") as file:
        for row in rows(arguments.workers, arguments.device, {run_of(one): one for one in known}):
            found.append(row)
            if row not in known:
                print(json.dumps(row), file=file, flush=True)
    lines = ",\n".join(map(json.dumps, found))
    own, on_gpu = arguments, arguments.device.startswith("cuda")
    options = f"--out {own.out.name} --workers {own.workers}" + on_gpu * f" --device {own.device}"
    card = torch.cuda.get_device_name(own.device) if on_gpu else f"{own.workers} cores, {platform.machine()}"
    made_by = dict(
        command=f"python -m rlnotes.chapters.c06.experiment {options}",
        seconds=round(time.perf_counter() - began),
        machine=f"{card}, torch {torch.__version__}",
    )
    head = json.dumps(made_by)[:-1]
    arguments.out.write_text(f'{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    part.unlink()


if __name__ == "__main__":
    main()
