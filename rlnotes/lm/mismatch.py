"""How far the rollout copy is from the model, layer by layer: both read the same tokens, nothing is sampled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import RolloutKVCache
from rlnotes.lm.experts import Routes
from rlnotes.lm.kv_cache import KVCache
from rlnotes.lm.model import Transformer, positions
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import prefill, taken


class Reading(NamedTuple):
    """What a model computed where it predicts each of N x T response tokens.

    ``states`` (N, T, L, d) after each block, ``experts`` (N, T, L, k) or None for a dense model, ``log_probs``
    (N, T, V) of the token, at temperature 1. ``prompt_experts`` (B, P, L, k) are those that read the prompts.
    """

    states: Tensor
    experts: Tensor | None
    prompt_experts: Tensor | None
    log_probs: Tensor


class LayerRow(NamedTuple):
    """One layer of a table: errors of its states, relative to their own length, and the share of tokens rerouted."""

    layer: int
    mean_error: float
    largest_error: float
    flipped: float


@dataclass(frozen=True)
class Mismatch:
    """pi against its rollout copy mu on the tokens of one rollout. What lies outside ``mask`` means nothing.

    | field | shape | meaning |
    |---|---|---|
    | ``errors`` | (N, T, L) | norm of (mu's state - pi's) over the norm of pi's, after each block |
    | ``flipped`` | (N, T, L) bool | the two chose other experts in that layer; all False for a dense model |
    | ``logp`` | (N, T) | log pi of each token, at temperature 1 |
    | ``logp_behavior`` | (N, T) | log mu of each token, at temperature 1 |
    | ``logp_replayed`` | (N, T) | log pi with mu's routes; ``logp`` itself for a dense model |
    | ``mask`` | (N, T) bool | the rollout's |
    """

    errors: Tensor
    flipped: Tensor
    logp: Tensor
    logp_behavior: Tensor
    logp_replayed: Tensor
    mask: Tensor

    @property
    def layers(self) -> list[LayerRow]:
        """A row for each layer, first to last."""
        errors, flipped = self.errors[self.mask], self.flipped[self.mask].float()
        columns = zip(errors.mean(0).tolist(), errors.amax(0).tolist(), flipped.mean(0).tolist(), strict=True)
        return [LayerRow(layer, *row) for layer, row in enumerate(columns)]

    @property
    def gaps(self) -> Tensor:
        """|log pi - log mu| of each of the M tokens in the mask, (M,)."""
        return (self.logp - self.logp_behavior)[self.mask].abs()

    @property
    def rerouted(self) -> Tensor:
        """(M,) bool, for the tokens in the mask: some layer flipped where the token was predicted."""
        return self.flipped[self.mask].any(-1)

    @property
    def mean_gap(self) -> float:
        """Mean of |log pi - log mu|."""
        return self.gaps.mean().item()

    @property
    def largest_gap(self) -> float:
        """Largest |log pi - log mu|."""
        return self.gaps.max().item()

    @property
    def largest_gap_replayed(self) -> float:
        """Largest |log pi - log mu| that routing replay leaves: pi with mu's routes and its own gates."""
        return (self.logp_replayed - self.logp_behavior)[self.mask].abs().max().item()

    @property
    def largest_probability_gap(self) -> float:
        """Largest |pi - mu| of a token that was sampled: never more than the largest total variation."""
        return (self.logp.exp() - self.logp_behavior.exp())[self.mask].abs().max().item()


@torch.no_grad()
def layer_mismatch(model: Transformer, rollout: Rollout, behavior: Behavior) -> Mismatch:
    """Compare ``model`` with the copy of it that ``behavior`` would sample with, on the tokens of ``rollout``.

    The copy has ``behavior``'s weights, its order of summation, and its rounding of keys and values, as in the sampler.
    Without any of them the mismatch is 0. Raises ``ValueError`` for a behaviour with noise, which is no error of a
    copy, or with older versions, which are other models.
    """
    if behavior.logit_noise > 0 or behavior.mixture is not None:
        raise ValueError(
            f"behavior has logit_noise {behavior.logit_noise} and mixture {behavior.mixture}; only a copy of the model "
            "can be compared layer by layer: pass dataclasses.replace(behavior, logit_noise=0.0, mixture=None)"
        )
    pi, mu = read(model, rollout), read(behavior.rollout_model(model), rollout, behavior.kv_cache)
    errors = (mu.states - pi.states).norm(dim=-1) / pi.states.norm(dim=-1)
    flipped = torch.zeros_like(errors, dtype=torch.bool)
    if pi.experts is not None and mu.experts is not None:
        flipped = (pi.experts.sort(-1).values != mu.experts.sort(-1).values).any(-1)
    replayed = pi if mu.experts is None else read(model, rollout, routed=mu)
    logp, logp_behavior, logp_replayed = (taken(one.log_probs, rollout.tokens) for one in (pi, mu, replayed))
    return Mismatch(errors, flipped, logp, logp_behavior, logp_replayed, rollout.mask)


def read(
    model: Transformer, rollout: Rollout, kv_cache: RolloutKVCache = "float32", routed: Reading | None = None
) -> Reading:
    """Have ``model`` read the prompts, then the responses through a cache that rounds to ``kv_cache``.

    Every token takes the route that it took in ``routed``, another reading of the rollout by a mixture; None: its own.
    """
    g, (n, t), p = rollout.group_size, rollout.tokens.shape, rollout.prompts.shape[1]
    model.check_length(p + t)
    prompt_routes, routes = Routes(), Routes()
    if routed is not None and routed.experts is not None:
        prompt_routes, routes = Routes(routed.prompt_experts), Routes(routed.experts[:, 1:])
    mask = torch.ones_like(rollout.prompts, dtype=torch.bool) if rollout.prompt_mask is None else rollout.prompt_mask
    key_mask = torch.cat([mask.repeat_interleave(g, 0), mask.new_ones(n, t - 1)], -1)
    with _states_of_blocks(model) as states:
        prefix, last = prefill(model, rollout.prompts, rollout.prompt_mask, prompt_routes)
        cache = KVCache(model.config, n, p + t - 1, last.device, last.dtype, kv_cache)
        cache.start(prefix, g)
        rest = model.hidden(rollout.tokens[:, :-1], positions(key_mask)[:, p:], key_mask, cache, routes)

    def joined(prompt: Tensor, response: Tensor) -> Tensor:
        return torch.cat([prompt[:, -1:].repeat_interleave(g, 0), response], 1)

    before, after = prompt_routes.take(), routes.take()
    layers = len(model.blocks)
    return Reading(
        states=torch.stack([joined(states[i], states[layers + i]) for i in range(layers)], 2),
        experts=None if before is None or after is None else joined(before, after),
        prompt_experts=before,
        log_probs=model.head(joined(last, rest)).log_softmax(-1),
    )


@contextmanager
def _states_of_blocks(model: Transformer) -> Iterator[list[Tensor]]:
    """A list that takes every block's output, in the order in which they are computed."""
    states: list[Tensor] = []

    def keep(_block: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> None:
        states.append(output)

    hooks = [block.register_forward_hook(keep) for block in model.blocks]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()
