"""A quiz in a real browser: by keyboard, in both themes, on a narrow screen, with no kernel, network or script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlnotes.notebook.quiz import Choice, Question, Quiz

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page  # pyright: ignore[reportMissingImports]

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::ResourceWarning")]

LONG = "a_name_that_is_far_too_long_for_a_narrow_screen_and_has_no_blank_in_it"
CHOICES = (
    Choice("one `x`", "Because of one."),
    Choice("two", f"Because of two, `{LONG}`.", right=True),
    Choice("three", "Because of three, x < y."),
)
QUIZ = Quiz("A small quiz", tuple(Question(f"Question {i}?", CHOICES) for i in range(1, 6)))
THEMES = {"light": "background: #fff; color: #222", "dark": "background: #121212; color: #ddd"}


def opened(browser: Browser, theme: str = "light", width: int = 1400, scripts: bool = True) -> Page:
    """Two quizzes on a page that cannot load anything."""
    page = browser.new_context(java_script_enabled=scripts, viewport={"width": width, "height": 900}).new_page()
    page.route("**/*", lambda route: route.abort())
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    body = f'<body style="{THEMES[theme]}">{QUIZ.fragment()}{QUIZ.fragment()}</body>'
    page.set_content(f'<!doctype html><html lang="en" data-theme="{theme}">{body}</html>')
    return page


def said(page: Page, question: int = 0) -> str:
    return page.locator(".said").nth(question).inner_text()


def test_it_is_answered_from_the_keyboard_alone(browser: Browser):
    page = opened(browser)
    page.keyboard.press("Tab")  # the first choice
    page.keyboard.press("Enter")
    assert said(page) == "Choose one first."
    page.keyboard.press("Space")
    assert said(page) == "Choose one first."  # to choose is not yet to answer
    page.keyboard.press("Enter")
    assert said(page) == "Not this one. Because of one."
    page.keyboard.press("ArrowDown")
    assert said(page) == "Not this one. Because of one."
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Check"
    page.keyboard.press("Space")
    assert said(page).startswith(f"Right. Because of two, {LONG}.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "one x Because of one." in said(page) and "three Because of three, x < y." in said(page)
    assert said(page).count("Because of two") == 1
    page.keyboard.press("Tab")
    assert (
        page.evaluate("document.activeElement.closest('form').querySelector('legend').textContent") == "2. Question 2?"
    )


def test_it_counts_what_was_right_at_the_first_try(browser: Browser):
    page = opened(browser)
    quiz = page.locator(".rlnotes-quiz").first
    for number, choices in enumerate([(1,), (0, 1), (1, 0), (2,)]):
        form = quiz.locator("form").nth(number)
        for choice in choices:
            form.locator("label").nth(choice).click()
            form.locator("button").click()
    assert quiz.locator("> p").last.inner_text() == "3 of 5 right, 2 at the first try."
    assert page.locator(".rlnotes-quiz").last.locator("> p").last.inner_text() == ""  # the other quiz is untouched
    assert page.locator("input:checked").count() == 4


def test_what_a_screen_reader_needs(browser: Browser):
    page = opened(browser)
    assert page.get_by_role("group", name="A small quiz").count() == 2
    for number in range(1, 6):
        group = page.get_by_role("group", name=f"{number}. Question {number}?").first
        assert group.get_by_role("radio").count() == 3
        for choice in ("one x", "two", "three"):
            assert group.get_by_role("radio", name=choice, exact=True).count() == 1
    assert page.get_by_role("button", name="Check").count() == 10
    assert page.locator(".said[aria-live=polite]").count() == 10
    assert page.locator("details").count() == 0  # no answer is there before it is asked for


def contrast(page: Page, selector: str) -> float:
    """Of the text of an element with the page's ground, by the formula of the WCAG."""
    colours = page.locator(selector).first.evaluate(
        "(node) => [getComputedStyle(node).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = []
    for colour in colours:
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", THEMES)
def test_it_can_be_read_in_both_themes_and_on_a_narrow_screen(browser: Browser, theme: str, width: int):
    page = opened(browser, theme, width)
    for number, choice in ((0, 1), (1, 0)):
        form = page.locator("form").nth(number)
        form.locator("label").nth(choice).click()
        form.locator("button").click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for selector in (".said.right strong", ".said:not(.right) strong", "label", "button", "legend"):
        assert contrast(page, selector) >= 4.5, selector
    page.locator("input:checked").first.focus()
    assert page.locator("label").nth(1).evaluate("(node) => getComputedStyle(node).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    assert page.locator("button").first.evaluate("(node) => getComputedStyle(node).outlineStyle") == "solid"


def test_without_scripts_every_choice_opens_on_its_explanation(browser: Browser):
    page = opened(browser, scripts=False)
    assert page.locator("input").count() == 0
    summaries = page.locator("summary")
    assert summaries.count() == 30
    explanation = page.locator("details").nth(1).locator("p")
    assert not explanation.is_visible()
    summaries.nth(1).focus()
    page.keyboard.press("Enter")
    assert explanation.is_visible() and explanation.inner_text().startswith("Right. Because of two")


def test_keys_stay_in_the_quiz(browser: Browser):
    """JupyterLab and the book's search take keys for themselves."""
    page = opened(browser)
    page.evaluate("window.heard = []; document.addEventListener('keydown', (event) => window.heard.push(event.key))")
    page.locator("input").first.focus()
    for key in ("ArrowDown", "Enter", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == []
