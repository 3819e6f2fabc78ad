"""A tiny Llama with random weights, and a tokenizer of single characters: what the tests of a real model share."""

# pyright: reportMissingImports=false, reportArgumentType=false

from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlnotes.bridge.real.config import RealConfig

CHARACTERS = " 0123456789+=?.,-'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\":()>"
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}{{ eos_token }}{% endif %}"
)


def tokenizer(characters: str = CHARACTERS, template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """One token for each of ``characters``; none pads."""
    ids = {character: i for i, character in enumerate(["<eos>", "<unk>", *characters])}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.decoder = decoders.Fuse()
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>", unk_token="<unk>")
    found.chat_template = template
    return found


def model(**changed: Any) -> LlamaForCausalLM:
    """Two layers, with distributions far from uniform. The same each time."""
    shape = dict(
        vocab_size=len(CHARACTERS) + 2,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=160,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = LlamaForCausalLM(LlamaConfig(**shape | changed)).eval()
        with torch.no_grad():
            for weight in made.parameters():
                if weight.dim() == 2:
                    weight.normal_(0, 0.3)
    return made


def folder(place: Path, characters: str = CHARACTERS, template: str | None = TEMPLATE, **changed: Any) -> str:
    """The path of a model and its tokenizer, saved at ``place``."""
    model(**changed).save_pretrained(place)
    tokenizer(characters, template).save_pretrained(place)
    return str(place)


def config(place: str, **changed: Any) -> RealConfig:
    """Three small steps on the CPU."""
    small: dict[str, Any] = dict(
        steps=3, prompts=2, group_size=4, length=6, heldout=3, learning_rate=1e-3, device="cpu"
    )
    return RealConfig(place, **small | dict(paid="format", warmup_updates=0) | changed)
