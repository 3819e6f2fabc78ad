"""A real model trained by the course's own loop and through TRL's trainer, with one objective, on the same questions.

    python -m benchmarks.real_against_trl MODEL [STEPS]

MODEL is a folder or a GGUF file, as ``rlnotes real`` takes it. Each way in a process of its own: seconds of a step and
of its rollout, tokens sampled a second, accuracy before and after. Beside them stands what the card needs at the least
for a rollout: the larger of the time for its multiplications and that for the bytes that it must move, at the rates of
a large product and a large copy on this card.
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalMemberAccess=false
# as in benchmarks/trl_peer.py, and as in rlnotes/bridge/real/models.py

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.common import HERE, Environment, Json, go_offline, write_result
from rlnotes.bridge.real.config import RealConfig

NAME = "real_against_trl"
WARM = 3  # steps that are not counted
PATIENCE = 400  # seconds for a process of its own
GOAL: Json = {}


def settings_of(model: str, steps: int) -> RealConfig:
    """Those of the first run of ``rlnotes.studies.real``: one update a rollout, GRPO, two-digit addition."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes: Json = {} if device == "cuda" else dict(prompts=2, group_size=4, heldout=8)
    return RealConfig(model, steps=steps, learning_rate=1e-5, warmup_updates=5, evaluate_every=steps, **sizes).on(
        device
    )


def ours(config: RealConfig) -> Json:
    """By :class:`rlnotes.bridge.real.trainer.RealTrainer`."""
    import rlnotes.gpu  # noqa: F401  it records the work of a token
    from rlnotes.bridge.real.trainer import RealTrainer

    trainer = RealTrainer(config)
    rows = list(trainer.run())
    return dict(
        step_seconds=statistics.median(row["seconds"] for row in rows[WARM:]),
        rollout_seconds=statistics.median(row["sampling_seconds"] for row in rows[WARM:]),
        tokens_per_second=statistics.median(row["tokens_per_second"] for row in rows[WARM:]),
        seconds=sum(row["seconds"] for row in rows),
        start=rows[0]["start_accuracy"],
        accuracy=rows[-1]["accuracy"],
        width=trainer.task.width,
    )


def through_trl(config: RealConfig, recipe: str | None = None) -> Json:
    """By TRL's trainer with its own loss, or through the bridge with that of a ``recipe``."""
    go_offline()
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    from benchmarks.trl_on_gpu import Watch
    from benchmarks.trl_peer import settings
    from rlnotes.bridge.real.for_trl import for_trl
    from rlnotes.bridge.real.models import load
    from rlnotes.bridge.real.trainer import RealTrainer
    from rlnotes.bridge.trl import RecipeTrainer

    on_card = config.device == "cuda"
    loaded, watch, sampled = load(config.model), Watch(), []
    data, reward = for_trl("add", config.steps * config.prompts, torch.Generator().manual_seed(0))
    loaded.model.generate = watch.over("rollout", loaded.model.generate)

    def counted(*, completion_ids: list[list[int]], **given: Any) -> list[float]:
        sampled.append(sum(map(len, completion_ids)))
        return reward(**given)

    sequences = config.prompts * config.group_size
    with tempfile.TemporaryDirectory() as folder:
        args = settings(
            *(folder, sequences, config.group_size, config.steps, config.length, config.learning_rate, False),
            bf16=on_card,
            use_cpu=not on_card,
        )
        if recipe:
            args.loss_type = "dapo"  # TRL's default, which the bridge asks for: the loss is the recipe's
        trainer = (partial(RecipeTrainer, recipe=recipe) if recipe else GRPOTrainer)(
            model=loaded.model,
            processing_class=loaded.tokenizer,
            reward_funcs=counted,
            train_dataset=data,
            args=args,
            callbacks=[watch],
        )
        before = "_generate_and_score_completions"
        setattr(trainer, before, watch.over("before the update", getattr(trainer, before)))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    seen = watch.milliseconds
    judge = RealTrainer(replace(config, steps=0), model=trainer.model, tokenizer=loaded.tokenizer)
    rates = [tokens / ms * 1e3 for tokens, ms in zip(sampled, seen["rollout"], strict=True)]
    return dict(
        step_seconds=statistics.median(seen["step"][WARM:]) / 1e3,
        rollout_seconds=statistics.median(seen["rollout"][WARM:]) / 1e3,
        tokens_per_second=statistics.median(rates[WARM:]),
        seconds=sum(seen["step"]) / 1e3,
        accuracy=judge.evaluate(),
    )


def floor(config: RealConfig, width: int, rates: Json) -> Json:
    """Seconds that a rollout of ``config.length`` tokens needs at the least; prompts are read once for a group."""
    from rlnotes.bridge.real.models import load

    model = load(config.model).model
    shape, n = model.config, config.prompts * config.group_size
    tied = model.get_input_embeddings().weight.numel()  # what gives the logits, once for each token
    matrices = sum(one.weight.numel() for one in model.modules() if isinstance(one, nn.Linear))
    blocks = matrices - sum(one.weight.numel() for one in [model.get_output_embeddings()])
    read = config.prompts * width + n * (config.length - 1)
    products = 2 * blocks * read + 2 * tied * n * config.length
    heads = shape.num_key_value_heads * shape.hidden_size // shape.num_attention_heads
    token = 2 * shape.num_hidden_layers * heads * 2  # bytes of its keys and values
    held = n * sum(range(1, config.length)) + config.prompts * width * (config.length - 1)
    moved = 2 * (blocks + tied) * config.length + token * held
    seconds = max(products / rates["bfloat16"], moved / rates["bytes"])
    return dict(rollout_seconds=seconds, tokens_per_second=n * config.length / seconds)


WAYS: dict[str, Callable[[RealConfig], Json]] = {
    "rlnotes": ours,
    "TRL": through_trl,
    "TRL, loss of a recipe": partial(through_trl, recipe="grpo"),
}


def in_own_process(way: str, model: str, steps: int) -> Json:
    """What a way prints last, or why it did not."""
    command = [sys.executable, "-m", f"benchmarks.{NAME}", model, str(steps), way]
    try:
        ended = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return dict(failed=f"not done after {PATIENCE} s")
    found = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    return json.loads(found[-1]) if found else dict(failed=ended.stderr[-2000:])


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    model, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    config = settings_of(model, steps)
    if len(sys.argv) > 3:
        print(json.dumps(WAYS[sys.argv[3]](config)))
        return
    environment = Environment(f"python -m benchmarks.{NAME} MODEL {steps}")
    numbers: Json = dict(prompts=config.prompts, group_size=config.group_size, length=config.length, steps=steps)
    for way in WAYS:
        numbers[way] = in_own_process(way, model, steps)
        print(way, numbers[way], flush=True)
    if torch.cuda.is_available():
        from benchmarks.gpu_step import ceilings

        numbers |= dict(card=torch.cuda.get_device_name(), ceilings=ceilings())
        numbers["floor"] = floor(config, numbers["rlnotes"]["width"], numbers["ceilings"])
        print(numbers["floor"])
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
