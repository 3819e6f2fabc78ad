"""Masks made of another mask: what it drops is let through again for some tokens."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from rlnotes.objectives.batch import Batch, Past
from rlnotes.objectives.masks import Mask, per_token
from rlnotes.objectives.rows import RowDivergence


@dataclass(frozen=True)
class _Around:
    """Asks for what the ``mask`` inside asks for."""

    mask: Mask

    @property
    def needs_proximal(self) -> bool:
        """True if the mask looks at the recomputed policy."""
        return getattr(self.mask, "needs_proximal", False)

    @property
    def needs_divergence(self) -> RowDivergence | None:
        """What ``Batch.divergence`` has to be, if the mask reads it."""
        return getattr(self.mask, "needs_divergence", None)


@dataclass(frozen=True)
class OneSided(_Around):
    """Drop what ``mask`` drops only where it moves away: A > 0 and pi > anchor, or A < 0 and pi < anchor.

    A token that is being pulled back towards the anchor keeps its gradient.

    | mask inside | what |
    |---|---|
    | :class:`DivergenceMask` of tokens | DPPO, 004 eq. (12); by itself it is DPPO's symmetric variant |
    | the same with binary TV, ``side="negative"`` | 004 section 5.3, which drops mu - pi = delta too |
    | the same, ``side="positive"`` | its control |
    | a mask of responses | trust region masking made one-sided: no longer 001's, but a mask of tokens that |
    | | a response sets off |

    ``side`` names the sign of A whose tokens may be dropped. Where A = 0, all is kept.

    >>> from rlnotes.objectives.masks import DivergenceMask
    >>> batch = Batch.of_ratios([[4.0, 0.2]], [1])
    >>> inside = DivergenceMask(0.05, "binary_tv", "token")  # 0.3 and 0.08: it drops both
    >>> inside(batch), OneSided(inside)(batch)
    (tensor([[False, False]]), tensor([[False,  True]]))
    """

    anchor: Past = "behavior"
    side: Literal["both", "positive", "negative"] = "both"

    def __post_init__(self):
        if self.side not in ("both", "positive", "negative"):
            raise ValueError(f"side is {self.side!r}; choose 'both', 'positive' or 'negative'")
        inside = getattr(self.mask, "anchor", self.anchor)
        if inside != self.anchor:
            raise ValueError(
                f"anchor is {self.anchor!r} and that of the mask inside is {inside!r}; "
                "give both one anchor: what is too far from a policy is to move away from the same policy"
            )

    @property
    def needs_proximal(self) -> bool:
        """True if the mask inside, or the direction, looks at the recomputed policy."""
        return self.anchor == "proximal" or super().needs_proximal

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        change = batch.log_ratio("logp", f"logp_{self.anchor}").detach()
        advantages = batch.masked("token_advantages")
        up, down = (advantages > 0) & (change > 0), (advantages < 0) & (change < 0)
        away = {"both": up | down, "positive": up, "negative": down}[self.side]
        return per_token(self.mask(batch), batch) | ~away


@dataclass(frozen=True)
class Relaxed(_Around):
    """Keep every token with mu < ``alpha``, and of the others what ``mask`` keeps: 004 section 6, around ClipMask.

    ``end`` says which end of the clip is let go: ``"high"``, which holds A > 0, ``"low"``, which holds A < 0, or both.

    >>> from rlnotes.objectives.masks import ClipMask
    >>> rare, likely = (Batch.of_ratios([[1.5]], [1], mu=mu) for mu in (0.05, 0.5))
    >>> Relaxed(ClipMask(), alpha=0.1)(rare), Relaxed(ClipMask(), alpha=0.1)(likely)
    (tensor([[True]]), tensor([[False]]))
    """

    alpha: float = 0.1
    end: Literal["both", "high", "low"] = "both"

    def __post_init__(self):
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}; it is a probability, from 0 (nothing is relaxed) to 1")
        if self.end not in ("both", "high", "low"):
            raise ValueError(f"end is {self.end!r}; choose 'both', 'high' or 'low'")

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        free = batch.masked("logp_behavior").exp() < self.alpha
        if self.end != "both":
            advantages = batch.masked("token_advantages")
            free = free & (advantages > 0 if self.end == "high" else advantages < 0)
        return per_token(self.mask(batch), batch) | free
