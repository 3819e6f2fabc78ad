"""Passes of a transformers model: a prompt is read once, and all its responses go on from there."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false
# as in models.py

import inspect
from typing import Any

import torch
from torch import Tensor

from rlnotes.bridge.extra import missing
from rlnotes.lm.rollout import Rollout

try:
    from transformers import DynamicCache, PreTrainedModel
except ModuleNotFoundError as error:
    raise missing(error, "a real model", "real") from error


def positions(mask: Tensor) -> Tensor:
    """Places (N, n) of tokens whose ``mask`` (N, n) is False on left pads, which are at 0."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def forward(
    model: PreTrainedModel, tokens: Tensor, allowed: Tensor, places: Tensor, cache: Any, keep: int = 0
) -> Tensor:
    """Logits (N, k, V) behind the last ``keep`` of ``tokens`` (N, n), or all; keys and values go to ``cache``.

    ``allowed`` (N, 1, n, m) bool: what each token reads. ``places`` (N, n) are the tokens' positions.
    """
    names = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in names else "past_key_values"  # its name in older versions
    return model(
        input_ids=tokens,
        attention_mask=allowed,
        position_ids=places,
        use_cache=True,
        logits_to_keep=keep,
        **{name: cache},
    ).logits


def read_prompts(model: PreTrainedModel, prompts: Tensor, mask: Tensor) -> tuple[Any, Tensor]:
    """Keys and values of ``prompts`` (B, P), and logits (B, 1, V) of what follows. ``mask`` is False on left pads."""
    cache: Any = DynamicCache()
    earlier = torch.ones(prompts.shape[1], prompts.shape[1], dtype=torch.bool, device=prompts.device).tril()
    itself = torch.eye(prompts.shape[1], dtype=torch.bool, device=prompts.device)  # a pad must read something
    allowed = (earlier & mask[:, None, None, :]) | itself
    return cache, forward(model, prompts, allowed, positions(mask), cache, 1)


def response_logits(model: PreTrainedModel, rollout: Rollout, dtype: torch.dtype) -> Tensor:
    """Logits (N, T, V) at every response position, float32, with gradients. Each prompt is read once."""
    assert rollout.prompt_mask is not None
    g, (_, t), p = rollout.group_size, rollout.tokens.shape, rollout.prompts.shape[1]
    with torch.autocast(rollout.tokens.device.type, dtype, enabled=dtype != torch.float32):
        cache, last = read_prompts(model, rollout.prompts, rollout.prompt_mask)
        logits = last.repeat_interleave(g, 0)
        if t > 1:
            for layer in cache.layers:
                layer.keys, layer.values = (one.repeat_interleave(g, 0) for one in (layer.keys, layer.values))
            seen = torch.cat([rollout.prompt_mask.repeat_interleave(g, 0), torch.ones_like(rollout.mask[:, 1:])], 1)
            earlier = torch.ones(t - 1, p + t - 1, dtype=torch.bool, device=seen.device).tril(p)
            allowed = earlier & seen[:, None, None, :]
            rest = forward(model, rollout.tokens[:, :-1], allowed, positions(seen)[:, p:], cache)
            logits = torch.cat([logits, rest], 1)
    return logits.float()
