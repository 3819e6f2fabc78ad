"""A task of long responses, each token of which is built on the one before, and whose warm start is mostly wrong."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rlnotes.lm.tasks.task import ExactMatchTask, Examples, Lesson, TimedStart, check_size, random_symbols, with_column

MARK = 2  # what * counts
MISREAD = 3  # what demonstrations take it for


@dataclass(frozen=True)
class Ledger(ExactMatchTask, TimedStart):
    """Keep a running sum modulo 4: ``0312*13  =`` to ``0302010``. A star counts 2.

    A prompt has ``shortest`` to ``size`` symbols, all lengths equally likely, and blanks up to ``size``. One star for
    every ``spacing`` symbols stands at a random place, the others are 0 to 3, uniform. A demonstration takes each star,
    on its own, for a 3 with the chance ``mistaken``, and goes on from there: what comes after is wrong, too.
    """

    size: int = 64
    shortest: int = 16
    spacing: int = 16
    mistaken: float = 0.75

    def __post_init__(self):
        check_size("size", self.size, 16, 64)
        check_size("shortest", self.shortest, 1, self.size)
        check_size("spacing", self.spacing, 1, self.size)
        if not 0 <= self.mistaken <= 1:
            raise ValueError(f"mistaken is {self.mistaken}; it is a probability, from 0 to 1")

    @property
    def prompt_length(self) -> int:
        """Symbols or blanks, and the equals sign."""
        return self.size + 1

    @property
    def max_response_length(self) -> int:
        """A digit for each symbol, and EOS."""
        return self.size + 1

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """Long prompts with few stars first: of all lengths at once nothing is learned for long."""
        first = replace(self, shortest=self.size, spacing=self.size // 2, mistaken=0.65)
        return Lesson(first, 1200, 2e-3), Lesson(self, 350, 1.5e-3)

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Prompts and demonstrations: see the class."""
        blank, star, equals = self.vocabulary.encode(" *=")
        length = torch.randint(self.shortest, self.size + 1, (n, 1), generator=generator)
        written = torch.arange(self.size) < length
        order = torch.rand(n, self.size, generator=generator).where(written, 2.0).argsort(-1).argsort(-1)
        digits = random_symbols(self.vocabulary.encode("0123"), n, self.size, generator)
        symbols = digits.where(order >= length // self.spacing, star).where(written, blank)
        misread = torch.rand(n, self.size, generator=generator) < self.mistaken
        prompts = with_column(symbols, equals)
        return Examples(prompts, self._sums(prompts, torch.where(misread, MISREAD, MARK)))

    def solve(self, prompts: Tensor) -> Tensor:
        """The sum after each symbol."""
        return self._sums(prompts, torch.full_like(prompts[:, :-1], MARK))

    def _sums(self, prompts: Tensor, mark: Tensor) -> Tensor:
        """Running sums (B, T), each star counted as ``mark`` (B, size)."""
        blank, zero, star = self.vocabulary.encode(" 0*")
        symbols = prompts[:, :-1]
        sums = torch.where(symbols == star, mark, symbols - zero).cumsum(-1) % 4 + zero
        return with_column(sums.where(symbols != blank, self.vocabulary.eos), self.vocabulary.eos)


TASKS = {"ledger": Ledger}
