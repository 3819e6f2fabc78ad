"""TRL's GRPOTrainer on a GPU, at the sizes of a preset: how long is a step, and what of it is the rollout?

Call :func:`benchmarks.common.go_offline` before this module is imported.
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# as in benchmarks/trl_peer.py

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from benchmarks.common import Json
from benchmarks.trl_peer import make_model, make_tokenizer, settings
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.tasks import ExactMatchTask

STEPS, WARM = 9, 3  # steps, and how many of them are not counted
LEARNING_RATE = 1e-3


class Watch(TrainerCallback):
    """Milliseconds of TRL's steps and of what is named with :meth:`over`, each when the GPU has finished."""

    def __init__(self):
        self.milliseconds: dict[str, list[float]] = {}
        self._began = 0.0

    def over(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """``work``, timed."""

        def timed(*args: Any, **settings: Any) -> Any:
            began = now()
            result = work(*args, **settings)
            self.milliseconds.setdefault(name, []).append(now() - began)
            return result

        return timed

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """The batch of prompts is at hand."""
        self._began = now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The optimiser has stepped."""
        self.milliseconds.setdefault("step", []).append(now() - self._began)
        if len(self.milliseconds["step"]) > WARM:
            print(json.dumps(dict(TRL=self.medians())), flush=True)

    def medians(self) -> Json:
        """Of the steps that count."""
        found = {name: statistics.median(seen[WARM:]) for name, seen in self.milliseconds.items()}
        return dict(
            step_ms=found["step"],
            rollout_ms=found["rollout"],
            update_ms=found["step"] - found["before the update"],
            steps=len(self.milliseconds["step"]) - WARM,
        )


def now() -> float:
    """Milliseconds on the wall clock, when a GPU, if there is one, has done everything so far."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1e3 * time.perf_counter()


def share_right(completion_ids: list[list[int]], answer: list[list[int]], **_: Any) -> list[float | None]:
    """The reward of :class:`benchmarks.data_parallel.PartlyRight`, in TRL's form."""
    pairs = zip(completion_ids, answer, strict=True)
    return [sum(a == b for a, b in zip(given, right, strict=False)) / len(right) for given, right in pairs]


def trl_speeds(config: TrainConfig, task: ExactMatchTask) -> None:
    """Print, step by step, the milliseconds of TRL's step, of ``generate`` in it, and of all that follows the
    advantages: loss, update, metrics. Medians of the steps so far.

    Gradient checkpointing, its default, is off: it saves memory that is not short here.
    """
    watch = Watch()
    model = make_model(task, seed=2, preset=config.preset)
    model.generate = watch.over("rollout", model.generate)
    examples = task.sample(STEPS * config.prompts, torch.Generator().manual_seed(0))
    rows = [
        dict(prompt=task.vocabulary.decode(prompt), answer=answer)
        for prompt, answer in zip(examples.prompts, examples.answers.tolist(), strict=True)
    ]
    sequences, length = config.prompts * config.group_size, task.max_response_length
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[share_right],
            args=settings(
                *(folder, sequences, config.group_size, STEPS, length, LEARNING_RATE, False),
                bf16=config.precision == "bfloat16",
                use_cpu=False,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=make_tokenizer(task.vocabulary),
            callbacks=[watch],
        )
        before = "_generate_and_score_completions"
        setattr(trainer, before, watch.over("before the update", getattr(trainer, before)))
        assert model.device.type == "cuda"
        trainer.remove_callback(PrinterCallback)
        trainer.train()
