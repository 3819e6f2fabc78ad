"""The repository as a whole: set-up, pins, README, citations."""

import csv
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.course.form import Page

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def test_everything_that_is_required_is_pinned():
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {canonical(re.split(r"[\[<>=!~;]", requirement)[0]) for requirement in wanted} - {"rlnotes"}
    assert names <= set(pins())


def test_torch_is_pinned_without_a_local_label():
    """2.13.0+cpu exists on PyTorch's own index only; the plain version resolves anywhere."""
    assert pins()["torch"] == "2.13.0"
    assert not any("+" in version for version in pins().values())


def test_extras_have_their_names():
    assert set(PYPROJECT["project"]["optional-dependencies"]) == {
        "lab", "test", "book", "dev", "peers", "tasks", "bridge", "real"
    }  # fmt: skip


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_commands_that_are_named_exist():
    texts = [README, WORKFLOW.read_text(encoding="utf-8")]
    texts += [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", ".ci/run")]
    named = {target for text in texts for target in re.findall(r"(?:^|`|run: )make ([a-z]+)", text, re.MULTILINE)}
    assert {"lab", "test", "check"} <= named <= make_targets()


def test_ci_runs_both_and_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in commands and "make check" in commands


@pytest.mark.parametrize(
    ("schema", "name"),
    [("vendor.github-workflows", ".github/workflows/ci.yml"), ("vendor.citation-file-format", "CITATION.cff")],
)
def test_files_that_others_read_have_the_right_form(schema: str, name: str):
    result = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(ROOT / name)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


CHAPTERS = sorted(path.stem for path in (ROOT / "course").glob("[0-9][0-9]_*.ipynb"))


def test_readme_lists_all_chapters_in_order():
    assert len(CHAPTERS) >= 19
    assert re.findall(r"^\| \[?(\d\d) ", README, re.MULTILINE) == [name[:2] for name in CHAPTERS]


def test_the_readme_says_which_edition_a_chapter_is_of():
    """A chapter of the second edition says so itself, and has a deeper page."""
    rows = re.findall(r"^\| \[\d\d [^]]*\]\(course/(\w+)\.ipynb\) \|.*\| ([^|]*) \|$", README, re.MULTILINE)
    assert [chapter for chapter, _ in rows] == CHAPTERS
    for chapter, status in rows:
        assert status in ("first edition", "second edition"), chapter
        page = Page.read(ROOT / "course" / f"{chapter}.ipynb")
        assert page.is_second_edition == (status == "second edition"), chapter
        assert page.partner.exists() or not page.is_second_edition, chapter


def test_every_deeper_page_belongs_to_a_chapter():
    assert {path.stem for path in (ROOT / "course" / "deeper").glob("*.ipynb")} <= set(CHAPTERS)


CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
HOSTS = r"(?:github|gitlab|bitbucket|codeberg)\.(?:com|io|org)/[\w.-]*/?rlnotes|mybinder\.org|zenodo\.org|doi\.org"
ADDRESS = re.compile(
    rf"https?://(?:[\w-]+\.)*(?:{HOSTS})[\w./-]*|img\.shields\.io|mailto:[\w.@-]+|doi: ?10\.[\w./-]+", re.I
)


def not_set(text: str, citation: str) -> list[str]:
    """Addresses of the project in ``text`` that do not stand in the citation file."""
    known = re.findall(r"^(?:repository-code|doi): *[\"']?([^\s\"']+)|^ +-? *email: *(\S+)", citation, re.MULTILINE)
    shown = [value for pair in known for value in pair if value]
    return [found for found in ADDRESS.findall(text) if not any(value in found for value in shown)]


SET = (
    "repository-code: https://github.com/someone/rlnotes\ndoi: 10.5281/zenodo.1\ncontact:\n  - email: ask@example.org\n"
)
ALL = "https://github.com/someone/rlnotes mailto:ask@example.org https://doi.org/10.5281/zenodo.1"


@pytest.mark.parametrize(("citation", "wrong"), [("", ALL.split()), (SET, [])], ids=["empty", "set"])
def test_an_address_counts_as_promised_unless_it_is_set(citation: str, wrong: list[str]):
    assert not_set(ALL, citation) == wrong
    assert not_set("https://github.com/other/rlnotes", citation) == ["https://github.com/other/rlnotes"]
    assert not_set("[sources](https://arxiv.org/abs/2602.04879), https://github.com/huggingface/trl", citation) == []


def test_no_page_or_badge_shows_an_address_that_is_not_set():
    """The project's address, contact and DOI stand in CITATION.cff or nowhere: none has been checked."""
    patterns = ("*.md", "*.toml", "CITATION.cff", "binder/*", ".github/**/*.yml", "benchmarks/*.md")
    patterns += (
        "course/*.ipynb",
        "course/book/*.md",
        "course/book/*.py",
        "course/book/**/*.ipynb",
        "course/book/api/*",
        "course/deeper/*",
        "rlnotes/**/*.py",
    )
    files = [path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]
    assert len(files) > 100
    wrong = {path.name: found for path in files if (found := not_set(path.read_text(encoding="utf-8"), CITATION))}
    assert wrong == {}


def test_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md"):
        path = ROOT / name
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{name} links to {target}"


def test_readme_shows_code_that_runs():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    exec(code.group(1).replace("steps=60", "steps=1, prompts=4"), {})


def test_every_chapter_file_is_in_the_readme_and_the_other_way():
    linked = set(re.findall(r"course/(\w+\.ipynb)", README))
    assert linked == {path.name for path in (ROOT / "course").glob("*.ipynb")}


CITED = re.compile(r"\b(00[0-4]),? (?:eqs?\.|equations?) ((?:\(\d+\)(?:, | to | and )?)+)")


def cited(text: str) -> set[tuple[str, str]]:
    """(source, equation number) of every citation such as "002 eqs. (90), (91)" or "002 eqs. (98) to (100)"."""
    return {(source, number) for source, list_ in CITED.findall(text) for number in re.findall(r"\d+", list_)}


def test_cited_equations_exist():
    with (ROOT / "course" / "book" / "inventory.csv").open(encoding="utf-8", newline="") as file:
        known = {(row["seed"][:3], label) for row in csv.DictReader(file) for label in row["label"].split(" / ")}
    found = {
        citation
        for pattern in ("rlnotes/**/*.py", "course/*.ipynb", "course/deeper/*.ipynb")
        for path in ROOT.glob(pattern)
        for citation in cited(path.read_text(encoding="utf-8"))
    }
    assert len(found) >= 10
    assert {(source, number) for source, number in found if (source, f"eq ({number})") not in known} == set()


def test_text_is_read_as_utf_8_everywhere():
    """A file with a Greek letter and a curly quote must not depend on the system's code page."""
    code = "import rlnotes.lm.trainer, rlnotes.notebook, rlnotes.cli; print('fine')"
    result = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning:rlnotes", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.stdout.strip() == "fine", result.stderr


def test_nothing_is_pickled_and_no_seed_is_global():
    forbidden = r"import pickle|torch\.(save|load)\(|torch\.manual_seed|np\.random\.(seed|rand)|random\.seed\("
    for path in ROOT.glob("rlnotes/**/*.py"):
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path


def test_make_quick_looks_into_every_room():
    files = (ROOT / "Makefile").read_text(encoding="utf-8").split("ROOMS     := $(addprefix tests/,")[1].split(")\n")[0]
    named = files.replace("\\", "").split()
    assert all((ROOT / "tests" / name).is_file() for name in named)
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert {name.split("/")[0] for name in named if "/" in name} == rooms - {"book", "browser"}  # which need extras
