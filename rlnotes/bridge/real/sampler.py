"""The sampler's own copy of the model, and one token at a time for all responses: on a GPU a graph, recorded once."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false
# as in models.py

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from rlnotes.bridge.extra import missing
from rlnotes.bridge.real.config import Rounded
from rlnotes.bridge.real.models import matrices
from rlnotes.bridge.real.passes import forward, positions, read_prompts
from rlnotes.lm.operations import operations
from rlnotes.lm.quantize import rounded_in_groups
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.sampler import taken

try:
    from transformers import Cache, PreTrainedModel
    from transformers.cache_utils import StaticLayer
except ModuleNotFoundError as error:
    raise missing(error, "a real model", "real") from error

BITS: dict[Rounded, int] = {"int8": 8, "int4": 4}
REHEARSALS = 2  # of a recording: as many tokens as the shortest response may have


class Sampler:
    """mu: a copy of the model that writes ``length`` tokens at most, and records the log-probability of each.

    :meth:`refresh` gives it the model's weights, rounded to ``weights``; until then it is as old as it is. It computes
    what the trainer computes, so that mu is pi up to the order of sums where nothing is rounded: matrices in ``dtype``,
    all else in float32. Tokens come from ``generator``, on the model's device. On a GPU the work of one token is
    recorded, once ``rlnotes.gpu`` was imported, and done in one go.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        length: int,
        eos: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        weights: Rounded = "float32",
        temperature: float = 1.0,
    ):
        self.length, self.eos, self.generator, self.dtype = length, eos, generator, dtype
        self.transform = SamplingTransform(temperature)
        self.bits = BITS.get(weights)
        self.copy = copy.deepcopy(model).requires_grad_(False)
        self.rounded = {f"{name}.weight" for name, _ in matrices(self.copy)} if self.bits else set()
        for layer in self.copy.modules():
            if isinstance(layer, nn.Linear):  # a parameter of its own, also where it was the embedding's
                layer.weight = nn.Parameter(layer.weight.to(dtype), requires_grad=False)
        self.decoders: dict[tuple[int, int], Decoder] = {}
        self.version = 0
        self.refresh(model, 0)

    @torch.no_grad()
    def refresh(self, model: PreTrainedModel, version: int) -> None:
        """Take the weights of ``model``, which has ``version`` updates behind it."""
        self.version = version
        newest = dict(model.named_parameters(remove_duplicate=False))
        for name, own in self.copy.named_parameters(remove_duplicate=False):
            weight = newest[name].detach()
            own.copy_(rounded_in_groups(weight, self.bits) if self.bits and name in self.rounded else weight)

    @torch.no_grad()
    def sample(self, prompts: Tensor, mask: Tensor, group_size: int, greedy: bool = False) -> Rollout:
        """``group_size`` responses to each of ``prompts`` (B, P), whose ``mask`` is False on left pads.

        ``greedy`` takes the likeliest token each time. Raises ``ValueError`` if the model gives no distribution.
        """
        b, p = prompts.shape
        n = b * group_size
        if (n, p) not in self.decoders:
            self.decoders[n, p] = Decoder(self, n, p)
        tokens, logp = self.decoders[n, p].write(prompts, mask, group_size, greedy)
        own = response_mask(tokens, self.eos)
        if not bool(logp[own].isfinite().all()):
            raise ValueError(
                "the model gives no distribution to sample from: its logits are no finite numbers; the weights have "
                "diverged, so go back to the last checkpoint with a smaller learning rate"
            )
        return Rollout(
            prompts=prompts,
            group=torch.arange(b, device=prompts.device).repeat_interleave(group_size),
            tokens=tokens.where(own, self.eos),
            mask=own,
            logp_behavior=logp.where(own, 0.0),
            version=torch.full_like(tokens, self.version),
            transform=self.transform,
            prompt_mask=mask,
        )


