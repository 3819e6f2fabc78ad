"""How fast is an RL step on one GPU, one operation at a time and as one CUDA graph? And how far is it from the card?

The floor of a rollout or of an update is the larger of two times: its multiplications at the card's rate in the same
precision, and the bytes that it must move at the card's bandwidth. Both rates are measured first, on this card.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.common import Environment, Json, write_result
from benchmarks.data_parallel import PartlyRight
from rlnotes.lm.collection import Collection, Sampled, collect
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.cuda_graph import captured
from rlnotes.lm.static_step import StaticStep
from rlnotes.lm.trainer import Trainer

NAME = "gpu_step"
GROUP = 16
COMMON = TrainConfig(prompts=32, group_size=GROUP, warm_start="none", device="cuda")
CASES = {  # a preset, and how many letters are reversed
    "tiny, float32": (COMMON, 8),
    "medium, float32": (replace(COMMON, preset="medium"), 15),
    "large, bfloat16": (replace(COMMON, preset="large", precision="bfloat16"), 31),
}
SEEDS = (0, 1, 2)
TARGET, EVALUATE_EVERY, MOST_STEPS = 0.95, 5, 150
REPEATS = 15
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
    """Milliseconds that a rollout and an update need at the least, as this package does them: prompts are read once."""
    config, task = trainer.config, trainer.task
    b, n, p, t = config.prompts, config.prompts * config.group_size, task.prompt_length, task.max_response_length
    sizes, number = trainer.model.config, 2 if config.precision == "bfloat16" else 4
    d, layers = sizes.d_model, sizes.n_layers
    weights = 12 * layers * d**2
    read = b * p + n * (t - 1)  # tokens that go through the blocks
    seen = b * p**2 / 2 + n * sum(p + i for i in range(1, t))  # pairs of a query and a key
    forward = 2 * weights * read + 4 * layers * d * seen + 2 * d * sizes.vocab_size * n * t
    cache = 2 * layers * d * number * n * sum(p + i for i in range(1, t))  # keys and values, read at every token
    moved = cache + weights * number * t
    optimizer = trainer.model.n_parameters * 4 * 7  # weights and two moments there and back, the gradient once
    rate, bandwidth = rates[config.precision], rates["bytes"]
    return dict(
        rollout=1e3 * max(forward / rate, moved / bandwidth),
        update=1e3 * max(3 * forward / rate, optimizer / bandwidth),
    )


def parts(trainer: Trainer) -> dict[str, Callable[[], Tensor]]:
    """A rollout, and an update on one that stands still."""
    step = StaticStep(trainer)
    step.prepare()
    sample = trainer.sampler.sample
    rollout = sample(trainer.model, step.prompts, GROUP, trainer.generator)
    sampled = Sampled(rollout, trainer.task.score(rollout), 1)
    collected: Collection = collect(
        sampled, trainer.config.prompts, trainer.choices, trainer._scorer(trainer.model), None
    )
    return dict(
        rollout=lambda: sample(trainer.model, step.prompts, GROUP, trainer.generator).logp_behavior,
        update=lambda: step._update(collected, 0),
    )


def speeds(config: TrainConfig, size: int, rates: Json) -> Json:
    """Milliseconds and tokens a second of a rollout, an update, and a step, in both ways; times the floor."""
    task = PartlyRight(size)
    trainer = Trainer(config, task)
    n = config.prompts * config.group_size
    tokens = dict(
        rollout=n * task.max_response_length,
        update=config.prompts * task.prompt_length + n * task.max_response_length,
    )
    least = floors(trainer, rates)
    found: Json = dict(responses=n, prompt_length=task.prompt_length, response_length=task.max_response_length)
    for part, work in parts(trainer).items():
        eager, graphed = milliseconds(work), milliseconds(captured(work, trainer.generator))
        found[part] = dict(
            eager_ms=eager,
            graph_ms=graphed,
            floor_ms=least[part],
            times_floor=graphed / least[part],
            eager_tokens_per_second=tokens[part] / eager * 1e3,
            graph_tokens_per_second=tokens[part] / graphed * 1e3,
        )
    ways = dict(eager=trainer, graph=Trainer(replace(config, cuda_graph=True), PartlyRight(size)))
    for way, stepping in ways.items():
        seconds = [stepping.rl_step()["seconds"] for _ in range(REPEATS + 2)]
        found[f"step_{way}_ms"] = 1e3 * statistics.median(seconds[2:])
    return found


def learn(seed: int, cuda_graph: bool) -> Json:
    """Reverse eight letters: steps and seconds of them until the held-out accuracy is reached."""
    trainer = Trainer(TrainConfig(seed=seed, device="cuda", cuda_graph=cuda_graph))
    before = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before[0].record()
    assert (trainer._graphed is not None) == cuda_graph  # recorded now, off the clock of the steps
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
    environment = Environment(f"python -m benchmarks.{NAME}")
    learn(0, False)  # libraries set themselves up
    runs = {way: [learn(seed, way == "graph") for seed in SEEDS] for way in ("eager", "graph")}
    for way, of_way in runs.items():
        print(way, *(f"{run['steps']} steps {run['seconds']:.3f} s" for run in of_way), sep="  ", flush=True)
    rates = ceilings()
    print(rates, flush=True)
    presets: Json = {}
    for case, (config, size) in CASES.items():
        presets[case] = speeds(config, size, rates)
        print(case, presets[case], flush=True)
    numbers: Json = dict(card=torch.cuda.get_device_name(), ceilings=rates, learning=runs, presets=presets)
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
