"""Tasks from the package reasoning-gym: its generators write the questions, its verifiers read the responses.

    task = ReasoningGym("gcd")  # or make_task("reasoning-gym/gcd")

The package is an extra, imported only when a task is made: ``pip install 'rlnotes[tasks]'``.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks.task import Examples, Task, Vocabulary

Entry = dict[str, Any]  # what a dataset yields: "question", "answer", and "metadata" for its verifier

EOS = "\x03"  # the control character "end of text"; a newline may be part of a question
PROMPT_LIMIT = 96  # tokens; attention to more than this is slow on a CPU
RESPONSE_LIMIT = 48  # tokens, EOS included
TRIAL = 200  # entries that show whether a dataset fits, before the whole table is generated


def chain_sum_options(size: int) -> Entry:
    """``12 + 7``: two numbers of at most ``size`` digits."""
    return dict(min_terms=2, max_terms=2, min_digits=1, max_digits=size)


def number_sorting_options(size: int) -> Entry:
    """``ascending order: 31.0, 8.0``: ``size`` whole numbers from 0 to 99."""
    return dict(min_numbers=size, max_numbers=size, max_decimals=0, min_value=0, max_value=99)


def spell_backward_options(size: int) -> Entry:
    """``river``: words of 3 to ``size`` letters."""
    return dict(min_word_len=3, max_word_len=size)


def gcd_options(size: int) -> Entry:
    """``98, 58.``: two numbers of at most ``size`` digits."""
    return dict(max_value=10**size - 1)


@dataclass(frozen=True)
class Sizes:
    """What ``size`` means for one dataset: its range, its default, and the keyword arguments that it stands for."""

    low: int
    high: int
    default: int
    options: Callable[[int], Entry]


SIZES: dict[str, Sizes] = {
    "chain_sum": Sizes(1, 6, 2, chain_sum_options),
    "number_sorting": Sizes(2, 5, 2, number_sorting_options),
    "spell_backward": Sizes(4, 10, 6, spell_backward_options),
    "gcd": Sizes(1, 6, 2, gcd_options),
}


@dataclass(frozen=True)
class Table:
    """Every entry of a task once.

    | field | shape | meaning |
    |---|---|---|
    | ``prompts`` | (N, P) | prompt tokens, blanks in front |
    | ``answers`` | (N, T) | one right answer to each, EOS to the end |
    | ``entries`` | | the dataset's own entry for each prompt, by its tokens |
    | ``vocabulary`` | | EOS, then the characters of the prompts and answers in order |
    | ``answer_characters`` | | the characters of the answers |
    """

    prompts: Tensor
    answers: Tensor
    entries: dict[tuple[int, ...], Entry]
    vocabulary: Vocabulary
    answer_characters: frozenset[str]


@dataclass(frozen=True)
class ReasoningGym(Task):
    """A dataset of reasoning-gym as a task: characters are tokens, and the dataset's own verifier gives the reward.

    | ``dataset`` | ``size`` is | prompt | answer |
    |---|---|---|---|
    | ``chain_sum`` | most digits of each of two numbers, 1 to 6; default 2 | ``12 - 7`` | ``5`` |
    | ``number_sorting`` | how many numbers, 2 to 5; default 2 | ``ascending order: 31.0, 8.0`` | ``['8.0', '31.0']`` |
    | ``spell_backward`` | letters of the longest word, 4 to 10; default 6 | ``river`` | ``revir`` |
    | ``gcd`` | most digits of each of two numbers, 1 to 6; default 2 | ``98, 58.`` | ``2`` |

    Any other dataset of the package has no ``size``; it is tried with the package's defaults. ``options`` are keyword
    arguments of the dataset, and come before those that ``size`` stands for. The four take about a second to make;
    for a dataset with a slow generator (``zebra_puzzles``) pass a smaller ``count``.

    **Prompts.** The ``count`` entries that the dataset generates from ``seed`` make a table, and each draw picks from
    it. The words that all questions begin or end with ("State the final answer to ...") tell the model nothing and
    are cut off. Shorter questions are filled with blanks on the left, up to one width. A question that comes twice
    is kept once. A held-out question is new as a text only: ``3 + 5`` may be held out and ``5 + 3`` trained on.

    **Reward.** Right or wrong: 1 if the response ended with EOS, the verifier's score is exactly 1, and the response
    uses only characters that occur in answers; else 0. Many verifiers give a part for a wrong response (a number next
    to the right one, half of the letters, a few hundredths for anything at all), and that part is not paid: it would
    reward writing something over writing the answer. The last condition closes a hole: ``number_sorting`` compares
    with a tolerance, nothing is outside the tolerance of ``nan``, and so it takes ``['nan', 'nan']`` as right.
    The tolerance itself stays: there, each number may be off by 1 as long as the order is right. RL finds that, too:
    compare ``score`` with ``equal_to_answer`` in ``benchmarks/results/reasoning_gym_tasks.json``.

    Raises ``ImportError`` without the package, and ``ValueError`` for an unknown dataset, a size out of range, or a
    dataset that does not fit: prompts of more than 96 tokens, responses of more than 48, or no entry with a text as
    an answer that its own verifier finds right.
    """

    dataset: str
    size: int | None = None
    options: Mapping[str, Any] | None = None
    count: int = 20_000
    seed: int = 0

    def __post_init__(self):
        self._table  # noqa: B018  so that what does not fit says so here, not at the first draw

    @property
    def vocabulary(self) -> Vocabulary:
        """EOS, then the characters of this table's prompts and answers."""
        return self._table.vocabulary

    @property
    def prompt_length(self) -> int:
        """Characters of the longest question, without the words that all share."""
        return self._table.prompts.shape[1]

    @property
    def max_response_length(self) -> int:
        """Characters of the longest answer, and EOS."""
        return self._table.answers.shape[1]

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Entries of the table, uniformly and with replacement."""
        rows = torch.randint(len(self._table.prompts), (n,), generator=generator)
        return Examples(self._table.prompts[rows], self._table.answers[rows])

    def reward(self, rollout: Rollout) -> Tensor:
        """1 where the response is right, else 0. Raises ``ValueError`` for a prompt that is not in the table."""
        keys = [tuple(prompt) for prompt in rollout.prompts.tolist()]
        ended = ~rollout.truncated(self.vocabulary.eos)
        rewards = [
            float(complete and self._is_right(self.vocabulary.decode(tokens), self._entry(keys[prompt])))
            for prompt, tokens, complete in zip(
                rollout.group.tolist(), rollout.tokens.tolist(), ended.tolist(), strict=True
            )
        ]
        return torch.tensor(rewards, device=rollout.tokens.device)

    def _is_right(self, response: str, entry: Entry) -> bool:
        return self._table.answer_characters.issuperset(response) and accepts(self._source, response, entry)

    def _entry(self, key: tuple[int, ...]) -> Entry:
        if key not in self._table.entries:
            raise ValueError(f"prompt {self.vocabulary.decode(list(key))!r} is not one of {self!r}")
        return self._table.entries[key]

    @cached_property
    def _source(self) -> Any:
        """The dataset object of the package. It makes entry i from seed + i alone."""
        package = import_reasoning_gym()
        check_name(self.dataset, package)
        options = size_options(self.dataset, self.size) | dict(self.options or {})
        try:
            with random_state_kept():
                return package.create_dataset(self.dataset, seed=self.seed, size=self.count, **options)
        except (AssertionError, TypeError) as error:  # how the package's configurations refuse a value or a name
            raise ValueError(f"{self.dataset} does not take the options {options}: {error}") from error

    @cached_property
    def _table(self) -> Table:
        # Fewer entries share more words, so a dataset that is too long in the trial is too long as a whole.
        make_table(self._source, self.dataset, min(TRIAL, self.count))
        return make_table(self._source, self.dataset, self.count)


def import_reasoning_gym() -> ModuleType:
    """The package. Raises ``ImportError`` with the command that installs it."""
    try:
        with random_state_kept():
            return import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise ImportError(
            "tasks called reasoning-gym/NAME need the package reasoning-gym: pip install 'rlnotes[tasks]'"
        ) from error


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the global generators of Python and NumPy back: the package draws from one on import, and seeds the other."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def check_name(dataset: str, package: ModuleType) -> None:
    """Raise ``ValueError`` unless reasoning-gym has a dataset of this name."""
    names = list(package.factory.DATASETS)
    if dataset not in names:
        near = get_close_matches(dataset, names) or list(SIZES)
        raise ValueError(
            f"reasoning-gym has no dataset {dataset!r}; did you mean {', '.join(near)}? "
            "reasoning_gym.factory.DATASETS names all"
        )


def size_options(dataset: str, size: int | None) -> Entry:
    """Keyword arguments of ``dataset`` for ``size``. Raises ``ValueError`` if it is out of range or has no meaning."""
    if dataset not in SIZES:
        if size is not None:
            raise ValueError(f"size has a meaning for {', '.join(SIZES)} only; leave it out for {dataset}")
        return {}
    sizes = SIZES[dataset]
    size = sizes.default if size is None else size
    if not sizes.low <= size <= sizes.high:
        raise ValueError(f"size is {size}; for {dataset} it must be between {sizes.low} and {sizes.high}")
    return sizes.options(size)


def accepts(source: Any, response: str, entry: Entry) -> bool:
    """Is the score of the dataset's own verifier exactly 1?

    Exactly: ``spell_backward`` adds up fractions, and gives a right word of nine letters with more behind it
    1.0000000000000002.
    """
    try:
        return source.score_answer(response, entry) == 1
    except Exception:  # some verifiers parse the response and do not catch what that raises
        return False


def make_table(source: Any, dataset: str, count: int) -> Table:
    """Table of the first ``count`` entries of ``source``. Raises ``ValueError`` if they do not fit, see the class."""
    with random_state_kept():
        generated = [source[i] for i in range(count)]
        usable = [entry for entry in generated if has_answer(source, entry)]
    if not usable:
        raise ValueError(
            f"{dataset}: none of {count} entries has a text as an answer that its verifier finds right; "
            f"choose another dataset, for instance {', '.join(SIZES)}"
        )
    entries = by_prompt(usable)
    answers = [entry["answer"] for entry in entries.values()]
    width, length = len(next(iter(entries))), 1 + max(map(len, answers))
    check_length(dataset, "prompts", width, PROMPT_LIMIT)
    check_length(dataset, "responses", length, RESPONSE_LIMIT)
    vocabulary = Vocabulary(EOS + "".join(sorted(set("".join(entries) + "".join(answers) + " "))))
    prompts = encode_all(list(entries), vocabulary)
    return Table(
        prompts=prompts,
        answers=encode_all([answer.ljust(length, EOS) for answer in answers], vocabulary),
        entries=dict(zip(map(tuple, prompts.tolist()), entries.values(), strict=True)),
        vocabulary=vocabulary,
        answer_characters=frozenset("".join(answers)),
    )


def has_answer(source: Any, entry: Entry) -> bool:
    """Does the entry come with an answer that is text and that its verifier finds right?"""
    answer = entry["answer"]
    return isinstance(answer, str) and answer != "" and accepts(source, answer, entry)


def by_prompt(entries: list[Entry]) -> dict[str, Entry]:
    """Entries by prompt, all prompts of one width; the first of those that share a prompt."""
    short = without_shared_words([entry["question"] for entry in entries])
    width = max(map(len, short))
    prompts: dict[str, Entry] = {}
    for question, entry in zip(short, entries, strict=True):
        prompts.setdefault(question.rjust(width), entry)
    return prompts


def without_shared_words(questions: list[str]) -> list[str]:
    """Cut off the words, up to the last blank or line end, that all questions begin with, and likewise the end.

    Only whole words: numbers that all end in ``.0`` keep it.
    """
    begin = through_last_space(shared_start(questions))
    rest = [question.removeprefix(begin) for question in questions]
    end = through_last_space(shared_start([question[::-1] for question in rest]))[::-1]
    return [question.removesuffix(end) for question in rest]


def shared_start(texts: list[str]) -> str:
    """The characters that all ``texts`` begin with: those that the first and the last in order have in common."""
    first, last = min(texts), max(texts)
    different = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(different, len(first))]


def through_last_space(text: str) -> str:
    """``text`` up to its last white space, that included; empty if there is none."""
    return text[: max((i + 1 for i, character in enumerate(text) if character.isspace()), default=0)]


def encode_all(texts: list[str], vocabulary: Vocabulary) -> Tensor:
    """(N, n) tokens of N texts of one length."""
    token = {character: i for i, character in enumerate(vocabulary.characters)}
    return torch.tensor([[token[character] for character in text] for text in texts])


def check_length(dataset: str, what: str, length: int, limit: int) -> None:
    """Raise ``ValueError`` if the longest of ``what`` is above the limit."""
    if length > limit:
        raise ValueError(
            f"{dataset}: {what} have up to {length} tokens and the limit is {limit}; make them shorter with size or "
            "options (keyword arguments of the dataset), or choose another dataset"
        )
