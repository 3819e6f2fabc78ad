"""Sampling responses and scoring them again, by one model and one definition of the distribution."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlnotes.lm.behavior import Behavior
from rlnotes.lm.model import KVCache, Prefix, Transformer, positions
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
    """Compute in ``dtype`` on a GPU. On a CPU only float32 is offered: bfloat16 has no hardware there."""
    if dtype == torch.float32:
        return nullcontext()
    if device.type != "cuda":
        raise ValueError(f"dtype {dtype} needs a CUDA device; on {device.type} use float32")
    return torch.autocast("cuda", dtype)


def prefill(model: Transformer, prompts: Tensor, prompt_mask: Tensor | None) -> tuple[Prefix, Tensor]:
    """Run B prompts once. Returns their keys and values, and the states (B, 1, d) before the first answer."""
    prefix = Prefix()
    position = torch.arange(prompts.shape[1], device=prompts.device) if prompt_mask is None else positions(prompt_mask)
    states = model.hidden(prompts, position, prompt_mask, prefix)
    return prefix, states[:, -1:]


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
    ) -> Rollout:
        """Sample ``group_size`` responses to each of ``prompts`` (B, P).

        ``generator`` lives on the model's device. ``version`` is written into the rollout. ``prompt_mask``
        (B, P) is False on left pads. Raises ``ValueError`` if prompt and response do not fit the context, or if
        the model gives no usable distribution (NaN, or every logit -inf).
        """
        b, p = prompts.shape
        model.check_length(p + self.max_length)
        model = self.behavior.rollout_model(model)
        n, device = b * group_size, prompts.device
        with autocast(device, self.dtype):
            prefix, state = prefill(model, prompts, prompt_mask)
            cache = KVCache(model.config, n, p + self.max_length, device, prefix.layers[0][0].dtype)
            cache.start(prefix, group_size)
            state = state.repeat_interleave(group_size, 0)
            key_mask, position = None, torch.tensor([p], device=device)
            if prompt_mask is not None:
                key_mask = prompt_mask.repeat_interleave(group_size, 0)
                position = positions(key_mask)[:, -1:] + 1
            drawn, logps, top = [], [], []
            done = torch.zeros(n, dtype=torch.bool, device=device)
            for t in range(self.max_length):
                logits = self.behavior.logits(model.head(state[:, 0]).float(), generator)
                log_probs = self.transform.log_probs(logits)
                # Gumbel-max: argmax of log p + Gumbel noise is a draw from p, and needs no synchronisation
                noise = torch.empty_like(log_probs).exponential_(generator=generator)
                token = (log_probs - noise.log_()).argmax(-1, keepdim=True)
                drawn.append(token)
                logps.append(log_probs.gather(-1, token))
                if self.top_logp:
                    top.append(log_probs.topk(min(self.top_logp, log_probs.shape[-1]), dim=-1))
                done |= token[:, 0] == self.eos
                # asking whether all are done would make a GPU wait at every token
                if t == self.max_length - 1 or (device.type == "cpu" and bool(done.all())):
                    break
                if key_mask is not None:
                    key_mask = torch.cat([key_mask, key_mask.new_ones(n, 1)], -1)
                state = model.hidden(token, position + t, key_mask, cache)
        tokens, logp = self._padded(drawn, self.eos), self._padded(logps, 0.0)
        mask = response_mask(tokens, self.eos)
        # what was drawn after the end is no part of the response
        tokens, logp = tokens.where(mask, self.eos), logp.where(mask, 0.0)
        if not bool(torch.isfinite(logp).all()):
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
            version=torch.full_like(tokens, version),
            transform=self.transform,
            behavior=self.behavior,
            prompt_mask=prompt_mask,
            topk_ids=self._padded([ids[:, None] for _, ids in top], self.eos) if top else None,
            topk_logp=self._padded([values[:, None] for values, _ in top], 0.0) if top else None,
        )

    def _padded(self, steps: list[Tensor], value: float) -> Tensor:
        """(N, T, ...) from one (N, 1, ...) per position sampled; positions after the last hold ``value``."""
        missing = self.max_length - len(steps)
        filler = [torch.full_like(steps[0], value)] * missing
        return torch.cat(steps + filler, 1)


def response_logits(model: Transformer, rollout: Rollout, dtype: torch.dtype = torch.float32) -> Tensor:
    """Logits (N, T, V) at every response position, with gradients.

    Each prompt is run once and its keys and values are shared by its group: the same numbers as running every
    prompt with every response, in about half the time.
    """
    with autocast(rollout.tokens.device, dtype):
        prefix, last = prefill(model, rollout.prompts, rollout.prompt_mask)
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
            rest = model.hidden(rollout.tokens[:, :-1], position, key_mask, prefix.behind(g))
            states = torch.cat([states, rest], 1)
        return model.head(states).float()


def taken(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability (N, T) of each of ``tokens`` (N, T) in ``log_probs`` (N, T, V)."""
    return log_probs.gather(-1, tokens[..., None])[..., 0]


def score(
    model: Transformer,
    rollout: Rollout,
    dtype: torch.dtype = torch.float32,
    transform: SamplingTransform | None = None,
) -> Tensor:
    """Log-probability (N, T) that ``model`` gives each sampled token, with gradients.

    The distribution is that of ``transform``; by default the one that the tokens were drawn with.
    """
    transform = transform or rollout.transform
    return taken(transform.log_probs(response_logits(model, rollout, dtype)), rollout.tokens)
