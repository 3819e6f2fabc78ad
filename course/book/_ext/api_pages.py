"""Directives that show what the package offers, from its docstrings, so that no page can fall behind the code.

| in a page | shows |
|---|---|
| ``api`` and a module, such as rlnotes.bounds.cpi | its public functions, classes and documented constants |
| ``commands`` | the commands of ``rlnotes``, with what each takes |
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROLE = re.compile(r":(?:func|class|meth|mod):`~?([^`]+)`")
LONGEST_DEFAULT = 40  # characters of a default value; a longer one says nothing that its name does not


def documented(module: ModuleType) -> Iterator[tuple[str, Any, str]]:
    """Name, object and docstring of what ``module`` defines for others, in the order of its file.

    The docstring of a constant is the string that stands below it.
    """
    body = ast.parse(inspect.getsource(module)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        name, docstring = "", ""
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, docstring = node.name, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docstring = inspect.cleandoc(str(after.value.value))
        if docstring and not name.startswith("_"):
            yield name, getattr(module, name), docstring


def markdown(docstring: str) -> list[str]:
    """``docstring`` as lines of Markdown: examples in fences, roles as code."""
    lines: list[str] = []
    inside = False
    for line in ROLE.sub(r"`\1`", docstring).splitlines():
        if line.startswith(">>>") and not inside:
            inside = True
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return [*lines, "```"] if inside else lines


def signature(name: str, thing: Any) -> str:
    """How ``thing`` is called, without annotations; a constant's name alone."""
    if not callable(thing) or (not inspect.isclass(thing) and not inspect.isroutine(thing)):
        return name
    try:
        found = inspect.signature(thing)
    except ValueError:  # an enumeration, a protocol
        return name
    shown = []
    for one in found.parameters.values():
        default = one.default
        if default is not one.empty and len(repr(default)) > LONGEST_DEFAULT:
            default = Ellipsis
        shown.append(one.replace(annotation=one.empty, default=default))
    return name + str(found.replace(parameters=shown, return_annotation=found.empty)).replace("Ellipsis", "...")


class _Documented(SphinxDirective):
    def entry(self, place: str, head: str, lines: list[str]) -> list[nodes.Node]:
        """An entry of a page: its head as code, with a place to link to, and below it ``lines`` of Markdown."""
        title = nodes.paragraph("", "", nodes.literal("", head), ids=[place], classes=["api-head"])
        body = nodes.container(classes=["api-body"])
        self.state.nested_parse(StringList(lines, source=place), 0, body)
        return [title, body]


class Api(_Documented):
    """The public part of one module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        module = import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        entries: list[nodes.Node] = []
        for name, thing, docstring in documented(module):
            place = nodes.make_id(f"{module.__name__}.{name}")
            entries += self.entry(place, signature(name, thing), markdown(docstring))
        return entries


class Commands(_Documented):
    """The command line."""

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        module = import_module("rlnotes.cli")
        self.env.note_dependency(str(module.__file__))
        entries: list[nodes.Node] = []
        for name, thing, docstring in documented(module):
            if not is_dataclass(thing):
                continue
            told = _told(thing)
            options = [f"- `{own.name.replace('_', '-')}`: {told.get(own.name, '')}" for own in fields(thing)]
            place = nodes.make_id(f"rlnotes-{name}")
            entries += self.entry(place, f"rlnotes {name.lower()}", [*markdown(docstring), "", *options])
        return entries


def _told(thing: type) -> dict[str, str]:
    """What stands below each field of a dataclass."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(thing)).body if isinstance(node, ast.ClassDef))
    found = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(node.target)] = " ".join(str(after.value.value).split())
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("api", Api)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
