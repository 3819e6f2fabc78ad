"""Token tasks with verifiable rewards: no download, no padding, a known right answer.

A task's prompts all have one width P; a blank is an ordinary token that the model sees. Answers have at most T
tokens, EOS included. Whether a prompt belongs to the training or the held-out split is decided by a hash of the
prompt itself, so the two never overlap.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout

Split = Literal["train", "heldout"]
HELDOUT_SHARE = 8  # one prompt in eight is held out


@dataclass(frozen=True)
class Vocabulary:
    """Characters as tokens. The first character is the end of a response, EOS."""

    characters: str

    def __post_init__(self):
        if len(set(self.characters)) != len(self.characters):
            raise ValueError(f"characters {self.characters!r} names one twice")

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def eos(self) -> int:
        """Token id of the end of a response."""
        return 0

    @property
    def names(self) -> list[str]:
        """A printable name of each token."""
        return ["EOS", *self.characters[1:]]

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``. Raises ``ValueError`` naming a character that has none."""
        for character in text:
            if character not in self.characters:
                raise ValueError(f"character {character!r} is not in the vocabulary {self.characters!r}")
        return [self.characters.index(character) for character in text]

    def decode(self, tokens: Tensor | list[int]) -> str:
        """Text of ``tokens`` up to the first EOS."""
        ids = [int(token) for token in tokens]
        if self.eos in ids:
            ids = ids[: ids.index(self.eos)]
        return "".join(self.characters[i] for i in ids)


CHARACTERS = Vocabulary("\n 0123456789+-*=abcdefgh")


@dataclass(frozen=True)
class Examples:
    """Prompts (B, P) and one right answer to each (B, T), EOS to the end. A warm start imitates the answers."""

    prompts: Tensor
    answers: Tensor


def in_split(prompts: Tensor, split: Split) -> Tensor:
    """(B,) bool: does each prompt (B, P) belong to ``split``? The same prompt always gets the same answer."""
    prime = 2_147_483_629
    place = torch.tensor([pow(1_000_003, i, prime) for i in range(1, prompts.shape[1] + 1)], device=prompts.device)
    code = ((prompts.long() + 1) * place).sum(-1) % prime
    heldout = (code * 40_503 >> 7) % HELDOUT_SHARE == 0
    return heldout if split == "heldout" else ~heldout


