"""The course in a real browser: the static book without a network, and JupyterLab with a kernel.

`make check` builds the book and runs these. Screenshots are left in `.book/screens/` for people to look at.
"""

# pyright: reportMissingImports=false
# Playwright comes with the extra `book`: where it is missing, its types are unknown and the rest is still checked.

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from rlnotes.chapters.explorers import EXPLORERS as MODELS
from rlnotes.notebook.explorer import ExactModel

if TYPE_CHECKING:
    from playwright import sync_api
else:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the extra `book` brings it")

ROOT = Path(__file__).parents[2]
BOOK = ROOT / ".book" / "html"
SCREENS = ROOT / ".book" / "screens"
CHAPTERS = ("00_start_here", "02_performance_difference", "04_conservative_policy_iteration", "07_grpo")
EXPLORERS: dict[str, int] = dict(zip(CHAPTERS, (1, 1, 2, 1), strict=True))

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::ResourceWarning")]


class Watched:
    """A page whose console errors and failed requests are kept."""

    def __init__(self, browser: sync_api.Browser, offline: bool = False):
        self.page = browser.new_page(viewport={"width": 1300, "height": 1000})
        self.errors: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("requestfailed", lambda request: self.errors.append(f"not found: {request.url}"))
        if offline:
            self.page.route(re.compile("^https?:"), lambda route: route.abort())


