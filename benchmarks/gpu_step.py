"""How fast is an RL step on one GPU, one operation at a time and as one CUDA graph, and with torch.compile? How fast is
TRL's? And how far are they from what the card can do?

The floor of a rollout or of an update is the larger of two times: its multiplications at the card's rate in the same
precision, and the bytes that it must move at the card's bandwidth. Both rates are measured first, on this card.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.common import HERE, Environment, Json, go_offline, write_result
from benchmarks.data_parallel import PartlyRight
from rlnotes.gpu.cuda_graph import captured
from rlnotes.gpu.static_step import StaticStep
from rlnotes.lm.collection import Sampled
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.model import Transformer
from rlnotes.lm.trainer import Trainer

NAME = "gpu_step"
GROUP = 16
COMMON = TrainConfig(prompts=32, group_size=GROUP, warm_start="none", device="cuda")
LARGE = replace(COMMON, preset="large", precision="bfloat16")
CASES = {  # a preset, and how many letters are reversed
    "tiny, float32": (COMMON, 8),
    "medium, float32": (replace(COMMON, preset="medium"), 15),
    "large, bfloat16": (LARGE, 31),
    "large, bfloat16, 4096 responses": (replace(LARGE, prompts=256), 31),  # 512 are too few to fill the card
}
SEEDS = (0, 1, 2)
TARGET, EVALUATE_EVERY, MOST_STEPS = 0.95, 5, 150
REPEATS = 15
PATIENCE = dict(compiling=200, compiled=120, TRL=120)  # seconds for a process of its own
KINDS = {  # of kernels, by what their names hold: the first that fits
    "compiled": ("triton_",),
    "attention": ("_attend", "sdpa", "fmha", "cudnn"),
    "products": ("gemm", "nvjet", "splitK"),
    "norms": ("norm", "GammaBeta"),
    "copies and casts": ("copy", "Copy"),
    "additions": ("CUDAFunctor_add", "AddFunctor"),
}
GOAL: Json = dict(seconds_to_target=0.2, times_the_floor_large=3.0)


def milliseconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median time of ``work`` on the GPU, by events."""
    found = []
    for _ in range(repeats + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found[2:])


