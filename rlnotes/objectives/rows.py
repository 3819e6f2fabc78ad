"""The divergence of two policies at a token, from more than the token drawn: what a sampler has to record for it."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rlnotes.estimators.bucketed import with_other
from rlnotes.estimators.divergences import kl, tv
from rlnotes.exact.precision import at_least_float32

LEAST = 1e-12  # probability of "other": what rounding leaves of it may be 0 or below


@dataclass(frozen=True)
class RowDivergence:
    """TV(mu, pi) or KL(mu || pi) in nats at each token: 004 eqs. (15), (16), and 001 section 4.4.

    ``k`` is the number of mu's likeliest tokens that are told apart. The sampled token is too, and all others are one
    outcome, "other"; 004 prints (15) without "other", which its code counts, as we do. With ``k=None`` every token is
    told apart: the exact divergence.

    Reducing a vocabulary can only lower a divergence. So only the exact one, on all contexts, is a bound on anything.

    >>> mu, pi = torch.tensor([[[0.6, 0.3, 0.1]]]), torch.tensor([[[0.6, 0.1, 0.3]]])
    >>> ids, tokens = mu.argsort(-1, descending=True), torch.tensor([[0]])
    >>> args = (pi.log(), tokens, mu[..., 0].log(), ids, mu.log())
    >>> RowDivergence("tv")(*args), RowDivergence("tv", k=1)(*args).round(decimals=3)
    (tensor([[0.2000]]), tensor([[0.]]))
    """

    kind: Literal["tv", "kl"] = "tv"
    k: int | None = None

    def __post_init__(self):
        if self.kind not in ("tv", "kl"):
            raise ValueError(f"kind is {self.kind!r}; choose 'tv' or 'kl'")
        if self.k is not None and self.k < 1:
            raise ValueError(f"k is {self.k}; choose at least 1, or None for all. For 0 there are binary_tv, binary_kl")

    def recorded(self, vocabulary: int) -> int:
        """How many of mu's likeliest tokens the sampler records at each position."""
        return vocabulary if self.k is None else min(self.k, vocabulary)

    @at_least_float32
    def __call__(
        self, log_probs: Tensor, tokens: Tensor, logp_behavior: Tensor, ids: Tensor | None, logp_ids: Tensor | None
    ) -> Tensor:
        """Divergences (N, T), without gradient.

        ``log_probs`` (N, T, V) is log pi of all tokens; ``tokens`` (N, T) were drawn from mu with ``logp_behavior``;
        ``ids``, ``logp_ids`` (N, T, K) are mu's K likeliest tokens, the likeliest first, and log mu there.
        Raises ``ValueError`` if nothing was recorded, or fewer than ``k`` tokens.
        """
        k = self.recorded(log_probs.shape[-1])
        if ids is None or logp_ids is None or ids.shape[-1] < k:
            found = 0 if ids is None else ids.shape[-1]
            raise ValueError(
                f"the sampler recorded mu's {found} likeliest tokens and this divergence needs {k}; "
                f"sample with Sampler(..., top_logp={k})"
            )
        log_probs, ids, mu = log_probs.detach(), ids[..., :k], logp_ids[..., :k]
        pi = log_probs.gather(-1, ids)
        if k < log_probs.shape[-1]:
            among = (ids == tokens[..., None]).any(-1)
            mu = _reduced(mu, logp_behavior, among)
            pi = _reduced(pi, log_probs.gather(-1, tokens[..., None])[..., 0], among)
        return tv(mu, pi) if self.kind == "tv" else kl(mu, pi)


def _reduced(likeliest: Tensor, own: Tensor, among: Tensor) -> Tensor:
    """Log-probabilities (N, T, k + 2): the likeliest tokens, the sampled one unless it is ``among`` them, "other"."""
    apart = torch.cat([likeliest, own.masked_fill(among, -torch.inf)[..., None]], -1)
    return with_other(apart, (1 - apart.exp().sum(-1)).clamp(min=LEAST))
