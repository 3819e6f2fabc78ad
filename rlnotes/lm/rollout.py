"""What the sampler hands to everything after it: one record, made once, passed whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from rlnotes.estimators.checks import readable
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import COLDEST, HOTTEST, check_truncation


@dataclass(frozen=True)
class SamplingTransform:
    """How the sampler turns logits into the distribution it draws from.

    It is part of the behaviour policy: log-probabilities are those of the transformed distribution.
    Temperature 0 is greedy: the distribution is a point mass, so the recorded log-probability is 0.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        if self.temperature != 0 and not COLDEST <= self.temperature <= HOTTEST:
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 (greedy) or in [{COLDEST:g}, {HOTTEST:g}]"
            )
        check_truncation(self.top_k, self.top_p)

    @property
    def changes_support(self) -> bool:
        """True if some tokens get probability 0, so that no importance weight can bring them back."""
        return self.temperature == 0 or self.top_k is not None or (self.top_p is not None and self.top_p < 1)

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities (..., V) of the distribution drawn from; -inf outside its support."""
        if self.temperature == 0:
            best = logits.argmax(-1, keepdim=True)
            return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
        if self.temperature != 1:
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            kept = logits.topk(self.top_k, dim=-1).indices
            outside = torch.ones_like(logits, dtype=torch.bool).scatter(-1, kept, False)
            logits = logits.masked_fill(outside, -torch.inf)
        if self.top_p is not None and self.top_p < 1:
            ordered, order = logits.log_softmax(-1).sort(-1, descending=True)
            before = ordered.exp().cumsum(-1) - ordered.exp()  # mass of the strictly more likely tokens
            outside = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= self.top_p)
            logits = logits.masked_fill(outside, -torch.inf)
        return logits.log_softmax(-1)


def response_mask(tokens: Tensor, eos: int) -> Tensor:
    """True on each response's own tokens, the first EOS included, nothing after it.

    ``tokens`` (N, T). A row without EOS is whole. Built from where the first EOS stands, never by comparing
    with a pad id: the two may share one.
    """
    is_eos = (tokens == eos).long()
    return is_eos.cumsum(-1) - is_eos == 0


@dataclass(frozen=True)
class Rollout:
    """N = B * G sampled responses and what the sampler knew about them.

    | field | shape | meaning |
    |---|---|---|
    | ``prompts`` | (B, P) | prompt tokens |
    | ``group`` | (N,) | row of ``prompts`` that each response answers; rows of a group are contiguous |
    | ``tokens`` | (N, T) | response tokens, EOS after the end |
    | ``mask`` | (N, T) bool | True on the response's own tokens, EOS included |
    | ``logp_behavior`` | (N, T) | log mu of each token, as sampled; 0 outside the mask |
    | ``version`` | (N, T) | number of optimiser updates behind the weights that sampled each token |
    | ``transform`` | | the sampling transform, part of mu |
    | ``behavior`` | | what else made mu differ from the policy that was given to the sampler |
    | ``prompt_mask`` | (B, P) bool | False on left pads; None if there are none |
    | ``topk_ids``, ``topk_logp`` | (N, T, K) | mu's K likeliest tokens, if asked for |
    | ``experts`` | (N, T, L, k) | experts that mu used, layer by layer, to predict each token; -1 outside the mask |
    | ``prompt_experts`` | (B, P, L, k) | those it used to read the prompts; None where several versions read them |
    """

    prompts: Tensor
    group: Tensor
    tokens: Tensor
    mask: Tensor
    logp_behavior: Tensor
    version: Tensor
    transform: SamplingTransform
    behavior: Behavior = field(default_factory=Behavior)
    prompt_mask: Tensor | None = None
    topk_ids: Tensor | None = None
    topk_logp: Tensor | None = None
    experts: Tensor | None = None
    prompt_experts: Tensor | None = None

    def __post_init__(self):
        n, t = self.tokens.shape
        for name in ("mask", "logp_behavior", "version"):
            if getattr(self, name).shape != (n, t):
                raise ValueError(f"{name} has shape {tuple(getattr(self, name).shape)}; tokens has {(n, t)}")
        if self.mask.dtype != torch.bool:
            raise ValueError(f"mask has dtype {self.mask.dtype}; it must be bool")
        b = self.prompts.shape[0]
        if n % b:
            raise ValueError(f"{n} responses cannot be split over {b} prompts in groups of one size")
        expected = torch.arange(b, device=self.group.device).repeat_interleave(n // b)
        if readable(self.group) and not torch.equal(self.group, expected):
            raise ValueError("group must list prompts 0..B-1 in order, G times each: rows of a group contiguous")

    @property
    def group_size(self) -> int:
        """Responses per prompt, G."""
        return self.tokens.shape[0] // self.prompts.shape[0]

    def truncated(self, eos: int) -> Tensor:
        """(N,) bool: True where the response reached the length limit without an EOS."""
        return ~((self.tokens == eos) & self.mask).any(-1)

    def groups(self, prompt_rows: Tensor) -> "Rollout":
        """The part that belongs to some prompts, ``prompt_rows`` (b,): whole groups, in that order."""
        g = self.group_size
        rows = (prompt_rows[:, None] * g + torch.arange(g, device=prompt_rows.device)).reshape(-1)
        per_prompt = {"prompts", "prompt_mask", "prompt_experts"}
        chosen = {}
        for name in (own.name for own in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                chosen[name] = value[prompt_rows] if name in per_prompt else value[rows]
        chosen["group"] = torch.arange(len(prompt_rows), device=rows.device).repeat_interleave(g)
        return replace(self, **chosen)

    @staticmethod
    def of_responses(prompts: Tensor, responses: Tensor, eos: int) -> "Rollout":
        """Given ``responses`` (B * G, T), the G of a prompt of ``prompts`` (B, P) together, that no policy sampled.

        ``logp_behavior`` and ``version`` are 0.
        """
        group = torch.arange(len(prompts), device=prompts.device)
        return Rollout(
            prompts=prompts,
            group=group.repeat_interleave(len(responses) // len(prompts)),
            tokens=responses,
            mask=response_mask(responses, eos),
            logp_behavior=torch.zeros(responses.shape, device=prompts.device),
            version=torch.zeros_like(responses),
            transform=SamplingTransform(),
        )

    @staticmethod
    def joined(parts: Sequence["Rollout"]) -> "Rollout":
        """Rollouts of one sampler, one below the other, with groups of one size. Raises ``ValueError`` for others."""
        kinds = {(part.group_size, part.transform, part.behavior) for part in parts}
        if len(kinds) != 1:
            raise ValueError(f"only rollouts of one sampler and one group size can be joined; these are {kinds}")
        together = {}
        for name in (own.name for own in fields(Rollout)):
            values = [getattr(part, name) for part in parts]
            if isinstance(values[0], Tensor):
                together[name] = torch.cat(values)
        prompts = torch.arange(len(together["prompts"]), device=together["prompts"].device)
        return replace(parts[0], **together | dict(group=prompts.repeat_interleave(parts[0].group_size)))