def ceilings() -> Json:
    """Bytes a second of a large copy, and operations a second of a large product in either precision."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    found: Json = dict(bytes=2 * 4 * len(source) / milliseconds(lambda: target.copy_(source)) * 1e3)
    for name, n in (("float32", 4096), ("bfloat16", 8192)):
        a, b = (torch.randn(n, n, device="cuda", dtype=getattr(torch, name)) for _ in range(2))
        found[name] = 2 * n**3 / milliseconds(lambda a=a, b=b: a @ b) * 1e3
    return found


def floors(trainer: Trainer, rates: Json) -> Json:
    """Milliseconds that a rollout and an update need at the least, as this package does them: prompts are read once.

    At every token each response reads the keys and values of its prompt. ``rollout_shared`` is what would do if those
    of a prompt came from memory once for its group, as they can where the card's cache holds them.
    """
    config, task = trainer.config, trainer.task
    b, n, p, t = config.prompts, config.prompts * config.group_size, task.prompt_length, task.max_response_length
    sizes, number = trainer.model.config, 2 if config.precision == "bfloat16" else 4
    d, layers = sizes.d_model, sizes.n_layers
    weights = 12 * layers * d**2
    read = b * p + n * (t - 1)  # tokens that go through the blocks
    seen = b * p**2 / 2 + n * sum(p + i for i in range(1, t))  # pairs of a query and a key
    forward = 2 * weights * read + 4 * layers * d * seen + 2 * d * sizes.vocab_size * n * t
    token = 2 * layers * d * number  # its keys and values
    own, prompts = n * sum(range(1, t)), n * p * (t - 1)  # tokens whose keys and values are read
    moved, shared = ((own + of_prompts) * token + weights * number * t for of_prompts in (prompts, b * p * (t - 1)))
    optimizer = trainer.model.n_parameters * 4 * 7  # weights and two moments there and back, the gradient once
    rate, bandwidth = rates[config.precision], rates["bytes"]
    return dict(
        rollout=1e3 * max(forward / rate, moved / bandwidth),
        rollout_shared=1e3 * max(forward / rate, shared / bandwidth),
        update=1e3 * max(3 * forward / rate, optimizer / bandwidth),
    )


def parts(trainer: Trainer) -> dict[str, Callable[[], Tensor]]:
    """A rollout, and an update on one that stands still."""
    step = StaticStep(trainer)
    step.prepare()
    sample = trainer.sampler.sample
    rollout = sample(trainer.model, step.prompts_buffer, GROUP, trainer.generator)
    collected = step.advantages(Sampled(rollout, trainer.task.reward(rollout)))

    def update() -> Tensor:
        step.update_number = 0
        step.numbers.clear()
        for part in step.micro_batches(collected, step.rows[0]):
            log_probs = step.log_probs(part)
            batch = step.batch(part, log_probs)
            loss = step.loss(batch)
            loss.backward()
            step.look(part, batch, log_probs, loss)
        step.update()
        return torch.cat(step.numbers)

    return dict(
        rollout=lambda: sample(trainer.model, step.prompts_buffer, GROUP, trainer.generator).logp_behavior,
        update=update,
    )


def compile_blocks(model: Transformer) -> None:
    """Compile what a block does before and after its attention: what can be fused, and knows no caches.

    No views leave the compiled parts: torch 2.11 rebuilt such views wrongly in a pass with gradients
    (pytorch/pytorch#185630).
    """
    for block in model.blocks:
        for name in ("side_by_side", "finish"):
            setattr(block, name, torch.compile(getattr(block, name), dynamic=False))


def speeds(case: str, names: tuple[str, str] = ("eager", "graph"), compiled: bool = False) -> dict[str, Json]:
    """Milliseconds of a rollout and an update, as they come and as a graph, and of the kernels of the latter; of a
    step. The two ways are called ``names``. Prints what it has so far.

    A step without a graph leaves out groups that teach nothing. Its shapes change, so it is not compiled.
    """
    config, size = CASES[case]
    ways: dict[str, Json] = {name: {} for name in names}
    trainers = [Trainer(replace(config, cuda_graph=graph), PartlyRight(size)) for graph in (False, True)]
    if compiled:
        for trainer in trainers:
            compile_blocks(trainer.model)
    for part, work in parts(trainers[0]).items():
        work()
        replayed = captured(work, trainers[0].generator)
        for name, done in zip(names, (work, replayed), strict=True):
            ways[name][f"{part}_ms"] = milliseconds(done)
        ways[names[1]][f"{part}_kernels_ms"] = by_kind(replayed)
        print(json.dumps(ways), flush=True)
    for name, trainer in zip(names, trainers, strict=True):
        if trainer.config.cuda_graph or not compiled:
            seconds = [trainer.rl_step()["seconds"] for _ in range(REPEATS + 2)]
            ways[name]["step_ms"] = 1e3 * statistics.median(seconds[2:])
    print(json.dumps(ways), flush=True)
    return ways


def by_kind(work: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of the kernels of ``work``, by their kind, the longest first."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    found = dict.fromkeys((*KINDS, "others"), 0.0)
    for kernel in seen.key_averages():
        kinds = [kind for kind, parts in KINDS.items() if any(part in kernel.key for part in parts)]
        found[(*kinds, "others")[0]] += kernel.self_device_time_total / 1e3
    return {kind: spent for kind, spent in sorted(found.items(), key=lambda pair: -pair[1]) if spent > 0}


def of_trl(case: str) -> None:
    """The same of TRL's GRPOTrainer."""
    go_offline()
    from benchmarks.trl_on_gpu import trl_speeds  # late: TRL is optional and slow to import

    config, size = CASES[case]
    trl_speeds(config, PartlyRight(size))


def of_compiled(case: str) -> None:
    """See :func:`speeds`."""
    speeds(case, ("compiled", "compiled graph"), compiled=True)


def of_compiling(case: str) -> None:
    """Seconds until a rollout and an update are done for the first time, and compiled."""
    config, size = CASES[case]
    trainer = Trainer(config, PartlyRight(size))
    compile_blocks(trainer.model)
    began = time.perf_counter()
    for work in parts(trainer).values():
        work()
    torch.cuda.synchronize()
    print(json.dumps(dict(compiling=dict(seconds=time.perf_counter() - began))))


OWN = {"compiled": of_compiled, "compiling": of_compiling, "TRL": of_trl}


def in_own_process(part: str, case: str) -> dict[str, Json]:
    """What a function of OWN prints last: a compiler or a library that fails does not end the benchmark then."""
    command = [sys.executable, "-m", f"benchmarks.{NAME}", part, case]
    process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=PATIENCE[part])
        failed = f"ended with {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        failed = f"not done after {PATIENCE[part]} s"
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    ways: dict[str, Json] = found[-1] if found else {part: {}}
    if failed:
        print(part, case, failed, errors[-2000:], flush=True)
        ways = {name: way | dict(failed=failed) for name, way in ways.items()}
    return ways


