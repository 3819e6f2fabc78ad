"""Tasks whose right tokens are rare at the start: needles in the long tail of a large vocabulary.

A clip of the ratio lets a token grow by a share of itself, so what begins near 0 stays there for long. To see that,
the policy that RL starts from must be known, rare tokens included. Therefore it is not learned from examples: it is
written down, and the warm start distils it into the model.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks.task import Examples, Lesson, TimedStart, Vocabulary, check_size, random_symbols, with_column

DIGITS, USUAL, NEW = "0123456789", "abcdefghij", "ABCDEFGHIJ"
_HEAD = f"\n={DIGITS}{USUAL}{NEW}"  # 32 tokens that mean something; all others are junk
_JUNK = "".join(chr(0x100 + i) for i in range(224))  # letters of Latin Extended, the likeliest first


class DistilledTask(TimedStart):
    """A task with a base policy that is written down. A warm start fits the model to it, in place of right answers."""

    @abstractmethod
    def base_policy(self, prompts: Tensor) -> Tensor:
        """Probabilities (B, T, V) at each position after ``prompts`` (B, P), whatever was written before it."""


@dataclass(frozen=True)
class Digits(DistilledTask):
    """Answer ``size`` digits and an equals sign with ``size`` symbols and EOS."""

    size: int = 6

    def __post_init__(self):
        check_size("size", self.size, 2, 8)

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """One."""
        return (Lesson(self, 700, 3e-3),)

    @property
    def vocabulary(self) -> Vocabulary:
        """EOS, the equals sign, ten digits, ten usual symbols, ten new ones, and junk."""
        return Vocabulary((_HEAD + _JUNK)[: self.vocabulary_size])

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, V."""
        return 256

    @property
    def prompt_length(self) -> int:
        """Digits and the equals sign."""
        return self.size + 1

    @property
    def max_response_length(self) -> int:
        """Symbols and EOS."""
        return self.size + 1

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Digits, uniformly, and the right answers."""
        digits = random_symbols(_ids(DIGITS), n, self.size, generator)
        prompts = with_column(digits, _HEAD.index("="))
        return Examples(prompts, self.solve(prompts))

    @abstractmethod
    def solve(self, prompts: Tensor) -> Tensor:
        """The right answer (B, T) to each prompt (B, P), EOS included."""

    @abstractmethod
    def likely(self) -> Tensor:
        """Probability (10, 20) of each usual and each new symbol where a digit is to be written; junk has the rest."""

    @abstractmethod
    def written(self, prompts: Tensor) -> Tensor:
        """The digit (B, size), 0 to 9, that each position of the answer stands for."""

    def base_policy(self, prompts: Tensor) -> Tensor:
        """:meth:`likely` symbols, Zipf's law for the junk (its j-th token has weight 1 / j), and EOS at the end."""
        rank = torch.arange(1, self.vocabulary_size - len(_HEAD) + 1, dtype=torch.float64)
        zipf, symbols = (1 / rank) / (1 / rank).sum(), self.likely().double()
        junk = (1 - symbols.sum(-1, keepdim=True)) * zipf
        rows = torch.cat([torch.zeros(10, 2 + 10, dtype=torch.float64), symbols, junk], 1).float().to(prompts.device)
        end = torch.zeros(self.vocabulary_size, device=prompts.device)
        end[self.vocabulary.eos] = 1.0
        return torch.cat([rows[self.written(prompts)], end.expand(len(prompts), 1, -1)], 1)


@dataclass(frozen=True)
class Needle(Digits):
    """Write ``size`` digits backwards, each by its letter: ``0123=`` to ``dcba``. Every right token is rare at first.

    The base policy gives it the probability ``rare``, and all else to junk. The reward is the share of positions that
    are right, so that a response can be right in part. The vocabulary has 32 tokens for each position.
    """

    size: int = 4
    rare: float = 0.02

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.rare < 1:
            raise ValueError(f"rare is {self.rare}; it is a probability, between 0 and 1")

    @property
    def vocabulary_size(self) -> int:
        """128 tokens for the default size."""
        return 32 * self.size

    def written(self, prompts: Tensor) -> Tensor:
        """From last to first."""
        return prompts[:, :-1].flip(-1) - _HEAD.index("0")

    def solve(self, prompts: Tensor) -> Tensor:
        """The letters of the digits, from last to first."""
        return with_column(self.written(prompts) + _HEAD.index("a"), self.vocabulary.eos)

    def likely(self) -> Tensor:
        """The letter of the digit, rarely."""
        return torch.cat([self.rare * torch.eye(10), torch.zeros(10, 10)], 1)

    def reward(self, rollout: Rollout) -> Tensor:
        """The share of the first ``size`` positions that are right. What stands at the last is no matter."""
        answers = self.solve(rollout.prompts)[rollout.group]
        return (rollout.tokens == answers)[:, : self.size].float().mean(-1)


@dataclass(frozen=True)
class Renamed(Digits):
    """Write ``size`` digits in order, each by its letter, 8 and 9 by the new ones: ``918003=`` to ``aabdIJ``.

    The base policy knows the order. It writes a to h with probability 0.97, and for 8 and 9 still the letters of old, i
    and j, with 0.89; the new ones, I and J, have 0.01. Junk has the rest. So some tokens are dominant and must stay so,
    some are rare and must grow, often in one answer, and the reward is 1 only if all of it is right.
    """

    def written(self, prompts: Tensor) -> Tensor:
        """In order."""
        return prompts[:, :-1].sort(-1).values - _HEAD.index("0")

    def solve(self, prompts: Tensor) -> Tensor:
        """The letters in order, of 8 and 9 the new ones."""
        digit = self.written(prompts)
        return with_column(digit + torch.where(digit < 8, _HEAD.index("a"), _HEAD.index("A")), self.vocabulary.eos)

    def likely(self) -> Tensor:
        """The letter of old, and for 8 and 9 rarely the new one."""
        renamed = torch.arange(10) >= 8
        old, new = torch.where(renamed, 0.89, 0.97), torch.where(renamed, 0.01, 0.0)
        return torch.cat([old.diag(), new.diag()], 1)

    def reward(self, rollout: Rollout) -> Tensor:
        """1 where the whole response is the answer, EOS included."""
        return (rollout.tokens == self.solve(rollout.prompts)[rollout.group]).all(-1).float()


def _ids(symbols: str) -> list[int]:
    return [_HEAD.index(symbol) for symbol in symbols]


TASKS = {"needle": Needle, "renamed": Renamed}
