"""Sampling responses and scoring them again, by one model and one definition of the distribution."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

import torch
from torch import Tensor

from rlnotes.estimators.checks import readable
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import RolloutKVCache
from rlnotes.lm.experts import Routes
from rlnotes.lm.kv_cache import KVCache, Prefix, SharedPrefix
from rlnotes.lm.likeliest import likeliest
from rlnotes.lm.model import Transformer, positions
from rlnotes.lm.operations import operations
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.versions import Snapshots, writing


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
    """Compute in ``dtype`` on a GPU. On a CPU only float32 is offered: bfloat16 has no hardware there."""
    if dtype == torch.float32:
        return nullcontext()
    if device.type != "cuda":
        raise ValueError(f"dtype {dtype} needs a CUDA device; on {device.type} use float32")
    return torch.autocast("cuda", dtype)


def prefill(
    model: Transformer, prompts: Tensor, prompt_mask: Tensor | None, routes: Routes | None = None
) -> tuple[Prefix, Tensor]:
    """Run B prompts once. Returns their keys and values, and the states (B, 1, d) before the first answer.

    ``routes`` takes down the experts of a mixture model.
    """
    prefix = Prefix()
    position = torch.arange(prompts.shape[1], device=prompts.device) if prompt_mask is None else positions(prompt_mask)
    states = model.hidden(prompts, position, prompt_mask, prefix, routes)
    return prefix, states[:, -1:]


class Writer:
    """One model on its way through N = B * ``repeat`` responses, and its own keys and values of all tokens so far.

    It reads every token, whoever wrote it: with several writers each gives its policy after the whole text, never one
    that looks at keys and values of other weights. ``experts`` (N, 1, L, k) are those that a mixture model used where
    it predicts the next token, ``prompt_experts`` (B, P, L, k) where it read the prompts; None for a dense model.
    """

    def __init__(
        self,
        model: Transformer,
        prompts: Tensor,
        prompt_mask: Tensor | None,
        repeat: int,
        length: int,
        kv_cache: RolloutKVCache,
    ):
        (b, p), self.model, self._routes = prompts.shape, model, Routes()
        prefix, state = prefill(model, prompts, prompt_mask, self._routes)
        n, device, dtype = b * repeat, prompts.device, prefix.layers[0][0].dtype
        if prompt_mask is None and kv_cache == "float32":
            self.cache = operations().kv_cache(model.config, n, p, length, device, dtype)
        else:
            self.cache = KVCache(model.config, n, p + length, device, dtype, kv_cache)
        self.cache.start(prefix, repeat)
        self.state = state.repeat_interleave(repeat, 0)
        self.prompt_experts = experts = self._routes.take()
        self.experts = None if experts is None else experts[:, -1:].repeat_interleave(repeat, 0)
        self.key_mask, self.positions = None, p + torch.arange(length, device=device)  # of all that it may read
        if prompt_mask is not None:
            self.key_mask = prompt_mask.repeat_interleave(repeat, 0)
            self.positions = self.positions - p + positions(self.key_mask)[:, -1:] + 1

    def logits(self) -> Tensor:
        """Logits (N, V) of the next token, float32."""
        return self.model.head(self.state[:, 0]).float()

    def read(self, token: Tensor) -> None:
        """Go on behind ``token`` (N, 1)."""
        if self.key_mask is not None:
            self.key_mask = torch.cat([self.key_mask, self.key_mask.new_ones(len(token), 1)], -1)
        self.state = self.model.hidden(token, self.positions[..., :1], self.key_mask, self.cache, self._routes)
        self.experts = self._routes.take()
        self.positions = self.positions[..., 1:]


@dataclass(frozen=True)
class Sampler:
    """Draws G responses of up to ``max_length`` tokens for each prompt.

    mu is the model's policy behind ``behavior`` and ``transform``, in that order. ``top_logp`` asks for the K likeliest
    tokens of mu at every position. ``dtype`` is bfloat16 or float32; log-probabilities are float32 in both. The same
    seed on the same device gives the same tokens.
    """

    max_length: int
    eos: int
    transform: SamplingTransform = field(default_factory=SamplingTransform)
    top_logp: int = 0
    dtype: torch.dtype = torch.float32
    behavior: Behavior = field(default_factory=Behavior)

    def __post_init__(self):
        if self.max_length < 1:
            raise ValueError(f"max_length is {self.max_length}; a response has at least one token")

    @torch.no_grad()
    def sample(
        self,
        model: Transformer,
        prompts: Tensor,
        group_size: int,
        generator: torch.Generator,
        version: int = 0,
        prompt_mask: Tensor | None = None,
        past: Snapshots | None = None,
        shard: Shard = ALONE,
    ) -> Rollout:
        """Sample ``group_size`` responses to each of ``prompts`` (B, P).

        ``generator`` lives on the model's device. ``version`` is the model's, and written into the rollout; a
        behaviour with lags takes older ones from ``past``, runs each that is in use over all responses, and writes
        into the rollout which of them sampled each token. ``prompt_mask`` (B, P) is False on left pads. ``prompts`` are
        ``shard`` of those that are sampled for: the tokens are those that one process would give them.
        Raises ``ValueError`` if prompt and response do not fit the context, if there is a lag and no past, or if
        the model gives no usable distribution (NaN, or every logit -inf).
        """
        b, p = prompts.shape
        model.check_length(p + self.max_length)
        n, device = b * group_size, prompts.device
        everyones = (n * shard.size, self.max_length)
        versions, models = writing(self.behavior.mixture, model, version, past, everyones, generator)
        versions = shard.of(versions)
        with autocast(device, self.dtype):
            writers = {
                used: Writer(
                    self.behavior.rollout_model(old),
                    prompts,
                    prompt_mask,
                    group_size,
                    self.max_length,
                    self.behavior.kv_cache,
                )
                for used, old in models.items()
            }
            drawn, logps, top, experts = [], [], [], []
            done = torch.zeros(n, dtype=torch.bool, device=device)
            for t in range(self.max_length):
                logits = _of_writers(writers, versions[:, t], Writer.logits)
                if self.behavior.logit_noise:
                    normal = partial(Tensor.normal_, std=self.behavior.logit_noise)
                    logits = logits + shard.noise(logits, normal, generator)
                log_probs = self.transform.log_probs(logits)
                # Gumbel-max: argmax of log p + Gumbel noise is a draw from p, and needs no synchronisation
                noise = shard.noise(log_probs, Tensor.exponential_, generator)
                token = (log_probs - noise.log_()).argmax(-1, keepdim=True)
                drawn.append(token)
                logps.append(log_probs.gather(-1, token))
                if self.top_logp:
                    top.append(likeliest(log_probs, min(self.top_logp, log_probs.shape[-1])))
                if model.config.experts:
                    experts.append(_of_writers(writers, versions[:, t], attrgetter("experts")))
                if t == self.max_length - 1:
                    break
                if device.type == "cpu":  # asking whether all are done would make a GPU wait at every token
                    done |= token[:, 0] == self.eos
                    if not shard.any(not done.all()):
                        break
                for writer in writers.values():
                    writer.read(token)
        tokens, logp = self._padded(drawn, self.eos), self._padded(logps, 0.0)
        mask = response_mask(tokens, self.eos)
        # what was drawn after the end is no part of the response
        tokens, logp = tokens.where(mask, self.eos), logp.where(mask, 0.0)
        if readable(logp) and not bool(torch.isfinite(logp).all()):
            row = int((~torch.isfinite(logp)).any(-1).nonzero()[0])
            raise ValueError(
                f"the model gives no distribution to sample from for response {row}: its logits are NaN or all -inf; "
                "the weights have diverged, so go back to the last checkpoint with a smaller learning rate"
            )
        return Rollout(
            prompts=prompts,
            group=torch.arange(b, device=device).repeat_interleave(group_size),
            tokens=tokens,
            mask=mask,
            logp_behavior=logp,
            version=versions,
            transform=self.transform,
            behavior=self.behavior,
            prompt_mask=prompt_mask,
            topk_ids=self._padded([ids[:, None] for ids, _ in top], self.eos) if top else None,
            topk_logp=self._padded([values[:, None] for _, values in top], 0.0) if top else None,
            experts=self._padded(experts, -1).where(mask[..., None, None], -1) if experts else None,
            prompt_experts=next(iter(writers.values())).prompt_experts if len(writers) == 1 else None,
        )

    def _padded(self, steps: list[Tensor], value: float) -> Tensor:
        """(N, T, ...) from one (N, 1, ...) per position sampled; positions after the last hold ``value``."""
        missing = self.max_length - len(steps)
        filler = [torch.full_like(steps[0], value)] * missing
        return torch.cat(steps + filler, 1)


def _of_writers(writers: dict[int, Writer], versions: Tensor, what: Callable[[Writer], Tensor]) -> Tensor:
    """``what`` (N, ...) a writer has, for each row by the writer of its version, ``versions`` (N,)."""
    (_, first), *others = writers.items()
    value = what(first)
    for version, writer in others:
        own = (versions == version).view(-1, *[1] * (value.dim() - 1))
        value = torch.where(own, what(writer), value)
    return value


def response_logits(
    model: Transformer, rollout: Rollout, dtype: torch.dtype = torch.float32, replay: bool = False
) -> Tensor:
    """Logits (N, T, V) at every response position, with gradients.

    Each prompt is run once and its keys and values are shared by its group: the same numbers as running every
    prompt with every response, in about half the time. With ``replay`` every token goes to the experts that mu used
    (routing replay); raises ``ValueError`` if the rollout does not have them all.
    """
    prompt_routes, routes = _recorded_routes(rollout) if replay else (None, None)
    with autocast(rollout.tokens.device, dtype):
        prefix, last = prefill(model, rollout.prompts, rollout.prompt_mask, prompt_routes)
        g, (n, t), p = rollout.group_size, rollout.tokens.shape, rollout.prompts.shape[1]
        model.check_length(p + t)
        states = last.repeat_interleave(g, 0)
        if t > 1:
            position = p + torch.arange(t - 1, device=last.device)
            key_mask = None
            if rollout.prompt_mask is not None:
                prompt_mask = rollout.prompt_mask.repeat_interleave(g, 0)
                key_mask = torch.cat([prompt_mask, prompt_mask.new_ones(n, t - 1)], -1)
                position = positions(key_mask)[:, p:]
            kv_cache = SharedPrefix(prefix, g)
            if key_mask is None:
                kv_cache = operations().shared_prefix(model.config, prefix, g, max(p, t - 1))
            rest = model.hidden(rollout.tokens[:, :-1], position, key_mask, kv_cache, routes)
            states = torch.cat([states, rest], 1)
        return model.head(states).float()


def _recorded_routes(rollout: Rollout) -> tuple[Routes, Routes]:
    """mu's routes through the prompts, and through all of the responses that is read."""
    if rollout.experts is None or rollout.prompt_experts is None:
        raise ValueError(
            "the rollout has no routes to replay: a dense model wrote it, or several versions, whose routes through a "
            "prompt differ; use replay=False"
        )
    return Routes(rollout.prompt_experts), Routes(rollout.experts[:, 1:])


def taken(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability (N, T) of each of ``tokens`` (N, T) in ``log_probs`` (N, T, V)."""
    return log_probs.gather(-1, tokens[..., None])[..., 0]


def token_logp(
    model: Transformer,
    rollout: Rollout,
    dtype: torch.dtype = torch.float32,
    transform: SamplingTransform | None = None,
    replay: bool = False,
) -> Tensor:
    """Log-probability (N, T) that ``model`` gives each sampled token, with gradients.

    The distribution is that of ``transform``; by default the one that the tokens were drawn with. ``replay``: with
    mu's experts, see :func:`response_logits`.
    """
    transform = transform or rollout.transform
    return taken(transform.log_probs(response_logits(model, rollout, dtype, replay)), rollout.tokens)
