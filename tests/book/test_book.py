"""The static book: built from stored outputs without a warning, and complete without a network."""

import json
import os
import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.course.form import Page as Notebook

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "course"
NOTEBOOKS = [path for folder in (COURSE, COURSE / "deeper") for path in sorted(folder.glob("*.ipynb"))]
MATHJAX = "_static/mathjax/"  # comes from npm with `make book`, so it may be missing here
CHAPTERS = [path for path in NOTEBOOKS if path.stem != "errata"]
pytestmark = pytest.mark.extras


def name_of(path: Path) -> str:
    """The page of a notebook in the book, without its ending."""
    return path.relative_to(COURSE).with_suffix("").as_posix()


each = pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=name_of)


class Page(HTMLParser):
    """Tags with their attributes, ids, and the text that a reader sees, of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.unseen = False
        self.feed(path.read_text(encoding="utf-8"))
        self.ids = {values["id"] for _, values in self.tags if "id" in values}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self.unseen = tag in ("script", "style")

    def handle_endtag(self, tag: str):
        self.unseen = False

    def handle_data(self, data: str):
        self.text += "" if self.unseen else data

    def targets(self, *tags: str) -> list[str]:
        """What ``tags`` point at, data in the page itself left out."""
        found = [values.get("src") or values.get("href", "") for tag, values in self.tags if tag in tags]
        return [target for target in found if target and not target.startswith("data:")]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that `make check` built a moment ago, as RLNOTES_BOOK says, or else pages built here."""
    if built := os.environ.get("RLNOTES_BOOK"):
        return Path(built).resolve(strict=True)
    folder = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-c", ROOT / "course" / "book", "-d", folder / "doctrees"]
    result = subprocess.run(
        [*map(str, command), str(ROOT / "course"), str(folder / "html")],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(book: Path) -> dict[str, Page]:
    """By their places in the book."""
    found = {path.relative_to(book).as_posix(): Page(path) for path in book.rglob("*.html")}
    return {name: page for name, page in found.items() if not name.startswith("_static/")}


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def prose(path: Path) -> str:
    """The text of a page, in its order, with the Markdown that its cells print."""
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        outputs = [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", ())]
        found += outputs if cell["cell_type"] == "code" else [cell["source"]]
    return "\n".join(map("".join, found))


BESIDE = ("index", "bibliography", "concordance", "settings", "symbols", "verdicts")


def test_every_chapter_has_a_page_and_a_place_in_the_list(pages: dict[str, Page]):
    chapters = {f"{name_of(path)}.html" for path in NOTEBOOKS}
    assert chapters
    rooms = (f"book/api/{room}" for room in ("objectives", "estimators", "bounds", "exact", "commands"))
    others = (*rooms, "index", "search", *(f"book/{name}" for name in BESIDE))
    assert set(pages) == chapters | {f"{name}.html" for name in others}
    listed = set(pages["book/bibliography.html"].targets("a"))  # the side bar is on every page
    assert {f"../{chapter}" for chapter in chapters} <= listed


@each
def test_each_figure_is_there_once_with_its_alternative_text(pages: dict[str, Page], path: Path):
    outputs = [output for cell in cells(path, "code") for output in cell["outputs"]]
    stored = [output["metadata"]["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    pictures = [values for tag, values in pages[f"{name_of(path)}.html"].tags if tag == "img"]
    # a stored figure is a PNG; an SVG, as the curve of the real model, stands in the text
    shown = [
        picture["alt"] for picture in pictures if "_static/" not in picture["src"] and ".svg" not in picture["src"]
    ]
    assert shown == stored
    assert all(shown)


@each
def test_formulas_keep_their_numbers_and_solutions_their_code(pages: dict[str, Page], path: Path):
    page, text = pages[f"{name_of(path)}.html"], prose(path)
    assert re.findall(r"\\tag\{.*?\}", page.text) == re.findall(r"\\tag\{.*?\}", text)
    folds = text.count("<details>") + sum(
        "hide-input" in cell["metadata"].get("tags", []) for cell in cells(path, "code")
    )
    for output in (output for cell in cells(path, "code") for output in cell["outputs"]):
        folds += "".join(output.get("data", {}).get("text/html", "")).count("<details")
    assert sum(tag == "details" for tag, _ in page.tags) == folds
    assert "```" not in page.text and "$$" not in page.text


@each_chapter
def test_statements_and_exercises_stand_in_boxes(pages: dict[str, Page], path: Path):
    page, text = pages[f"{name_of(path)}.html"], prose(path)

    def kinds(box: dict[str, str]) -> list[str]:
        return [kind for kind in box["class"].split() if kind in ("proof", "monday")]

    boxes = [values for _, values in page.tags if "statement" in values.get("class", "").split()]
    quoted = re.findall(r"^> \*\*(Monday(?= card)|\w+)(?: card)? ?([\d.]*?)\.?\*\*", text, re.MULTILINE)
    assert [box.get("id") or kinds(box)[0] for box in boxes] == [
        f"{kind}-{number}".lower().replace(".", "-").rstrip("-") for kind, number in quoted
    ]
    chapter = str(int(path.stem[:2]))
    numbers = [number for _, number in quoted if number]
    places = [int(number.removeprefix(f"{chapter}.")) for number in numbers]
    assert places == sorted(set(places))  # that a chapter and its deeper page have each once: tests/course/form.py
    if not Notebook.read(path).is_second_edition:
        assert places == [*range(1, len(places) + 1)]
    exercises = re.findall(r"^### (\d\d)\.(\d+) ", text, re.MULTILINE)
    assert {f"exercise-{chapter}-{number}" for chapter, number in exercises} <= page.ids


@each_chapter
def test_a_number_in_the_text_leads_to_its_formula_and_a_paper_to_the_bibliography(pages: dict[str, Page], path: Path):
    page, text = pages[f"{name_of(path)}.html"], prose(path)
    links = page.targets("a")
    body = re.sub(r"\$\$.*?\$\$|\$.*?\$|`.*?`", "", text, flags=re.DOTALL)
    for number in set(re.findall(r"\\tag\{(\d+)\}", text)):
        assert f"equation-{number}" in page.ids
        assert (f"({number})" in body) <= (f"#equation-{number}" in links), f"({number}) is no link"
    papers = set(re.findall(r"https://arxiv\.org/abs/([\d.]+)", text))
    references = (ROOT / "course" / "book" / "refs.bib").read_text(encoding="utf-8")
    entries = set(re.findall(r"eprint = \{([\d.]+)\}", references))
    assert papers <= entries, "a paper of the text is missing in refs.bib"
    assert not any(link.startswith("https://arxiv.org") for link in links)


@each
def test_a_chapter_can_be_downloaded(pages: dict[str, Page], path: Path):
    depth = "../" * name_of(path).count("/")
    assert f"{depth}_sources/{name_of(path)}.ipynb" in pages[f"{name_of(path)}.html"].targets("a")


ADDRESSES = {"repository": "https://github.com/someone/course", "contact": "ask@example.org", "doi": "10.1234/x"}
OF_THE_PROJECT = re.compile(r"https://(?:github\.com|mybinder\.org|doi\.org)[^#]*|mailto:.*")


@pytest.mark.parametrize("values", [dict.fromkeys(ADDRESSES, ""), ADDRESSES], ids=["empty", "set"])
def test_an_address_is_shown_if_it_is_set_and_not_otherwise(tmp_path: Path, values: dict[str, str]):
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", str(tmp_path / "doctrees")]
    command += ["-c", str(ROOT / "course" / "book")]
    some = {"include_patterns": "book/index.md,book/bibliography.md,00_start_here.ipynb"} | values
    command += [argument for name, value in some.items() for argument in ("-D", f"{name}={value}")]
    target = tmp_path / "html"
    result = subprocess.run([*command, str(ROOT / "course"), str(target)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    names = ("book/index.html", "00_start_here.html")
    first, chapter = (
        {link for link in Page(target / name).targets("a") if OF_THE_PROJECT.match(link)} for name in names
    )
    assert "<!-- addresses -->" not in (target / "book" / "index.html").read_text(encoding="utf-8")
    if not any(values.values()):
        assert first == chapter == set()
        return
    place = "https://mybinder.org/v2/gh/someone/course/main?urlpath=lab/tree/course/00_start_here.ipynb"
    assert chapter == {values["repository"], place}
    mail = {link for link in first if link.startswith("mailto:")}
    assert {unquote(link) for link in mail} == {f"mailto:{values['contact']}"}
    assert first - mail == {values["repository"], "https://mybinder.org", f"https://doi.org/{values['doi']}"}


def test_nothing_is_loaded_from_elsewhere(book: Path, pages: dict[str, Page]):
    for name, page in pages.items():
        loaded = page.targets("script", "link", "img", "iframe", "source", "video", "audio")
        assert [target for target in loaded if re.match(r"(\w+:)?//", target)] == [], name
    for sheet in book.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_link_inside_leads_somewhere(book: Path, pages: dict[str, Page]):
    for name, page in pages.items():
        for target in page.targets("a", "link", "script", "img"):
            link = urlsplit(target)
            place = posixpath.join(posixpath.dirname(name), unquote(link.path))
            file = posixpath.normpath(place) if link.path else name
            if link.scheme or link.netloc or file.startswith(MATHJAX):
                continue
            assert (book / file).is_file(), f"{name} links to {target}"
            if link.fragment and file in pages:
                assert unquote(link.fragment) in pages[file].ids, f"{name} links to {target}"


def test_no_path_of_this_machine_is_in_the_book(book: Path):
    files = [path for kind in ("*.html", "*.js", "*.ipynb", "*.txt") for path in book.rglob(kind)]
    assert len(files) > len(NOTEBOOKS)
    for path in files:
        text = path.read_text(encoding="utf-8")
        for folder in (ROOT, book, Path(sys.prefix), Path.home()):
            assert f"{folder}/" not in text, f"{path.name} holds {folder}"