class Task(ABC):
    """Prompts, answers and a verifier. Subclasses say how to draw examples and how to score a response."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What the tokens mean."""
        return CHARACTERS

    @property
    @abstractmethod
    def prompt_length(self) -> int:
        """Tokens in every prompt, P."""

    @property
    @abstractmethod
    def max_response_length(self) -> int:
        """Most tokens in a response, EOS included, T."""

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Draw ``n`` examples from all the task's prompts, of either split."""

    @abstractmethod
    def reward(self, rollout: Rollout) -> Tensor:
        """Reward (N,) of each response, float32: 1 for a right answer that ended with EOS, else 0."""

    def sample(self, n: int, generator: torch.Generator, split: Split = "train") -> Examples:
        """Draw ``n`` examples of one split. ``generator`` lives on the CPU."""
        prompts, answers, found = [], [], 0
        for _ in range(1000):
            examples = self.draw(n + n // 4 + 8, generator)  # enough for the training split, as a rule
            keep = in_split(examples.prompts, split)
            prompts.append(examples.prompts[keep])
            answers.append(examples.answers[keep])
            found += int(keep.sum())
            if found >= n:
                return Examples(torch.cat(prompts)[:n], torch.cat(answers)[:n])
        raise ValueError(f"{self!r} has too few prompts in its {split} split; choose a larger size")

    def text(self, rollout: Rollout, row: int) -> tuple[str, str]:
        """Prompt and response of one row, as text."""
        prompt = self.vocabulary.decode(rollout.prompts[rollout.group[row]])
        return prompt, self.vocabulary.decode(rollout.tokens[row])


class Lesson(NamedTuple):
    """A part of a warm start: so many ``updates`` on the examples of ``task``.

    ``learning_rate`` is that of the first; it falls in a line to 0 behind the last.
    """

    task: Task
    updates: int
    learning_rate: float


class TimedStart(Task):
    """A task whose warm start ends after its lessons: the accuracy of its policy is no reason to stop."""

    @property
    @abstractmethod
    def lessons(self) -> tuple[Lesson, ...]:
        """What the warm start learns from, one after the other."""


class ExactMatchTask(Task):
    """A task whose only right response is the answer that :meth:`solve` computes from the prompt."""

    @abstractmethod
    def solve(self, prompts: Tensor) -> Tensor:
        """The right answer (B, T) to each prompt (B, P), EOS included."""

    def reward(self, rollout: Rollout) -> Tensor:
        """1 where the whole response equals the answer, EOS included."""
        answers = self.solve(rollout.prompts)[rollout.group]
        return (rollout.tokens == answers).all(-1).float()


@dataclass(frozen=True)
class Reverse(ExactMatchTask):
    """Write ``size`` letters backwards: ``abcd=`` to ``dcba``."""

    size: int = 8

    def __post_init__(self):
        check_size("size", self.size, 4, 64)

    @property
    def letters(self) -> str:
        """What prompts are made of."""
        return "abcdefgh"

    @property
    def prompt_length(self) -> int:
        """Letters and the equals sign."""
        return self.size + 1

    @property
    def max_response_length(self) -> int:
        """Letters and EOS."""
        return self.size + 1

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Letters, uniformly."""
        letters = random_symbols(self.vocabulary.encode(self.letters), n, self.size, generator)
        prompts = with_column(letters, self.vocabulary.encode("=")[0])
        return Examples(prompts, self.solve(prompts))

    def solve(self, prompts: Tensor) -> Tensor:
        """The letters from last to first."""
        return with_column(prompts[:, :-1].flip(-1), self.vocabulary.eos)


@dataclass(frozen=True)
class ShortReverse(Reverse):
    """``Reverse`` small enough that all its prompts and responses can be listed: ``abc=`` to ``cba``."""

    size: int = 3

    def __post_init__(self):
        check_size("size", self.size, 1, 4)

    @property
    def vocabulary(self) -> Vocabulary:
        """EOS, the equals sign, and three letters."""
        return Vocabulary("\n=abc")

    @property
    def letters(self) -> str:
        """a to c."""
        return "abc"


@dataclass(frozen=True)
class Sort(Reverse):
    """Write ``size`` letters in order: ``dbca=`` to ``abcd``."""

    size: int = 6

    def solve(self, prompts: Tensor) -> Tensor:
        """The letters in the order of the alphabet."""
        return with_column(prompts[:, :-1].sort(-1).values, self.vocabulary.eos)


@dataclass(frozen=True)
class Add(ExactMatchTask):
    """Add two numbers of ``size`` digits: ``12+34=`` to ``046``."""

    size: int = 2

    def __post_init__(self):
        check_size("size", self.size, 2, 9)

    @property
    def prompt_length(self) -> int:
        """Two numbers, plus and equals."""
        return 2 * self.size + 2

    @property
    def max_response_length(self) -> int:
        """One digit more than each number, and EOS."""
        return self.size + 2

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Digits, uniformly."""
        digits = random_symbols(self.vocabulary.encode("0123456789"), n, 2 * self.size, generator)
        left = with_column(digits[:, : self.size], self.vocabulary.encode("+")[0])
        right = with_column(digits[:, self.size :], self.vocabulary.encode("=")[0])
        prompts = torch.cat([left, right], 1)
        return Examples(prompts, self.solve(prompts))

    def solve(self, prompts: Tensor) -> Tensor:
        """The sum, most significant digit first, with leading zeros."""
        zero = self.vocabulary.encode("0")[0]
        left, right = prompts[:, : self.size] - zero, prompts[:, self.size + 1 : -1] - zero
        power = 10 ** torch.arange(self.size, -1, -1, device=prompts.device)
        total = (left * power[1:]).sum(-1) + (right * power[1:]).sum(-1)
        digits = total[:, None] // power % 10
        return with_column(digits + zero, self.vocabulary.eos)


def check_size(name: str, value: int, low: int, high: int) -> None:
    """Raise ``ValueError`` unless ``low <= value <= high``."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must be between {low} and {high}")


def random_symbols(symbols: list[int], n: int, length: int, generator: torch.Generator) -> Tensor:
    """(n, length) tokens drawn uniformly from ``symbols``."""
    return torch.tensor(symbols)[torch.randint(len(symbols), (n, length), generator=generator)]


def with_column(tokens: Tensor, token: int) -> Tensor:
    """``tokens`` (N, n) with one more column that holds ``token`` everywhere."""
    return torch.cat([tokens, torch.full_like(tokens[:, :1], token)], 1)


TASKS = {"reverse": Reverse, "sort": Sort, "add": Add, "short-reverse": ShortReverse}