def picture(page: sync_api.Page, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png")


def move_by_keyboard(page: sync_api.Page, scope: str) -> None:
    """Five presses of the right arrow move the first slider of the first explorer, and its curve or its point."""
    explorer = page.locator(f"{scope} .rlnotes-explorer").first
    slider, shown = explorer.locator("input[type=range]").first, explorer.locator("output").first
    slider.scroll_into_view_if_needed()
    slider.focus()
    number, drawing = shown.text_content(), explorer.locator("svg.drawing").first.inner_html()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert shown.text_content() != number
    assert explorer.locator("svg.drawing").first.inner_html() != drawing


APART = """() => [...document.querySelectorAll(".rlnotes-explorer .panels > div")].every((panel) => {
  const key = panel.querySelector(".key"), names = [...key.children].map((name) => name.getBoundingClientRect());
  return names.length > 0 && key.scrollWidth <= key.clientWidth && names.every((one, i) =>
    names.slice(i + 1).every((other) => other.left >= one.right || other.top >= one.bottom));
})"""  # no name of a curve lies on another


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_book_is_alive_without_network_or_kernel(browser: sync_api.Browser, chapter: str, theme: str):
    path = BOOK / f"{chapter}.html"
    assert path.exists(), f"{path} is missing: run `make book` first"
    watched = Watched(browser, offline=True)
    page = watched.page
    page.add_init_script(f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')")
    page.goto(path.as_uri())
    page.wait_for_selector("mjx-container, .rlnotes-explorer")
    page.wait_for_timeout(1500)
    assert page.locator("html").get_attribute("data-theme") == theme
    assert page.locator("mjx-merror").count() == 0
    assert page.locator("mjx-container").count() > 5
    explorers = page.locator(".rlnotes-explorer")
    assert explorers.count() == EXPLORERS[chapter]
    assert page.evaluate(APART)
    move_by_keyboard(page, "body")
    if chapter.startswith("04"):  # an exact model rests without a kernel, and the page says so
        assert explorers.last.locator("input:disabled").count() == 3
        assert explorers.last.locator("path.curve").count() == 3
        assert page.get_by_text("need a running kernel").is_visible()
    picture(page, f"book_{chapter}_{theme}")
    assert watched.errors == []
    page.close()


@pytest.fixture(scope="module")
def folder_of_lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab(folder_of_lab: Path) -> Iterator[str]:
    """A JupyterLab on a copy of the course; gives its address."""
    folder = folder_of_lab
    for name in CHAPTERS:
        shutil.copy(ROOT / "course" / f"{name}.ipynb", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", str(folder), "--ip=127.0.0.1", f"--port={port}", "--no-browser"]
    options = ["--allow-root", "--IdentityProvider.token=token-of-the-test"]
    # settings of whoever runs the tests stay out, and theirs are not touched
    own = {f"JUPYTER{name}_DIR": str(folder / "settings") for name in ("_CONFIG", "LAB_SETTINGS", "LAB_WORKSPACES")}
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        server = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=os.environ | own | {"CI": ""})
        try:
            wait_for(port, server, folder / "log.txt")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(encoding="utf-8")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("JupyterLab did not start:\n" + log.read_text(encoding="utf-8"))


def scroll_to(page: sync_api.Page, found: sync_api.Locator) -> sync_api.Locator:
    """JupyterLab keeps only what is near the screen in the page: go down until ``found`` is there, again more slowly
    where a busy machine did not keep up.
    """
    panel = page.locator(".jp-WindowedPanel-outer").first
    for pause in (150, 600, 2000):
        for place in range(0, 40_000, 400):
            height = panel.evaluate("(panel, place) => { panel.scrollTop = place; return panel.scrollHeight; }", place)
            page.wait_for_timeout(pause)
            if found.count():
                found.first.scroll_into_view_if_needed()
                page.wait_for_timeout(500)
                return found.first
            if place > height:
                break
    raise AssertionError(f"{found} is nowhere on the page")


def cell_with(page: sync_api.Page, text: str) -> sync_api.Locator:
    return page.locator(".jp-Notebook .jp-CodeCell", has=page.locator(".cm-content", has_text=text))


def answer(page: sync_api.Page, mark: str, code: str) -> str:
    """Type ``code`` into the cell that holds ``mark``, run it, and return what it prints."""
    cell = cell_with(page, mark).first
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code)
    page.keyboard.press("Control+Enter")
    page.wait_for_timeout(1500)
    return cell.locator(".jp-OutputArea").inner_text()


def run_all(page: sync_api.Page, address: str) -> None:
    page.goto(f"{address}?token=token-of-the-test")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_timeout(2000)
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Escape")
    for _ in range(page.locator(".jp-Notebook .jp-Cell").count()):
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(60)


def test_the_grpo_chapter_in_jupyterlab(browser: sync_api.Browser, lab: str, folder_of_lab: Path):
    watched = Watched(browser)
    page = watched.page
    run_all(page, f"{lab}/doc/tree/07_grpo.ipynb")
    assert page.locator(".jp-Dialog").count() == 0
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(timeout=300_000)
    scroll_to(page, page.locator(".jp-OutputArea .rlnotes-explorer"))
    move_by_keyboard(page, ".jp-OutputArea")
    picture(page, "lab_explorer")
    assert "not yet" in scroll_to(page, cell_with(page, 'check("07.5"')).inner_text()
    assert "wrong" in answer(page, 'check("07.5"', 'that_hold = "abce"\n\ncheck("07.5", that_hold)')
    assert "right" in answer(page, 'check("07.5"', 'that_hold = "ace"\n\ncheck("07.5", that_hold)')
    picture(page, "lab_exercise")
    page.keyboard.press("Control+s")
    page.wait_for_timeout(3000)
    assert watched.errors == []
    page.close()
    saved = (folder_of_lab / "07_grpo.ipynb").read_text(encoding="utf-8")
    assert 'that_hold = \\"ace\\"' in saved
    assert "widget-view" not in saved  # or it would say "model not found" when it is opened again


SLOW = """
import time
import numpy as np
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel
class Slow(ExactModel):
    title, panels = "slow", (Axes("slow", "x", "y", (0, 1), (0, 1)),)
    controls, calls = (Control("x", "x", 0, 100, 1, 0),), 0
    def drawing(self, **values):
        time.sleep(0.25)
        self.calls += 1
        return f"{values['x']:g} after {self.calls}", [Drawn([("line", np.arange(2), np.arange(2))], [])]
explorer(Slow())
"""

WATCH = """(explorer) => {
  window.pressed = null;
  window.drawn = null;
  explorer.addEventListener("keydown", () => { window.pressed = performance.now(); window.drawn = null; }, true);
  const drawn = () => { window.drawn = performance.now() - window.pressed; };
  new MutationObserver(drawn).observe(explorer.querySelector(".panels"), { subtree: true, childList: true });
}"""  # milliseconds from a key to the last change of the picture
PRESSES, WARM_UP = 30, 2
LIMIT = 200  # milliseconds, the median, for a machine that does other things too; alone it is a fraction


def test_an_exact_model_follows_the_keys(browser: sync_api.Browser, lab: str, folder_of_lab: Path):
    """Every slider, to its ends and 30 steps between, from key to picture. A slow model keeps to the last key."""
    exact = [name for name, model in MODELS.items() if isinstance(model, ExactModel)]
    first = "from rlnotes.chapters.explorers import EXPLORERS\nfrom rlnotes.notebook import explorer"
    sources = [first, *(f"explorer(EXPLORERS[{name!r}])" for name in exact), SLOW]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, folder_of_lab / "exact.ipynb")
    watched = Watched(browser)
    page = watched.page
    run_all(page, f"{lab}/doc/tree/exact.ipynb")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(timeout=60_000)
    for name in exact:
        explorer = page.locator(f".jp-OutputArea .rlnotes-explorer[aria-label='{MODELS[name].title}']")
        explorer.wait_for(timeout=60_000)
        explorer.evaluate(WATCH)
        times: list[float] = []
        for slider in explorer.locator("input").all():
            slider.focus()
            for key in ["End", "Home"] + ["ArrowRight", "ArrowLeft"] * (PRESSES // 2):
                page.keyboard.press(key)
                page.wait_for_function("window.drawn !== null", timeout=10_000)
                page.wait_for_timeout(50)
                times.append(page.evaluate("window.drawn"))
            assert explorer.locator(".wrong").count() == 0
        print(
            f"{name}: key to picture {statistics.median(times[WARM_UP:]):.0f} ms, at most {max(times[WARM_UP:]):.0f} ms"
        )
        picture(page, f"lab_exact_{name}")
        assert statistics.median(times[WARM_UP:]) < LIMIT
    slow = page.locator(".jp-OutputArea .rlnotes-explorer[aria-label='slow']")
    slow.locator("input").focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(25)
    last = slow.locator(".said", has_text=re.compile("^40 after"))
    last.wait_for(timeout=10_000)
    assert int(last.inner_text().split()[-1]) <= 15  # of 40, and two before the first key
    assert watched.errors == []
    page.close()
