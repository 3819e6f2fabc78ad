"""A task of :mod:`rlnotes.lm.tasks` as TRL wants it: a tokenizer, a dataset of prompts, and a reward function.

    task = make_task("reverse")
    trainer = RecipeTrainer(
        recipe="trm",
        model="runs/warm",  # a folder that save_pretrained wrote
        reward_funcs=task_reward(task, tokenizer := make_tokenizer(task.vocabulary)),
        train_dataset=prompt_dataset(task, 4096, torch.Generator().manual_seed(0)),
        processing_class=tokenizer,
        args=GRPOConfig("runs/trm", max_completion_length=task.max_response_length),
    )

Prompts and rewards go by text, so another tokenizer will do as well.
"""

# pyright: reportMissingImports=false
# transformers is optional: where it is missing, its types are unknown and the rest is checked all the same.

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlnotes.bridge.extra import missing
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Split, Task, Vocabulary

try:
    from datasets import Dataset
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
except ModuleNotFoundError as error:
    raise missing(error) from error

Reward = Callable[..., list[float]]


def make_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """One token per character, with the ids of ``vocabulary``; its EOS also pads. Pads stand on the left.

    A character that ``vocabulary`` lacks raises an error when it is encoded; there is no token for the unknown.
    """
    ids = {character: i for i, character in enumerate(vocabulary.characters)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    eos = vocabulary.characters[vocabulary.eos]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=eos,
        pad_token=eos,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def prompt_dataset(task: Task, n: int, generator: torch.Generator, split: Split = "train") -> Dataset:
    """``n`` prompts of ``split`` in a column ``prompt``, as text. ``generator`` lives on the CPU."""
    prompts = task.sample(n, generator, split).prompts
    return Dataset.from_dict(dict(prompt=[task.vocabulary.decode(prompt) for prompt in prompts]))


def task_reward(task: Task, tokenizer: PreTrainedTokenizerBase) -> Reward:
    """A reward function for TRL: what ``task.reward`` gives to each completion.

    Completions that are too long for the task, or hold a character that it does not know, get 0. They end where the
    model wrote the EOS token of ``tokenizer``. Raises ``ValueError`` for prompts that are conversations.
    """

    def reward(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        if not isinstance(prompts[0], str):
            raise ValueError(f"prompts[0] is {prompts[0]!r}; a task has plain text: take its prompt_dataset")
        rows = [
            _response(task, text, ended=ids[-1] == tokenizer.eos_token_id)
            for text, ids in zip(completions, completion_ids, strict=True)
        ]
        possible = [i for i, row in enumerate(rows) if row is not None]
        rewards = torch.zeros(len(rows))
        if possible:
            asked = torch.tensor([task.vocabulary.encode(prompts[i]) for i in possible])
            answered = torch.stack([row for row in rows if row is not None])
            rewards[possible] = task.reward(Rollout.of_responses(asked, answered, task.vocabulary.eos))
        return rewards.tolist()

    reward.__name__ = type(task).__name__.lower()
    return reward


def _response(task: Task, text: str, ended: bool) -> Tensor | None:
    """Tokens (T,) of the task for a completion, EOS to the end if it ``ended``; None if it cannot be one."""
    known, eos = task.vocabulary.characters, task.vocabulary.eos
    length = task.max_response_length
    if len(text) + ended > length or not set(text) <= set(known) - {known[eos]}:
        return None
    if not ended and len(text) < length:
        return None  # cut off in the middle by another tokenizer's count: no answer
    return torch.tensor(task.vocabulary.encode(text) + [eos] * (length - len(text)))
