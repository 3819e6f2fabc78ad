"""Examples of docstrings: they print what they say, and whatever a chapter shows of the package has one on a page."""

import ast
import doctest
import importlib.util
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import nbformat
import pytest

from rlnotes import cli
from rlnotes.bounds import audit
from rlnotes.chapters.studies import COMPARISONS
from rlnotes.objectives import RECIPES
from rlnotes.studies import runner
from tests.studies.pools import Here

ROOT = Path(__file__).parents[1]
RECIPE_MODULES = tuple(f"rlnotes.objectives.recipes{part}" for part in ("", "_trust_region"))
DIVERGENCES = ("rlnotes.exact.divergences", "rlnotes.exact.token_divergences")
PARTS = ("rlnotes.estimators", "rlnotes.objectives", "rlnotes.bounds", *DIVERGENCES)  # what must have examples
COMMAND = re.compile(r"^\s*\$ (rlnotes .*)$", re.MULTILINE)


def _docstrings() -> ModuleType:
    """The file with which the book reads docstrings."""
    path = ROOT / "course" / "book" / "_ext" / "docstrings.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCSTRINGS = _docstrings()


# --- Every example prints what it says


def public(module: ModuleType) -> dict[str, Any]:
    """The names that ``from ... import *`` brings, for an example to use."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def examples_of(module: ModuleType) -> Iterator[doctest.DocTest]:
    """Those of the module, its functions, classes and methods, and of its documented constants."""
    for test in doctest.DocTestFinder().find(module, globs=public(module)):
        if test.examples:
            yield test
    for name, thing, docstring in DOCSTRINGS.documented(module):
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            title = f"{module.__name__}.{name}"
            test = doctest.DocTestParser().get_doctest(docstring, public(module), title, module.__file__, None)
            if test.examples:
                yield test


def modules() -> list[ModuleType]:
    """Modules whose files hold an example."""
    files = sorted((ROOT / "rlnotes").rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("") for path in files if ">>> " in path.read_text(encoding="utf-8"))
    return [import_module(".".join(name.parts).removesuffix(".__init__")) for name in names]


EXAMPLES = {test.name: test for module in modules() for test in examples_of(module)}


def failures(test: doctest.DocTest) -> str:
    """What went wrong, as doctest says it; nothing if all is well."""
    said: list[str] = []
    # the examples stay, for another run
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name: str):
    assert not failures(EXAMPLES[name])


def test_examples_are_found_below_constants_too():
    assert {"rlnotes.objectives.recipes.GRPO", "rlnotes.estimators.baselines.group_mean"} <= set(EXAMPLES)
    assert "rlnotes.objectives.loss.Choices.pushes" in EXAMPLES


@pytest.mark.parametrize("name", ["rlnotes.objectives.recipes.GRPO", "rlnotes.estimators.baselines.group_mean"])
def test_another_number_is_a_failure(name: str):
    test = EXAMPLES[name]
    last = test.examples[-1]
    wrong = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), last.want)
    assert wrong != last.want
    changed = [*test.examples[:-1], doctest.Example(last.source, wrong)]
    found = failures(doctest.DocTest(changed, dict(test.globs), name, test.filename, None, None))
    assert "Expected" in found and "Got" in found


# --- What chapters show has an example, on a page


def used(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of what the code imports from ``PARTS``, and of attributes that it reads of what it imports."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PARTS):
            for one in node.names:
                yield node.module, one.name
                imported[one.asname or one.name] = f"{node.module}.{one.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield imported[node.value.id], node.attr


def code(path: Path) -> ast.AST:
    """All code cells of a notebook as one program, without the lines that are no Python."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", "\n".join(cells)))


def shown() -> list[str]:
    """Functions and classes of ``PARTS`` in the code of chapters, by the names with which their modules define them."""
    found = set()
    for path in sorted((ROOT / "course").rglob("[0-9]*.ipynb")):
        for module, name in used(code(path)):
            try:
                thing = getattr(import_module(module), name)
            except ModuleNotFoundError:  # an attribute of a thing, not of a module
                continue
            shows = inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception))
            if shows and thing.__module__.startswith(PARTS):
                found.add(f"{thing.__module__}.{thing.__name__}")
    return sorted(found)


SHOWN = shown()
PAGES = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "course" / "book" / "api").glob("*.md"))


def test_what_chapters_show_is_found():
    assert {"rlnotes.estimators.returns.gae", "rlnotes.objectives.loss.policy_loss", "rlnotes.bounds.cpi.step"} <= set(
        SHOWN
    )


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_chapter_shows_has_an_example_on_a_page(name: str):
    assert name in EXAMPLES
    assert f"{{api}} {name.rpartition('.')[0]}\n" in PAGES


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_an_example_on_a_page(name: str):
    (module,) = (module for module in RECIPE_MODULES if f"{module}.{name.upper()}" in EXAMPLES)
    assert f"{{api}} {module}\n" in PAGES


# --- Commands


class Command(NamedTuple):
    """A command with its example, cut into arguments."""

    name: str
    arguments: list[str]


def commands() -> list[Command]:
    """Those of ``rlnotes``, with the example in the docstring of each."""
    found = []
    for annotated in get_args(cli.COMMANDS):
        thing = get_args(annotated)[0]
        (example,) = COMMAND.findall(inspect.getdoc(thing) or "")
        found.append(Command(thing.__name__.lower(), shlex.split(example)))
    return found


COMMANDS = {command.name: command for command in commands()}
AFTER_TRAIN = ("resume", "sample", "read")  # they read the run that the example of train makes


def run(monkeypatch: pytest.MonkeyPatch, name: str) -> int:
    monkeypatch.setattr(sys, "argv", COMMANDS[name].arguments)
    return cli.main()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.extras] * (name == "real")) for name in COMMANDS]
)
def test_the_example_of_a_command_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys):
    """The example itself; for two of them what they go through is cut down, not what they are told."""
    monkeypatch.chdir(tmp_path)
    assert COMMANDS[name].arguments[:2] == ["rlnotes", name]
    small = {
        key: replace(one, tokens=500, methods=dict([*one.methods.items()][:1])) for key, one in COMPARISONS.items()
    }
    for key, one in small.items():
        monkeypatch.setitem(COMPARISONS, key, one)
    monkeypatch.setattr(audit, "CLAIMS", audit.CLAIMS[:2])
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Here)
    if name == "real":
        from tests.bridge.with_model import tiny

        tiny.folder(tmp_path / "model")
    if name in AFTER_TRAIN:
        assert run(monkeypatch, "train") == 0
    assert run(monkeypatch, name) == 0
    out = next(
        (after for option, after in pairwise(COMMANDS[name].arguments) if option in ("--out", "--csv", "--html")), None
    )
    assert capsys.readouterr().out or out
    assert out is None or (tmp_path / out).exists()
