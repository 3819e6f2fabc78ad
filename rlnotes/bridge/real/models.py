"""A causal language model and its tokenizer from a folder or a GGUF file, and weights on a grid of few bits."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false
# transformers is optional: where it is missing, its types are unknown and the rest is checked all the same. The other
# two are about how it types what its own manual does.

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import nn

from rlnotes.bridge.extra import missing
from rlnotes.lm.quantize import GROUP, cells

try:
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        modeling_gguf_pytorch_utils,
    )
    from transformers.utils import logging
except ModuleNotFoundError as error:
    raise missing(error, "a real model", "real") from error


class Loaded(NamedTuple):
    """What a run begins with."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load(place: str) -> Loaded:
    """The model in float32, and its tokenizer, from the folder or the GGUF file ``place``. Nothing is downloaded.

    What a GGUF file holds in few bits is multiplied out, and the model can be saved. Raises ``ValueError`` for a place
    that holds no such model, or a tokenizer that knows no end of a text; ``ImportError`` for a GGUF file without the
    package that reads it.
    """
    folder, options = _place(place)
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # the bar of a GGUF file's tensors is a plain one, which knows of no setting; the library's own obeys
    bar = patch.object(modeling_gguf_pytorch_utils, "tqdm", logging.tqdm, create=True)
    bar.start()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **options)
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ValueError(f"model {place} is no causal language model that transformers can read: {first}") from error
    finally:
        bar.stop()
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    if tokenizer.eos_token_id is None:
        raise ValueError(f"the tokenizer of {place} has no token that ends a text; set its eos_token, save it again")
    tokenizer.clean_up_tokenization_spaces = False  # transformers ignores it for BPE, and says so at the first decoding
    return Loaded(_plain(model) if options else model, tokenizer)


def _place(place: str) -> tuple[Path, dict[str, Any]]:
    """The folder, and for a GGUF file what transformers is told besides."""
    path = Path(place)
    if not path.exists():
        raise ValueError(f"model {place} does not exist; give a folder that save_pretrained wrote, or a GGUF file")
    files = [path] if path.is_file() else [] if (path / "config.json").exists() else sorted(path.glob("*.gguf"))
    if path.is_dir() and (path / "config.json").exists():
        return path, {}
    if len(files) != 1 or files[0].suffix != ".gguf":
        raise ValueError(
            f"model {place} holds neither a config.json nor one GGUF file; give a folder that save_pretrained wrote, "
            "or the GGUF file itself"
        )
    for name in ("gguf", "accelerate"):
        if importlib.util.find_spec(name) is None:
            raise missing(ModuleNotFoundError(name=name), "a GGUF file", "real")
    return files[0].parent, dict(gguf_file=files[0].name)


def _plain(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, which does not say that it is quantised: transformers would not save that."""
    config: Any = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = type(model)(config)
    fresh.load_state_dict(model.state_dict())
    return fresh.eval()


def matrices(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """The linear layers by name, but for the one that gives the logits."""
    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    return ((name, one) for name, one in model.named_modules() if isinstance(one, nn.Linear) and one is not head)


@torch.no_grad()
def spread(model: nn.Module, bits: int, generator: torch.Generator) -> None:
    """Move each weight of the linear layers at random, uniformly within its cell, as if it had never been rounded.

    A file of few bits has every weight on its grid: a copy rounded to as many bits would be the model itself, and small
    updates would move it only with the ends of the grids. After the move the grids are fitted anew, so that the copy is
    neither the model nor the file.
    """
    for _, layer in matrices(model):
        _, step = cells(layer.weight, bits)
        noise = torch.rand(layer.weight.shape, generator=generator).to(layer.weight.device) - 0.5
        layer.weight += (noise.unflatten(-1, (-1, GROUP)) * step).flatten(-2)
