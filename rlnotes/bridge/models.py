"""A small causal LM of Hugging Face on a task: supervised warm start, and evaluation.

Any model and tokenizer will do, also one that ``from_pretrained`` loaded from a local folder.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false
# transformers is optional: where it is missing, its types are unknown and the rest is checked all the same. The other
# two are about how it types what its own manual does with tokenizers and generate.

import torch
from torch import Tensor
from torch.nn import functional as F

from rlnotes.bridge.extra import missing
from rlnotes.bridge.tasks import prompt_dataset, task_reward
from rlnotes.lm.tasks import Split, Task

try:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
except ModuleNotFoundError as error:
    raise missing(error) from error

UNSCORED = -100  # a label that no loss counts


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    target: float,
    seed: int = 0,
    batch: int = 64,
    learning_rate: float = 2e-3,
    most_updates: int = 2000,
) -> float:
    """Imitate right answers until ``target`` of sampled answers to training prompts are right; returns that share.

    It is measured every 10 updates on 256 prompts. Raises ``RuntimeError`` if ``most_updates`` do not get there.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, (0.9, 0.98), weight_decay=0.0)
    accuracy = 0.0
    for update in range(1, most_updates + 1):
        tokens, labels = examples(task, tokenizer, batch, generator)
        tokens, labels = tokens.to(model.device), labels.to(model.device)
        logits = model(input_ids=tokens).logits[:, :-1]  # pads stand at the end, where no token attends to them
        F.cross_entropy(logits.flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=UNSCORED).backward()
        optimizer.step()
        optimizer.zero_grad()
        if update % 10 == 0:
            accuracy = evaluate(model, tokenizer, task, 256, "train", seed)
            if accuracy >= target:
                return accuracy
    raise RuntimeError(
        f"after {most_updates} updates {accuracy:.0%} of sampled answers are right, and {target:.0%} were asked for; "
        "allow most_updates to be larger, or lower the target"
    )


def examples(
    task: Task, tokenizer: PreTrainedTokenizerBase, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Tokens (n, L) of prompts with right answers and EOS, and labels (n, L) that leave out the prompts and pads."""
    drawn = task.sample(n, generator)
    asked = tokenizer([task.vocabulary.decode(row) for row in drawn.prompts])["input_ids"]
    answered = tokenizer([task.vocabulary.decode(row) for row in drawn.answers], add_special_tokens=False)["input_ids"]
    length = max(len(a) + len(b) for a, b in zip(asked, answered, strict=True)) + 1
    tokens = torch.full((n, length), tokenizer.eos_token_id)
    labels = torch.full((n, length), UNSCORED)
    for row, (prompt, answer) in enumerate(zip(asked, answered, strict=True)):
        own = slice(len(prompt), len(prompt) + len(answer) + 1)
        tokens[row, : own.stop - 1] = torch.tensor(prompt + answer)
        labels[row, own] = tokens[row, own]
    return tokens, labels


@torch.no_grad()
def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    prompts: int = 512,
    split: Split = "heldout",
    seed: int = 0,
) -> float:
    """Mean reward of one answer, sampled at temperature 1, to each of ``prompts`` prompts.

    Reproducible for one ``seed``: prompts and answers come from generators of their own.
    """
    texts = list(prompt_dataset(task, prompts, torch.Generator().manual_seed(seed), split)["prompt"])
    asked = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left").to(model.device)
    training = model.training
    model.eval()
    generator = torch.Generator(model.device).manual_seed(seed)
    written = sample(model, asked["input_ids"], asked["attention_mask"], task.max_response_length, generator)
    model.train(training)
    ids = [up_to(row, tokenizer.eos_token_id) for row in written.tolist()]
    completions = tokenizer.batch_decode(ids, skip_special_tokens=True)
    rewards = task_reward(task, tokenizer)(prompts=texts, completions=completions, completion_ids=ids)
    return sum(rewards) / len(rewards)


@torch.no_grad()
def sample(model: PreTrainedModel, prompts: Tensor, mask: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """``length`` tokens (n, length) after each of ``prompts`` (n, P), what comes after an EOS included.

    ``mask`` (n, P) is 0 on pads, which stand on the left. transformers' ``generate`` draws from the global generator,
    so it is no use here. Every token costs a pass over all before it, which is little for answers of a task.
    """
    tokens = prompts
    for _ in range(length):
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        out = model(input_ids=tokens, attention_mask=mask, position_ids=places, use_cache=False)
        drawn = torch.multinomial(out.logits[:, -1].float().softmax(-1), 1, generator=generator)
        tokens, mask = torch.cat([tokens, drawn], 1), torch.cat([mask, torch.ones_like(drawn)], 1)
    return tokens[:, prompts.shape[1] :]


def up_to(ids: list[int], last: int) -> list[int]:
    """``ids`` until the first ``last``, which is kept."""
    return ids[: ids.index(last) + 1] if last in ids else ids
