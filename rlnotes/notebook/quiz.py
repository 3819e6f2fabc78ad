"""A quiz at the end of a chapter: questions with a few choices, and a sentence on every choice.

It needs no kernel and no network. What a cell shows, and a notebook stores, is a list of choices that open, each with
its explanation below; where scripts run, ``js/quiz.js`` makes radio buttons of it, which commit before they explain.
"""

import html
import re
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files

from IPython.display import display

QUESTIONS = 5


@dataclass(frozen=True)
class Choice:
    """One answer, and ``why`` it is right or what speaks against it. In both, \\`code\\` stands in backticks."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A question with at least three choices, one of them right."""

    text: str
    choices: tuple[Choice, ...]

    def __post_init__(self):
        texts = [choice.text for choice in self.choices]
        if len(set(texts)) < max(3, len(texts)):
            raise ValueError(f"{self.text!r} has the choices {texts}; at least three are needed, no two alike")
        if sum(choice.right for choice in self.choices) != 1:
            right = [choice.text for choice in self.choices if choice.right]
            raise ValueError(f"{self.text!r} has the right choices {right}; mark one, and one only, with right=True")
        for choice in self.choices:
            if not choice.text.strip() or not choice.why.strip():
                raise ValueError(f"{self.text!r}: choice {choice.text!r} needs a text, and in `why` an explanation")


@dataclass(frozen=True)
class Quiz:
    """The questions of a chapter."""

    title: str
    questions: tuple[Question, ...]

    def __post_init__(self):
        if len(self.questions) != QUESTIONS:
            raise ValueError(f"quiz {self.title!r} has {len(self.questions)} questions; it must have {QUESTIONS}")

    def fragment(self) -> str:
        """The quiz as a piece of a page with its script."""
        script = files("rlnotes.notebook").joinpath("js", "quiz.js").read_text(encoding="utf-8")
        items = "".join(map(_item, self.questions))
        return (
            f'<div class="rlnotes-quiz" role="group" aria-label="{html.escape(self.title)}">'
            f"<p><strong>{_inline(self.title)}</strong></p><ol>{items}</ol><script>{script}</script></div>"
        )

    def text(self) -> str:
        """The questions and choices in plain text, without the answers."""
        lines = [self.title]
        for number, question in enumerate(self.questions, 1):
            lines += [f"{number}. {question.text}", *(f"   - {choice.text}" for choice in question.choices)]
        return "\n".join(lines)


def _item(question: Question) -> str:
    choices = "".join(
        f'<details class="{"right" if c.right else "wrong"}"><summary>{_inline(c.text)}</summary>'
        f"<p><strong>{'Right' if c.right else 'Not this one'}.</strong> {_inline(c.why)}</p></details>"
        for c in question.choices
    )
    return f"<li><p>{_inline(question.text)}</p>{choices}</li>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def quiz(chapter: str) -> None:
    """Show the quiz of a chapter, "06" for example: ``QUIZ`` in ``rlnotes/chapters/c06/quiz.py``.

    Raises ``ModuleNotFoundError`` if the chapter has none.
    """
    found: Quiz = import_module(f"rlnotes.chapters.c{chapter}.quiz").QUIZ
    display({"text/html": found.fragment(), "text/plain": found.text()}, raw=True)