class Kept(StaticLayer):
    """Keys and values (n, heads, m, d) of a layer, in tensors that stay where they are; new ones go to ``place``."""

    keys: Any  # narrower than the class above has them
    values: Any

    def __init__(self, keys: Tensor, values: Tensor, place: Tensor):
        super().__init__(max_cache_len=keys.shape[2])
        self.keys, self.values, self.place = keys, values, place
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All that there are, with those of one more token."""
        self.keys.index_copy_(2, self.place, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self.place, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_seq_length(self, *_: Any) -> int:
        """Asked by models that would make a mask: here one is given."""
        return 0


class Decoder:
    """``n`` responses to prompts of ``width`` tokens, written side by side. All state stays where it is."""

    def __init__(self, sampler: Sampler, n: int, width: int):
        device, length = sampler.generator.device, sampler.length
        self.sampler, self.width = sampler, width
        self.tokens = torch.full((n, length), sampler.eos, device=device)
        self.logp = torch.zeros(n, length, device=device)
        self.token = torch.zeros(n, 1, dtype=torch.long, device=device)
        self.allowed = torch.zeros(n, 1, 1, -(-(width + length) // 8) * 8, dtype=torch.bool, device=device)
        self.places = torch.zeros(n, 1, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)  # of the next token in a response
        self.place = torch.zeros(1, dtype=torch.long, device=device)  # and in the cache
        self.noise = torch.ones((), device=device)  # 0: the likeliest
        self.logits: Tensor | None = None
        self.cache: Any = None
        self.replay: Any = None  # one token, recorded

    def write(self, prompts: Tensor, mask: Tensor, group_size: int, greedy: bool) -> tuple[Tensor, Tensor]:
        """Tokens and log-probabilities (n, T), up to the longest response; what stands behind an end means nothing."""
        with torch.autocast(prompts.device.type, self.sampler.dtype, enabled=self.mixed):
            cache, logits = read_prompts(self.sampler.copy, prompts, mask)
        self.noise.fill_(0.0 if greedy else 1.0)
        self._begin(cache, logits, mask, group_size)
        if prompts.device.type == "cuda" and self.replay is None:
            self.replay = self._recorded()
            self._begin(cache, logits, mask, group_size)
        for length in range(1, self.sampler.length):
            if self.replay:
                self.replay()
            else:
                self._draw()
            if bool((self.tokens[:, :length] == self.sampler.eos).any(1).all()):
                return self.tokens[:, :length].clone(), self.logp[:, :length].clone()
            if not self.replay:
                self._read()
        self._draw()
        return self.tokens.clone(), self.logp.clone()

    @property
    def mixed(self) -> bool:
        """Whether matrices are multiplied in less than float32."""
        return self.sampler.dtype != torch.float32

    def _begin(self, cache: Any, logits: Tensor, mask: Tensor, group_size: int) -> None:
        """Stand behind the prompts, which ``cache`` holds."""
        if self.cache is None or self.logits is None:
            self.cache = Cache(layers=[self._layer(layer, group_size) for layer in cache.layers])
            self.logits = torch.empty(len(self.tokens), logits.shape[-1], device=logits.device)
        for own, layer in zip(self.cache.layers, cache.layers, strict=True):
            for kept, read in ((own.keys, layer.keys), (own.values, layer.values)):
                kept[:, :, : self.width] = read.repeat_interleave(group_size, 0)
        self.logits.copy_(logits[:, -1].repeat_interleave(group_size, 0))
        self.allowed.zero_()
        self.allowed[..., : self.width] = mask.repeat_interleave(group_size, 0)[:, None, None, :]
        self.places.copy_(positions(mask)[:, -1:].repeat_interleave(group_size, 0) + 1)
        self.at.zero_()
        self.place.fill_(self.width)

    def _layer(self, layer: Any, group_size: int) -> Kept:
        shape = list(layer.keys.shape)
        shape[0], shape[2] = shape[0] * group_size, self.allowed.shape[-1]
        keys = torch.zeros(shape, dtype=self.sampler.dtype, device=layer.keys.device)
        return Kept(keys, torch.zeros_like(keys), self.place)

    def _recorded(self) -> Any:
        """One token as a graph, or False, with a warning, where that cannot be."""
        try:
            return operations().recorded(self._draw_and_read, self.sampler.generator, rehearsals=REHEARSALS)
        except RuntimeError as error:
            warnings.warn(f"sampling is not recorded as a CUDA graph, and slower: {error}", stacklevel=2)
            return False

    def _draw_and_read(self) -> Tensor:
        self._draw()
        return self._read()

    def _draw(self) -> None:
        """One token of each response."""
        assert self.logits is not None
        log_probs = self.sampler.transform.log_probs(self.logits)
        # Gumbel-max: argmax of log p + Gumbel noise is a draw from p, and needs no synchronisation
        noise = torch.empty_like(log_probs).exponential_(generator=self.sampler.generator)
        self.token.copy_((log_probs - noise.log_() * self.noise).argmax(-1, keepdim=True))
        self.tokens.index_copy_(1, self.at, self.token)
        self.logp.index_copy_(1, self.at, taken(log_probs[:, None], self.token))

    def _read(self) -> Tensor:
        """Go on behind it."""
        assert self.logits is not None
        self.allowed.index_fill_(3, self.place, True)
        # without a cache of casts: a graph would go on reading it when it is gone
        with torch.autocast(self.token.device.type, self.sampler.dtype, enabled=self.mixed, cache_enabled=False):
            logits = forward(self.sampler.copy, self.token, self.allowed, self.places, self.cache, 1)
        self.logits.copy_(logits[:, -1])
        for place in (self.at, self.place, self.places):
            place += 1
        return self.logits
