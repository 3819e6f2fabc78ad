"""The methods of the course against each other on a real model, on a GPU or several: many short runs side by side.

    python -m rlnotes.studies.real --model FOLDER_OR_GGUF --out OUT --workers 6 --seconds 500

First the first run alone, for each seed, by which speed is judged. Then the others, all arms of a seed before the next
seed. Every run leaves its log, ``OUT/logs/ARM/SEED.jsonl``, line by line; those that are there to their end are not
made again, so that the same command goes on. ``--only`` names kinds of runs. In the end ``OUT/18_real.csv`` and
``.json`` hold all runs that are whole, in the form of the other tables (:mod:`rlnotes.studies.tables`), and the
verdicts are printed.
"""

import argparse
import gc
import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from rlnotes.bridge.real.config import RealConfig
from rlnotes.bridge.real.questions import part, questions
from rlnotes.files import csv_text, read_lines, replace_text, sole_writer
from rlnotes.objectives import RECIPES
from rlnotes.processes import end_with_parent
from rlnotes.studies.real_rows import ALONE as FIRST
from rlnotes.studies.real_rows import GOAL
from rlnotes.studies.study import described
from rlnotes.studies.verdicts import judge

QUESTION = "With a real model: which objectives hold with eight updates a rollout, and behind a sampler of four bits?"
DATASETS = ("chain_sum", "gcd", "letter_counting", "spell_backward")  # of reasoning-gym
OBJECTIVES = ("pg_is", "stale_ppo", "minirl", "dppo_tv", "grpo")  # the first four differ in their gate or mask alone
COLUMNS = (
    "reward", "right", "accuracy", "greedy", "pass_at_8", "loss", "entropy", "kl_steps",
    "no_gradient", "bad_updates", "mismatch", "ratio_deviation", "gradient_norm", "length", "length_wrong", "truncated",
    "wasted_groups", "lag", "staleness", "update_shift", "ess", "ess_sequence", "ratio_tail", "clipped_probability",
    "clipped_entropy", "tokens_per_second", "sampling_seconds", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One way to train, and what is changed for it in ``BASE``. ``rollout`` names the mismatch, as in other tables."""

    name: str
    rollout: str = "none"
    changes: dict[str, Any] = field(default_factory=dict)


BASE = RealConfig(
    "model", steps=25, epochs=2, minibatches=4, evaluate_every=5, measure_shift=True, count_clipped=True
).on("cuda")
ALONE = Arm(
    FIRST, changes=dict(steps=60, epochs=1, minibatches=1, measure_shift=False, count_clipped=False, recipe="grpo")
)
FORM = Arm("paid for form", changes=dict(ALONE.changes, task="times-3", paid="format", steps=40))
EXACT = [Arm(name, "none", dict(recipe=name)) for name in OBJECTIVES]
INT4 = [Arm(f"{name}, int4", "int4", dict(recipe=name, rollout_weights="int4", spread=4)) for name in OBJECTIVES]
STALE = [Arm(f"{name}, stale", "stale", dict(recipe=name, refresh=8)) for name in OBJECTIVES[:4]]
GYM = [
    Arm(name, changes=dict(ALONE.changes, task=f"reasoning-gym/{name}", steps=40, heldout=2048)) for name in DATASETS
]
INT8 = [Arm(f"{name}, int8", "int8", dict(recipe=name, rollout_weights="int8", spread=4)) for name in OBJECTIVES[1:3]]
KINDS = dict(alone=[ALONE], form=[FORM], gym=GYM, exact=EXACT, int4=INT4, stale=STALE, int8=INT8)
ARMS = {arm.name: arm for kind in KINDS.values() for arm in kind}


def jobs(seeds: int) -> Iterator[tuple[str, int]]:
    """(arm, seed) of the runs that go side by side, what is worth most first."""
    first = range(min(3, seeds))
    for seed in first:
        yield from ((arm.name, seed) for arm in (*EXACT, *INT4))
    for seed in first:
        yield from ((arm.name, seed) for arm in (FORM, *GYM, *STALE))
    for seed in range(3, seeds):
        yield from ((arm.name, seed) for arm in (*STALE, *EXACT, *INT4))
    for seed in first:
        yield from ((arm.name, seed) for arm in INT8)


def log_of(out: Path, arm: str, seed: int) -> Path:
    """Where a run leaves its lines."""
    return out / "logs" / arm.replace(" ", "_").replace(",", "") / f"{seed}.jsonl"


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Its whole lines, if there are any."""
    return [json.loads(line) for line in read_lines(log).whole] if log.exists() else []


def is_whole(out: Path, arm: str, seed: int) -> bool:
    """Whether a run is there to its end."""
    rows = rows_of(log_of(out, arm, seed))
    return bool(rows) and rows[-1].get("ended", False)


def begin(number: Any) -> None:
    """In a new worker: end with the parent, and take the next card in turn."""
    end_with_parent()
    if torch.cuda.is_available():
        with number.get_lock():
            torch.cuda.set_device(number.value % torch.cuda.device_count())
            number.value += 1


def make(out: Path, base: RealConfig, end: float, job: tuple[str, int]) -> str:
    """Make one run, unless it is there or the time is over, and say in a line how it went."""
    import rlnotes.gpu  # noqa: F401  it records the work of a token
    from rlnotes.bridge.real.trainer import RealTrainer
    from rlnotes.lm.report import ClippedTokens

    arm, seed = job
    if is_whole(out, arm, seed) or time.time() > end:
        return f"{arm}, seed {seed}: there already, or no time"
    torch.set_num_threads(1)
    began = time.time()
    trainer = RealTrainer(replace(base, seed=seed, **ARMS[arm].changes))
    clipped = ClippedTokens(len(trainer.task.vocabulary))
    path = log_of(out, arm, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as log:

        def keep(row: dict[str, Any]) -> None:
            log.write(f"{json.dumps(row)}\n")
            log.flush()

        row: dict[str, Any] = {}
        lost = ""
        try:
            start = trainer.pass_at(8)
            for row in trainer.run():
                if trainer.step == 1:
                    row["start_pass_at_8"] = start
                if trainer.clipped is not None:
                    clipped += trainer.clipped
                if trainer.step == trainer.config.steps:
                    row["pass_at_8"] = trainer.pass_at(8)
                keep(row)
                if time.time() > end:
                    return f"{arm}, seed {seed}: no time after step {trainer.step}"
        except ValueError as error:
            if trainer.step == 0:  # not even one step: the settings are wrong
                raise
            lost = str(error)  # the weights have diverged: nothing is right from here on
            row = dict(phase=1, step=trainer.config.steps, tokens=trainer.tokens, reward=0.0, accuracy=0.0, greedy=0.0)
            keep(row)
        keep(dict(ended=True, lost=lost, seconds=time.time() - began, clipped=clipped.rows(trainer.task.names)))
    return f"{arm}, seed {seed}: accuracy {row['accuracy']:.3f} after {time.time() - began:.0f} seconds {lost}"


def to_goal(rows: Iterable[dict[str, Any]], goal: float = GOAL) -> float | None:
    """Seconds of the steps, without the measurements, until one of these shows the ``goal``; None if none does."""
    seconds = 0.0
    for row in rows:
        seconds += row.get("seconds", 0.0) if "step" in row else 0.0
        if row.get("accuracy", 0.0) >= goal:
            return seconds
    return None


def commonest(task: str, n: int) -> tuple[str, float]:
    """The answer that most of ``n`` held-out questions have, and their share: what a model gets that always says it.

    >>> answer, share = commonest("add", 200)
    >>> 0 < share < 0.1
    True
    """
    generator, found = torch.Generator().manual_seed(0), Counter[str]()
    while found.total() < n:
        asked = questions(task).ask(generator)
        found.update([asked.answer] * (part(asked) == "heldout"))
    ((answer, most),) = found.most_common(1)
    return answer, most / n


def table(out: Path, base: RealConfig, seeds: int) -> tuple[str, dict[str, Any]]:
    """The table and its note, of the runs that are whole."""
    columns = ("method", "recipe", "task", "rollout", "rate", "seed", "step", "tokens", *COLUMNS)
    lines: list[list[Any]] = [[*columns]]
    methods: dict[str, dict[str, Any]] = {}
    clipped: dict[str, list[dict[str, Any]]] = {}
    constant: dict[str, tuple[str, float]] = {}
    for arm in ARMS.values():
        config, sampled = replace(base, **arm.changes), []
        for seed in filter(partial(is_whole, out, arm.name), range(seeds)):
            *rows, end = rows_of(log_of(out, arm.name, seed))
            labels = (arm.name, config.recipe, config.task, arm.rollout, f"{config.learning_rate:g}", seed)
            begun = {name: rows[0].get(f"start_{name}", "") for name in ("accuracy", "greedy", "pass_at_8")}
            for row in (dict(step=0, tokens=0) | begun, *rows):
                numbers = [row["step"], row["tokens"], *(row.get(name, "") for name in COLUMNS)]
                lines.append([*labels, *(f"{one:.5g}" if isinstance(one, float) else one for one in numbers)])
            sampled.append(rows[-1]["tokens"])
            clipped.setdefault(arm.name, []).extend(one | dict(seed=seed) for one in end["clipped"])
        if sampled:  # a table asks that each run has sampled as many
            choices = described(RECIPES[config.recipe])
            methods[arm.name] = dict(choices=choices, changes=arm.changes, tokens=min(sampled))
            if arm in GYM:
                constant[arm.name] = commonest(config.task, config.heldout)
    least = min((one["tokens"] for one in methods.values()), default=0)
    note = dict(
        comparison=dict(question=QUESTION, base=asdict(base), methods=methods, tokens=least),
        machine=dict(
            python=platform.python_version(),
            torch=torch.__version__,
            processor=platform.machine(),
            card=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        ),
        clipped=clipped,
        commonest=constant,
    )
    return csv_text(lines), note


def verdicts(out: Path, seeds: int) -> Iterator[str]:
    """Lines: how fast, how high, and what may be said of each method beside the first of its kind."""
    alone = [rows_of(log_of(out, ALONE.name, seed)) for seed in range(seeds) if is_whole(out, ALONE.name, seed)]
    times = [inf if (found := to_goal(rows)) is None else found for rows in alone]
    if times:
        each = ", ".join(f"{one:.1f}" if one < inf else "no" for one in times)
        yield f"{GOAL:.0%} sampled after {each} seconds of steps; median of {len(times)} seeds {median(times):.1f}"
        speeds = [row["tokens_per_second"] for rows in alone for row in rows[5:] if "step" in row]
        yield f"{median(speeds):,.0f} tokens a second sampled"
    for kind in (EXACT, INT4, STALE, INT8):
        ends = {
            arm.name: {
                seed: [row["accuracy"] for row in rows_of(log_of(out, arm.name, seed)) if "accuracy" in row][-1]
                for seed in range(seeds)
                if is_whole(out, arm.name, seed)
            }
            for arm in kind
        }
        first = ends[kind[0].name]
        for name, own in ends.items():
            both = sorted(first.keys() & own.keys())
            said = ", ".join(f"{own[seed]:.3f}" for seed in own)
            if len(both) > 1 and name != kind[0].name:
                verdict = judge(np.array([own[one] for one in both]), np.array([first[one] for one in both]))
                said += f"   less {kind[0].name}: {verdict}"
            yield f"{name}: {said}"


def claim(out: Path, base: RealConfig) -> None:
    """Note in ``out`` the settings that all runs share. Raises ``ValueError`` if it holds runs of other settings."""
    note, settings = out / "settings.json", json.dumps(asdict(base), indent=1) + "\n"
    if note.exists() and note.read_text(encoding="utf-8") != settings:
        raise ValueError(f"{note} tells other settings; choose another folder for --out, or give those settings")
    replace_text(note, settings)


def main() -> None:
    """Make the runs that are missing, as far as the time goes, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m rlnotes.studies.real", description=__doc__)
    parser.add_argument("--model", required=True, help="folder, or GGUF file")
    parser.add_argument("--out", type=Path, required=True, help="folder of logs and table")
    parser.add_argument("--workers", type=int, default=6, help="runs at the same time")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[*KINDS], choices=[*KINDS], help="kinds of runs")
    parser.add_argument("--seconds", type=float, default=500, help="after which no step is begun")
    parser.add_argument("--set", nargs="*", default=[], help="NAME=VALUE in JSON, of the settings that all runs share")
    given = parser.parse_args()
    end = time.time() + given.seconds
    changes = {name: json.loads(value) for name, value in (one.split("=", 1) for one in given.set)}
    with sole_writer(given.out):
        base = replace(BASE, model=prepared(given.model, given.out), **changes)
        claim(given.out, base)
        make_all(given, base, end)


def make_all(given: argparse.Namespace, base: RealConfig, end: float) -> None:
    """The runs, side by side but for the first; then the table and the verdicts."""
    wanted = {arm.name for kind in given.only for arm in KINDS[kind]}
    try:
        for seed in range(min(3, given.seeds) if ALONE.name in wanted else 0):
            print(make(given.out, base, end, (ALONE.name, seed)), flush=True)
        gc.collect()  # graphs and their memory
        torch.cuda.empty_cache()
        work = partial(make, given.out, base, end)
        context = get_context("spawn")
        with ProcessPoolExecutor(given.workers, context, begin, (context.Value("i"),)) as pool:
            for said in pool.map(work, (job for job in jobs(given.seeds) if job[0] in wanted)):
                print(said, flush=True)
    finally:
        text, note = table(given.out, base, given.seeds)
        replace_text(given.out / "18_real.csv", text)
        replace_text(given.out / "18_real.json", json.dumps(note, indent=1) + "\n")
        for line in verdicts(given.out, given.seeds):
            print(line, flush=True)


def prepared(model: str, out: Path) -> str:
    """The folder of the model; a GGUF file is multiplied out once, beside ``out``, so that each run reads it fast."""
    from rlnotes.bridge.real.models import load

    folder = out.with_name(f"{out.name}_model")
    if Path(model).is_dir() and (Path(model) / "config.json").exists():
        return model
    if not (folder / "config.json").exists():
        loaded = load(model)
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
    return str(folder)


if __name__ == "__main__":
    main()
