"""How many runs of the arena does one GPU make in a minute, in batches and one after the other?

All of a run counts: its trainer, the recording of its CUDA graph, its steps, and its measurements of accuracy. A batch
holds runs of a few recipes at the arena's learning rates. Some of the same runs are made one after the other, by a CUDA
graph each where the task allows one, and those of one task by processes on the machine's cores.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import torch

from benchmarks.common import Environment, Json, write_result
from rlnotes.studies.arena import ARENA_TASKS, arena
from rlnotes.studies.batches import Run, batches, run_batch
from rlnotes.studies.run import run
from rlnotes.studies.study import Study

NAME = "batched_runs"
RECIPES = ("grpo", "dr_grpo", "gspo", "sapo", "pg_is", "trm", "dppo_tv")
SEEDS = range(3)  # with the three rates 63 runs: a batch as in the arena, which tunes each recipe on three seeds
ALONE = "grpo"  # the recipe whose runs at the last rate are made one after the other, too
GRAPHED = ("reverse", "sort", "ramble", "needle")  # tasks whose single run can be a CUDA graph
ON_CORES = "sort"
GOAL: Json = dict(times_single=3.0, standard_errors=2.0)

Accuracies = dict[Run, float]  # at the end of each run


def runs_of(study: Study) -> list[Run]:
    """All runs of one task."""
    return [(method, seed) for seed in SEEDS for method in study.methods]


def timed(made: Accuracies, started: float) -> Json:
    """What is told of some runs."""
    seconds = time.perf_counter() - started
    return dict(runs=len(made), seconds=seconds, runs_per_minute=60 * len(made) / seconds)


def in_batches(study: Study) -> tuple[Json, Accuracies]:
    """All runs, in batches."""
    made: Accuracies = {}
    started, due = time.perf_counter(), batches(study, runs_of(study))
    for batch in due:
        found = run_batch(study, batch)
        made |= {one: rows[-1]["accuracy"] for one, rows in zip(batch, found, strict=True)}
    return timed(made, started) | dict(batches=len(due)), made


def one_by_one(study: Study, due: Sequence[Run]) -> tuple[Json, Accuracies]:
    """Some runs, one after the other."""
    started = time.perf_counter()
    made = {one: run(study, *one)[-1]["accuracy"] for one in due}
    return timed(made, started) | dict(cuda_graph=study.base.cuda_graph), made


def on_cores(study: Study, workers: int) -> Json:
    """One run for each core, by a process of its own. The start of the processes does not count."""
    due = runs_of(study)[:workers]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(run, arena(RECIPES, (ON_CORES,), tokens=1)), *zip(*due, strict=True)))
        started = time.perf_counter()
        found = pool.map(partial(run, study), *zip(*due, strict=True))
        made = {one: rows[-1]["accuracy"] for one, rows in zip(due, found, strict=True)}
        return timed(made, started) | dict(workers=workers)


def agreement(batched: Accuracies, alone: Accuracies) -> Json:
    """Accuracies at the end of the runs that were made both ways, and how far they vary from seed to seed."""
    spread = statistics.stdev(batched[one] for one in alone)
    return dict(
        method=next(iter(alone))[0],
        seeds=len(alone),
        batched=statistics.fmean(batched[one] for one in alone),
        alone=statistics.fmean(alone.values()),
        largest_difference=max(abs(batched[one] - alone[one]) for one in alone),
        standard_deviation=spread,
        standard_error=spread * (2 / len(alone)) ** 0.5,
    )


def of_task(task: str) -> Json:
    """Both ways, and how well they agree."""
    study = arena(RECIPES, (task,), device="cuda")
    together, batched = in_batches(study)
    torch.cuda.empty_cache()
    graphed = replace(study, base=replace(study.base, cuda_graph=task in GRAPHED))
    *_, method = (name for name, one in study.methods.items() if one.labels["recipe"] == ALONE)
    single, alone = one_by_one(graphed, [(method, seed) for seed in SEEDS])
    times = together["runs_per_minute"] / single["runs_per_minute"]
    return dict(batched=together, single=single, times_single=times, agreement=agreement(batched, alone))


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{NAME}", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=tuple(ARENA_TASKS), help="of the arena; all of them if none")
    asked = parser.parse_args().tasks
    environment = Environment(" ".join(("python -m", f"benchmarks.{NAME}", *sys.argv[1:])))
    # libraries set themselves up
    one_by_one(arena(RECIPES, (ON_CORES,), tokens=1, device="cuda"), [("grpo, sort 5e-4", 0)])
    tasks: Json = {}
    for task in asked:
        tasks[task] = of_task(task)
        print(task, tasks[task], flush=True)
    numbers: Json = dict(card=torch.cuda.get_device_name(), tasks=tasks)
    if ON_CORES in asked:
        numbers["cores"] = dict(task=ON_CORES) | on_cores(arena(RECIPES, (ON_CORES,)), os.cpu_count() or 1)
        print(numbers["cores"], flush=True)
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
