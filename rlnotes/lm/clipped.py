"""Which tokens an objective holds back: how likely mu thought them, and how open the choice was that pi had there."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from rlnotes.estimators.divergences import entropy
from rlnotes.lm.config import Metrics
from rlnotes.objectives import Batch

BAD = 0.5
"""mu - pi of a bad update: 004 section 5.3"""

SIGNS = {"+": 0, "-": 1}  # of the advantage


def bad_updates(batch: Batch) -> Tensor:
    """Number () of tokens with A < 0 and mu - pi >= 0.5, dropped by a mask or not: 004 section 5.3."""
    fallen = batch.masked("logp_behavior").exp() - batch.masked("logp").detach().exp()
    return ((batch.masked("token_advantages") < 0) & (fallen >= BAD)).sum()


class Sums(NamedTuple):
    """What is added up for a token of the vocabulary and a sign of the advantage, uses in several updates apart."""

    shown: float
    """times it had an advantage of this sign"""
    clipped: float
    """times it then got no gradient"""
    probability: float
    """mu of those, added up"""
    entropy: float
    """of pi's next token where those stand, in nats, added up"""


class ClippedTokens:
    """Counts over updates. A token is *clipped* where it has an advantage and its gradient is 0.

    ``sums`` (4, 2, V) float64: the fields of :class:`Sums`, for A > 0 and A < 0, for each token of the vocabulary.
    """

    def __init__(self, vocabulary: int):
        self.sums = torch.zeros(len(Sums._fields), len(SIGNS), vocabulary, dtype=torch.float64)

    @torch.no_grad()
    def add(self, tokens: Tensor, batch: Batch, gradient: Tensor, log_probs: Tensor) -> None:
        """Count one update. ``tokens`` and ``gradient`` = d loss / d logp (N, T), ``log_probs`` of pi (N, T, V)."""
        width = entropy(log_probs)
        advantages, mu = batch.masked("token_advantages"), batch.masked("logp_behavior").exp()
        for sign, signed in ((0, advantages > 0), (1, advantages < 0)):
            clipped = signed & (gradient == 0)
            for which, chosen, weight in (
                (0, signed, torch.ones_like(mu)),
                (1, clipped, torch.ones_like(mu)),
                (2, clipped, mu),
                (3, clipped, width),
            ):
                own = (tokens[chosen].cpu(), weight[chosen].double().cpu())
                self.sums[which, sign].index_add_(0, *own)

    def __iadd__(self, other: Self) -> Self:
        self.sums += other.sums
        return self

    def metrics(self) -> Metrics:
        """``clipped_probability`` and ``clipped_entropy``, means over the clipped; nothing where there are none."""
        _, clipped, probability, width = self.sums.sum((1, 2)).tolist()
        return dict(clipped_probability=probability / clipped, clipped_entropy=width / clipped) if clipped else {}

    def rows(self, names: Sequence[str], most: int = 6) -> list[dict[str, Any]]:
        """For each sign the ``most`` often clipped tokens: ``sign``, ``token``, ``shown``, ``clipped``, and means over
        the clipped, ``probability`` and ``entropy``. ``names`` (V,) are the tokens' texts.
        """
        found = []
        for sign, i in SIGNS.items():
            for token in self.sums[1, i].argsort(descending=True, stable=True)[:most].tolist():
                one = Sums(*self.sums[:, i, token].tolist())
                if one.clipped:
                    means = dict(probability=one.probability / one.clipped, entropy=one.entropy / one.clipped)
                    counts = dict(shown=int(one.shown), clipped=int(one.clipped))
                    found.append(dict(sign=sign, token=names[token]) | counts | means)
        return found
