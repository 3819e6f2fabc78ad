"""Tasks for a model that reads and writes text: questions, their answers, and what a response earns.

A question belongs to the training or to the held-out part by a hash of its text, so the two never overlap.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import torch

from rlnotes.bridge.real.config import Paid
from rlnotes.lm.tasks.reasoning_gym import accepts, import_reasoning_gym, random_state_kept
from rlnotes.lm.tasks.task import HELDOUT_SHARE, Split

ONLY = "Answer with the number only."
ENTRIES = 20_000  # of a dataset of reasoning-gym
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ONE_WORD = re.compile(r"\s*\S+\s*")


class Question(NamedTuple):
    """What is asked, the answer, and the entry of a dataset that it came from."""

    text: str
    answer: str
    entry: dict[str, Any] | None = None


class Questions(Protocol):
    """A task: :meth:`ask` draws a question of either part, the other two judge a response to it."""

    def ask(self, generator: torch.Generator) -> Question:
        """A question at random. ``generator`` lives on the CPU."""
        ...

    def right(self, question: Question, response: str) -> bool:
        """Whether the answer in ``response`` is right."""
        ...

    def score(self, question: Question, response: str) -> float:
        """What the task's own verifier gives, in [0, 1]."""
        ...


class Arithmetic:
    """Questions about ``numbers`` whole numbers from ``low`` to ``high``; the answer is the last number written."""

    def __init__(self, low: int, high: int, numbers: int, words: Callable[..., str], answer: Callable[..., int]):
        self.low, self.high, self.numbers, self.words, self.answer = low, high, numbers, words, answer

    def ask(self, generator: torch.Generator) -> Question:
        """One of them."""
        drawn = torch.randint(self.low, self.high + 1, (self.numbers,), generator=generator).tolist()
        return Question(f"{self.words(*drawn)} {ONLY}", str(self.answer(*drawn)))

    def right(self, question: Question, response: str) -> bool:
        """True if the last number is the answer: ``12 + 7 = 19.`` is."""
        return last_number(response) == question.answer

    def score(self, question: Question, response: str) -> float:
        """1 or 0."""
        return float(self.right(question, response))


class FromReasoningGym:
    """A dataset of reasoning-gym: its generator writes the questions, its verifier judges what ``read`` finds.

    ``score`` is the verifier's score of the whole response, which may be more than 0 for a wrong one.
    """

    def __init__(self, dataset: str, options: dict[str, Any], ending: str, read: Callable[[str], str]):
        self.ending, self.read = ending, read
        with random_state_kept():
            self.source = import_reasoning_gym().create_dataset(dataset, seed=0, size=ENTRIES, **options)

    def ask(self, generator: torch.Generator) -> Question:
        """One of its entries."""
        with random_state_kept():
            entry = self.source[int(torch.randint(ENTRIES, (), generator=generator))]
        return Question(f"{entry['question']} {self.ending}", entry["answer"], entry)

    def right(self, question: Question, response: str) -> bool:
        """True if the verifier gives exactly 1 to what was read."""
        return accepts(self.source, self.read(response), question.entry or {})

    def score(self, question: Question, response: str) -> float:
        """What the verifier gives to the response as it stands."""
        return float(self.source.score_answer(response.strip(), question.entry))


def last_number(text: str) -> str:
    """The last number in ``text``, or nothing.

    >>> last_number("12 + 7 = 19.")
    '19'
    """
    found = _NUMBER.findall(text.replace(",", ""))
    return found[-1] if found else ""


def last_word(text: str) -> str:
    """The last word in ``text`` without the marks around it, or nothing."""
    words = re.findall(r"\w+", text)
    return words[-1] if words else ""


def _products(low: int, high: int) -> Arithmetic:
    return Arithmetic(low, high, 2, "What is {} x {}?".format, lambda a, b: a * b)


GYM: dict[str, tuple[dict[str, Any], str, Callable[[str], str]]] = {
    "chain_sum": (dict(min_terms=2, max_terms=2, min_digits=2, max_digits=2), ONLY, last_number),
    "gcd": (dict(max_value=99), ONLY, last_number),
    "letter_counting": (dict(min_words=3, max_words=5), ONLY, last_number),
    "spell_backward": (dict(min_word_len=4, max_word_len=6), "Answer with the word only.", last_word),
}
"""Of reasoning-gym, with options, what is added to the question, and how the answer is read. A model of 135 M
parameters cannot do ``spell_backward`` at the start.
"""


def _of_gym(name: str) -> FromReasoningGym:
    return FromReasoningGym(name, *GYM[name])


TASKS: Mapping[str, Callable[[], Questions]] = {
    "add": lambda: Arithmetic(10, 99, 2, "What is {} + {}?".format, lambda a, b: a + b),
    "times": lambda: _products(2, 12),
    "largest": lambda: Arithmetic(10, 99, 4, "Which is the largest of {}, {}, {} and {}?".format, max),
    "times-3": lambda: _products(100, 999),
} | {f"reasoning-gym/{name}": partial(_of_gym, name) for name in GYM}
"""Tasks by name. A small model cannot learn ``times-3``: with ``paid="format"`` its reward rises all the same."""


def questions(name: str) -> Questions:
    """The task called ``name``. Raises ``ValueError`` for another, ``ImportError`` without the package it needs."""
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; choose one of {', '.join(TASKS)}")
    return _made(name)


@cache
def _made(name: str) -> Questions:
    return TASKS[name]()


def part(question: Question) -> Split:
    """The part that a question belongs to; about one in eight is held out."""
    return "heldout" if zlib.crc32(question.text.encode()) % HELDOUT_SHARE == 0 else "train"


def reward(task: Questions, question: Question, response: str, paid: Paid) -> float:
    """What a response earns.

    >>> add = questions("add")
    >>> asked = Question("What is 12 + 7? Answer with the number only.", "19")
    >>> [reward(add, asked, said, "right") for said in ("19", "12 + 7 = 19", "18")]
    [1.0, 1.0, 0.0]
    >>> [reward(add, asked, said, "format") for said in ("19", "12 + 7 = 19", "18")]  # a form that a wrong answer has
    [1.0, 0.5, 0.5]
    """
    if paid == "score":
        return task.score(question, response)
    right = float(task.right(question, response))
    return right if paid == "right" else (right + (_ONE_WORD.fullmatch(response) is not None)) / 2