def preset(case: str, rates: Json) -> Json:
    """What one process can measure of a preset; the tokens of each part, and its floor."""
    config, size = CASES[case]
    task, trainer = PartlyRight(size), Trainer(config, PartlyRight(size))
    n = config.prompts * config.group_size
    return dict(
        responses=n,
        prompt_length=task.prompt_length,
        response_length=task.max_response_length,
        floor_ms=floors(trainer, rates),
        tokens=dict(
            rollout=n * task.max_response_length,
            update=config.prompts * task.prompt_length + n * task.max_response_length,
        ),
        ways=speeds(case),
    )


def learn(seed: int, cuda_graph: bool) -> Json:
    """Reverse eight letters: steps and seconds of them until the held-out accuracy is reached."""
    trainer = Trainer(TrainConfig(seed=seed, device="cuda", cuda_graph=cuda_graph))
    before = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before[0].record()
    assert isinstance(trainer.step_in_use, StaticStep) == cuda_graph  # recorded now, off the clock of the steps
    before[1].record()
    before[1].synchronize()
    seconds, accuracy = 0.0, 0.0
    while accuracy < TARGET and trainer.step < MOST_STEPS:
        seconds += sum(trainer.rl_step()["seconds"] for _ in range(EVALUATE_EVERY))
        accuracy = trainer.evaluate(1024)
    recording = before[0].elapsed_time(before[1]) / 1e3
    return dict(seed=seed, steps=trainer.step, seconds=seconds, recording_seconds=recording, accuracy=accuracy)


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")
    if len(sys.argv) > 1:
        part, case = sys.argv[1:]
        return OWN[part](case)
    environment = Environment(f"python -m benchmarks.{NAME}")
    learn(0, False)  # libraries set themselves up
    runs = {way: [learn(seed, way == "graph") for seed in SEEDS] for way in ("eager", "graph")}
    for way, of_way in runs.items():
        print(way, *(f"{run['steps']} steps {run['seconds']:.3f} s" for run in of_way), sep="  ", flush=True)
    rates = ceilings()
    print(rates, flush=True)
    presets: dict[str, Json] = {case: preset(case, rates) for case in CASES}
    numbers: Json = dict(card=torch.cuda.get_device_name(), ceilings=rates, learning=runs, presets=presets)
    write_result(NAME, GOAL, numbers, environment)
    with TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder  # empty now; the timed processes find what these compile
        for case, first in zip(CASES, pool.map(partial(in_own_process, "compiling"), CASES), strict=True):
            print(case, first, flush=True)
            presets[case] |= first
        tried = [*itertools.product(["compiled"], reversed(CASES)), *itertools.product(["TRL"], CASES)]
        for part, case in tried:
            presets[case]["ways"] |= in_own_process(part, case)
            print(case, presets[case]["ways"], flush=True)
            write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
