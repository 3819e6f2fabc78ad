"""Questions with checkable answers for TRL: a dataset of conversations, and the reward function that belongs to it.

    loaded = load("model")  # rlnotes.bridge.real.models: a folder, or a GGUF file
    data, reward = for_trl("add", 4096, torch.Generator().manual_seed(0))
    trainer = RecipeTrainer(
        recipe="grpo",
        model=loaded.model,
        processing_class=loaded.tokenizer,
        reward_funcs=reward,
        train_dataset=data,
        args=GRPOConfig("runs/trl", num_generations=16, max_completion_length=16, learning_rate=1e-5),
    )
    trainer.train()

Tested with a tiny Llama on a CPU; a run of a whole model through TRL was not made.
"""

# pyright: reportMissingImports=false
# TRL's datasets are optional: where they are missing, their types are unknown and the rest is checked all the same.

from collections.abc import Callable
from itertools import islice, repeat
from typing import Any

import torch

from rlnotes.bridge.extra import missing
from rlnotes.bridge.real.config import Paid
from rlnotes.bridge.real.questions import part, questions, reward
from rlnotes.lm.tasks import Split

try:
    from datasets import Dataset
except ModuleNotFoundError as error:
    raise missing(error) from error

Conversation = list[dict[str, str]]


def for_trl(
    task: str, n: int, generator: torch.Generator, split: Split = "train", paid: Paid = "right"
) -> tuple[Dataset, Callable[..., list[float]]]:
    """``n`` questions of a part of ``task``, a name of :data:`rlnotes.bridge.real.questions.TASKS`, in a column
    ``prompt``; and what TRL's trainer asks for the rewards of responses to them, in [0, 1].

    ``generator`` lives on the CPU. Raises ``ValueError`` for an unknown task.
    """
    source = questions(task)
    of_part = (one for one in map(source.ask, repeat(generator)) if part(one) == split)
    asked = list(islice(of_part, n))
    by_text = {one.text: one for one in asked}

    def rewards(prompts: list[Conversation], completions: list[Conversation], **_: Any) -> list[float]:
        pairs = zip(prompts, completions, strict=True)
        return [reward(source, by_text[prompt[-1]["content"]], said[0]["content"], paid) for prompt, said in pairs]

    rewards.__name__ = task
    return Dataset.from_dict(dict(prompt=[[dict(role="user", content=one.text)] for one in asked])), rewards
