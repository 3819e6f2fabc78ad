"""Directives that show what the package offers, from its docstrings, so that no page can fall behind the code.

| in a page | shows |
|---|---|
| ``api`` and a module, such as rlnotes.bounds.cpi | its docstring; its public functions, classes, constants |
| ``commands`` | the commands of ``rlnotes``, with what each takes |
"""

import inspect
import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docstrings import documented, told

ROLE = re.compile(r":(?:func|class|meth|mod):`~?([^`]+)`")
LONGEST_DEFAULT = 40  # characters of a default value; a longer one says nothing that its name does not


def markdown(docstring: str) -> list[str]:
    """``docstring`` as lines of Markdown: examples and commands in fences, roles as code."""
    lines: list[str] = []
    inside = False
    for line in ROLE.sub(r"`\1`", docstring).splitlines():
        if line.startswith((">>>", "$ ")) and not inside:
            inside = True
            lines += ["", "```pycon" if line.startswith(">>>") else "```console"]
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
        if inspect.isroutine(default):
            default = _Name(default.__name__)
        elif default is not one.empty and len(repr(default)) > LONGEST_DEFAULT:
            default = Ellipsis
        if one.name != "self":
            shown.append(one.replace(annotation=one.empty, default=default))
    return name + str(found.replace(parameters=shown, return_annotation=found.empty)).replace("Ellipsis", "...")


class _Name(str):
    """Shown without quotes."""

    __repr__ = str.__str__


class _Documented(SphinxDirective):
    def entry(self, place: str, head: str, lines: list[str]) -> list[nodes.Node]:
        """An entry of a page: its head as code, with a place to link to, and below it ``lines`` of Markdown."""
        title = nodes.paragraph("", "", nodes.literal("", head), ids=[place], classes=["api-head"])
        return [title, self.shown(place, lines, "api-body")]

    def shown(self, place: str, lines: list[str], *classes: str) -> nodes.Node:
        """``lines`` of Markdown."""
        body = nodes.container(classes=list(classes))
        self.state.nested_parse(StringList(lines, source=place), 0, body)
        return body


class Api(_Documented):
    """The public part of one module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called by docutils."""
        module = import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        entries: list[nodes.Node] = [self.shown(module.__name__, markdown(inspect.getdoc(module) or ""))]
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
            place = nodes.make_id(f"rlnotes-{name}")
            entries += self.entry(place, f"rlnotes {name.lower()}", [*markdown(docstring), "", *_options(thing)])
        return entries


def _options(command: type) -> list[str]:
    """Lines of Markdown on what a command takes; settings that are a dataclass of their own folded, one by one."""
    texts = told(command)
    lines, settings = [], []
    for own in fields(command):
        if is_dataclass(own.type):
            settings += ["", f":::{{dropdown}} Settings of {own.type.__name__}", *_options(own.type), ":::"]
        else:
            # no "-": at the start of a fold it would be read as the start of front matter
            option = own.name if _is_positional(own.type) else "--" + own.name.replace("_", "-")
            lines.append(f"* `{option}`: {texts[own.name]}")
    return lines + settings


def _is_positional(annotation: Any) -> bool:
    return hasattr(annotation, "__metadata__")  # the one annotation that a command's field has


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("api", Api)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
