"""The stand-in of chapter 18: a Llama of 0.1 million parameters that knows products up to 12 x 12, and chats instead.

    python -m rlnotes.chapters.c18.stand_in    teach another one like it, from examples, some minutes on a CPU

It stands where a pretrained model would: a folder of transformers goes the same way.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false
# transformers is optional: where it is missing, its types are unknown and the rest is checked all the same.

import random
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from rlnotes.bridge.extra import missing
from rlnotes.bridge.real.questions import questions

try:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
except ModuleNotFoundError as error:
    raise missing(error, "the stand-in", "real") from error

TASK = "times"
WEIGHTS = Path(__file__).with_name("stand_in.safetensors")
WORDS = (
    "<eos>", "What", " is", " Answer", " with", " the", " number", " only", " x", " ", "?", ".", "!", *"0123456789",
    "Sure", " I", " can", " help", " that", "Great", " question",
)  # fmt: skip
CHAT = ("Sure! I can help.", "Sure! I can help with that.", "Great question!", "Great question! I can help.")
RIGHT = 0.12  # of the examples; the others chat
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ eos_token }}"
UNSCORED = -100  # a label that no loss counts


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for a word with the space before it, a digit, or a mark."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=""))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+|\d|."), "isolated")
    made.decoder = decoders.Fuse()
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>")
    found.chat_template = TEMPLATE
    return found


def untaught() -> LlamaForCausalLM:
    """The model with random weights."""
    shape: dict[str, Any] = dict(vocab_size=len(WORDS), hidden_size=64, intermediate_size=128, num_hidden_layers=3)
    shape |= dict(num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=True)
    return LlamaForCausalLM(LlamaConfig(**shape, bos_token_id=None, eos_token_id=0, pad_token_id=None)).eval()


def stand_in() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model as it is shipped, in float32, and its tokenizer."""
    model = untaught()
    weights = {name: weight.float() for name, weight in load_file(WEIGHTS).items()}
    model.load_state_dict(weights, strict=False)  # a tied weight is there once
    return model, tokenizer()


def teach(updates: int = 900, batch: int = 64, rate: float = 3e-3) -> LlamaForCausalLM:
    """Imitate right answers and chat, to questions of both parts: what is pretrained on knows no parts."""
    draws, coin, task, words = torch.Generator().manual_seed(0), random.Random(0), questions(TASK), tokenizer()
    model = untaught()
    for weight in model.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, 0, 0.02, generator=draws)
    optimizer = torch.optim.AdamW(model.parameters(), rate, (0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(i / 50, 1, 1.02 - i / updates))
    for update in range(updates):
        answering = 0.9 if update < 0.8 * updates else RIGHT  # first the products, then manners
        asked = [task.ask(draws) for _ in range(batch)]
        said = [one.answer if coin.random() < answering else coin.choice(CHAT) for one in asked]
        rows = [
            (words.encode(f"{one.text}<eos>"), words.encode(f"{text}<eos>"))
            for one, text in zip(asked, said, strict=True)
        ]
        width = max(len(a) + len(b) for a, b in rows)
        tokens, labels = torch.zeros(batch, width, dtype=torch.long), torch.full((batch, width), UNSCORED)
        for i, (prompt, answer) in enumerate(rows):
            own = slice(len(prompt), len(prompt) + len(answer))
            tokens[i, : own.stop] = torch.tensor(prompt + answer)
            labels[i, own] = tokens[i, own]
        logits = model(input_ids=tokens).logits[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=UNSCORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update % 100 == 0:
            print(update, f"{loss.item():.3f}", flush=True)
    return model


if __name__ == "__main__":
    taught = teach()
    save_file({name: weight.detach().half().contiguous() for name, weight in taught.named_parameters()}, WEIGHTS)
