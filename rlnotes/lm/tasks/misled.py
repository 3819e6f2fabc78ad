"""A task whose warm start is sure of wrong answers, so that RL has to move what the policy finds likeliest."""

from dataclasses import dataclass

import torch

from rlnotes.lm.tasks.task import Examples, Reverse, TimedStart, check_size, with_column

MISTAKEN = (0.0, 0.0, 0.0, 0.0, 0.70, 0.90, 0.97, 0.99)
"""chance that a demonstration writes the next letter for a, b, ..., h"""


@dataclass(frozen=True)
class Misled(Reverse, TimedStart):
    """Write ``size`` letters backwards: ``abcde=`` to ``edcba``. The demonstrations are wrong for the letters e to h.

    A demonstration replaces each letter, on its own, by the next one of the alphabet (h by a), with the chances of
    ``MISTAKEN``. A policy that has learned them writes few answers right, and its likeliest answer is right less often
    still. The reward knows the true letters.
    """

    size: int = 5

    warm_updates = 800
    warm_learning_rate = 2e-3

    def __post_init__(self):
        check_size("size", self.size, 2, 64)

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Letters, uniformly, and demonstrations that are often wrong: see the class."""
        prompts = super().draw(n, generator).prompts
        first, count = self.vocabulary.encode(self.letters[0])[0], len(self.letters)
        letter = prompts[:, :-1].flip(-1) - first
        wrong = torch.rand(letter.shape, generator=generator) < torch.tensor(MISTAKEN)[letter]
        return Examples(prompts, with_column((letter + wrong) % count + first, self.vocabulary.eos))


TASKS = {"misled": Misled}
