"""A task whose warm start is sure of wrong answers, so that RL has to move what the policy finds likeliest."""

from dataclasses import dataclass

import torch

from rlnotes.lm.tasks.task import Examples, Lesson, Reverse, TimedStart, check_size, with_column

MISTAKEN = (0.0, 0.0, 0.0, 0.0, 0.70, 0.90, 0.97, 0.99)
"""chance that a demonstration writes the next letter for a, b, ..., h"""


@dataclass(frozen=True)
class Misled(Reverse, TimedStart):
    """Write ``size`` letters backwards: ``abcde=`` to ``edcba``. The demonstrations are wrong for the letters e to h.

    A demonstration replaces each letter, on its own, by the next one of the alphabet (h by a), with the chances
    ``mistaken``. A policy that has learned them writes few answers right, and its likeliest answer is right less often
    still. The reward knows the true letters.
    """

    size: int = 5

    mistaken: tuple[float, ...] = MISTAKEN

    def __post_init__(self):
        check_size("size", self.size, 2, 64)
        if len(self.mistaken) != len(self.letters) or not all(0 <= chance <= 1 for chance in self.mistaken):
            raise ValueError(f"mistaken is {self.mistaken}; give a probability for each of {self.letters}")

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """One."""
        return (Lesson(self, 800, 2e-3),)

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Letters, uniformly, and demonstrations that are often wrong: see the class."""
        prompts = super().draw(n, generator).prompts
        first, count = self.vocabulary.encode(self.letters[0])[0], len(self.letters)
        letter = prompts[:, :-1].flip(-1) - first
        wrong = torch.rand(letter.shape, generator=generator) < torch.tensor(self.mistaken)[letter]
        return Examples(prompts, with_column((letter + wrong) % count + first, self.vocabulary.eos))


TASKS = {"misled": Misled}
