"""How long from a key to the redrawn curve? Each explorer on a bare page, in Chromium: 20 moves after two to warm up.

The time runs from the keydown event to the last change of the drawing that follows it, in the page's own clock.
"""

# pyright: reportMissingImports=false
# Playwright comes with the extra `book`.

import os
import shutil
import statistics
import tempfile
from pathlib import Path

from benchmarks.common import Environment, Json, installed, write_result
from rlnotes.chapters.explorers import EXPLORERS

NAME = "explorer_moves"
MOVES, WARM = 20, 2
GOAL: Json = dict(median_milliseconds=10)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]

WATCH = """() => {
  const root = document.querySelector('.rlnotes-explorer');
  window.moves = [];
  root.addEventListener('keydown', () => window.moves.push([performance.now(), 0]), true);
  new MutationObserver(() => { const m = window.moves.at(-1); if (m) m[1] = performance.now(); })
    .observe(root.querySelector('.panels'), { subtree: true, childList: true, attributes: true });
}"""


def moves(page, fragment: str) -> list[float]:
    """Milliseconds of each counted move of the first slider."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><body>{fragment}</body>", encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(".rlnotes-explorer")
        page.evaluate(WATCH)
        page.locator("input[type=range]").first.focus()
        for i in range(MOVES + WARM):
            page.keyboard.press("ArrowLeft" if i % 2 else "ArrowRight")  # to and fro: no end of a slider is reached
            page.wait_for_timeout(60)
        times = [redrawn - pressed for pressed, redrawn in page.evaluate("window.moves")]
    if len(times) != MOVES + WARM or min(times) < 0:
        raise RuntimeError(f"{len(times)} moves were seen, and some drew nothing: {times}")
    return times[WARM:]


def main() -> None:
    from playwright.sync_api import sync_playwright

    environment = Environment(f"python -m benchmarks.{NAME}")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    numbers: Json = {"playwright": installed("playwright"), "explorers": {}}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        page = browser.new_page()
        numbers["chromium"] = browser.version
        for name, model in EXPLORERS.items():
            times = moves(page, model.fragment(model.defaults())[0]["text/html"])
            numbers["explorers"][name] = dict(median=statistics.median(times), largest=max(times), moves=len(times))
            print(f"{name}: median {statistics.median(times):.1f} ms, largest {max(times):.1f} ms")
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
