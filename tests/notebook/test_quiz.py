"""Quizzes: what is declared is whole, and what is stored can be read with no script. Their script: tests/browser."""

import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlnotes.notebook.quiz import Choice, Question, Quiz, quiz

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path.parent.name.removeprefix("c") for path in ROOT.glob("rlnotes/chapters/c*/quiz.py"))
each = pytest.mark.parametrize("chapter", CHAPTERS)
VOID = {"br", "img", "input"}
CHOICES = (Choice("one", "why one"), Choice("two", "why `two`", right=True), Choice("3 < 4 & 5", "why three"))
SMALL = Quiz("A <small> quiz", tuple(Question(f"Question {i}: `x < y`?", CHOICES) for i in range(5)))


def load(chapter: str) -> Quiz:
    return import_module(f"rlnotes.chapters.c{chapter}.quiz").QUIZ


class Page(HTMLParser):
    """Reads a page and keeps what is in it; raises where a tag is closed that is not the last one open."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.words.append(data)


@each
def test_there_are_five_questions_with_an_explanation_for_every_choice(chapter: str):
    found = load(chapter)
    assert len(found.questions) == 5
    for question in found.questions:
        assert [choice.right for choice in question.choices].count(True) == 1
        explained = [choice.why for choice in question.choices]
        assert len(set(explained)) == len(explained) >= 3
        assert all(len(why.split()) >= 5 and why.endswith(".") for why in explained)


@each
def test_the_right_choice_is_not_to_be_had_by_its_place(chapter: str):
    places = [[c.right for c in question.choices].index(True) for question in load(chapter).questions]
    assert len(set(places)) >= 3 and places[0] != 0


@pytest.mark.parametrize("found", [*map(load, CHAPTERS), SMALL], ids=[*CHAPTERS, "small"])
def test_the_page_is_whole_without_its_script(found: Quiz):
    fragment = found.fragment()
    page = Page(fragment)
    choices = sum(len(question.choices) for question in found.questions)
    assert page.tags.count("details") == page.tags.count("summary") == choices
    assert page.tags.count("li") == 5 and page.tags.count("script") == 1
    shown = "".join(page.words)
    for question in found.questions:
        for text in (question.text, *(t for c in question.choices for t in (c.text, c.why))):
            assert text.replace("`", "") in shown
    assert fragment.count('class="right"') == 5
    assert "http:" not in fragment and "https:" not in fragment
    assert len(fragment) < 20_000


def test_code_stands_in_backticks_and_nothing_else_is_markup():
    fragment = SMALL.fragment()
    assert "<code>x &lt; y</code>" in fragment and "why <code>two</code>" in fragment
    assert "3 &lt; 4 &amp; 5" in fragment and 'aria-label="A &lt;small&gt; quiz"' in fragment


def test_the_plain_text_asks_and_does_not_answer():
    lines = SMALL.text().splitlines()
    assert lines[:5] == ["A <small> quiz", "1. Question 0: `x < y`?", "   - one", "   - two", "   - 3 < 4 & 5"]
    assert len(lines) == 1 + 5 * 4


def test_one_call_shows_it(monkeypatch: pytest.MonkeyPatch):
    shown = []
    monkeypatch.setitem(sys.modules, "rlnotes.chapters.c98.quiz", SimpleNamespace(QUIZ=SMALL))
    monkeypatch.setattr(import_module("rlnotes.notebook.quiz"), "display", lambda data, raw: shown.append((data, raw)))
    quiz("98")
    assert shown == [({"text/html": SMALL.fragment(), "text/plain": SMALL.text()}, True)]


def test_a_chapter_without_one_says_which():
    with pytest.raises(ModuleNotFoundError, match=r"rlnotes\.chapters\.c99"):
        quiz("99")


ONE, TWO, THREE = CHOICES


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Question("Why?", (ONE, TWO)), r"'Why\?' has the choices \['one', 'two'\]; at least three"),
        (lambda: Question("Why?", (ONE, TWO, ONE)), "no two alike"),
        (lambda: Question("Why?", (ONE, THREE, Choice("x", "y"))), r"the right choices \[\]; mark one"),
        (lambda: Question("Why?", (ONE, TWO, Choice("x", "y", right=True))), r"right choices \['two', 'x'\]; mark one"),
        (lambda: Question("Why?", (ONE, TWO, Choice("x", " "))), r"choice 'x' needs a text, and in `why`"),
        (lambda: Quiz("Short", SMALL.questions[:4]), "quiz 'Short' has 4 questions; it must have 5"),
    ],
)
def test_what_is_not_whole_is_refused(made: Callable[[], object], said: str):
    with pytest.raises(ValueError, match=said):
        made()


def test_the_script_can_stand_in_a_page():
    script = (ROOT / "rlnotes" / "notebook" / "js" / "quiz.js").read_text(encoding="utf-8")
    assert "</script" not in script and "<!--" not in script


@pytest.mark.parametrize("path", sorted(ROOT.glob("course/*.ipynb")), ids=lambda path: path.stem)
def test_a_chapter_shows_the_quiz_that_it_has_as_it_is_now(path: Path):
    """One cell, `quiz("06")`, and the stored output is that of the declaration."""
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    for cell in cells:
        for number in re.findall(r'^quiz\("(\d\d)"\)', "".join(cell["source"]), re.MULTILINE):
            (output,) = cell["outputs"]
            assert path.stem.startswith(number)
            assert "".join(output["data"]["text/html"]) == load(number).fragment()
