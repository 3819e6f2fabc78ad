"""What a module says of itself in its file. Without Sphinx: tests run the very examples that the pages show."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any


def documented(module: ModuleType) -> Iterator[tuple[str, Any, str]]:
    """Name, object and docstring of what ``module`` defines for others, in the order of its file.

    The docstring of a constant is the string that stands below it. Of methods, those with an example are told.
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
            yield from _methods(name, getattr(module, name), node)


def _methods(name: str, thing: Any, node: ast.stmt) -> Iterator[tuple[str, Any, str]]:
    for own in node.body if isinstance(node, ast.ClassDef) else ():
        docstring = ast.get_docstring(own) if isinstance(own, ast.FunctionDef) else None
        if docstring and ">>> " in docstring and not own.name.startswith("_"):
            yield f"{name}.{own.name}", getattr(thing, own.name), docstring


def told(thing: type) -> dict[str, str]:
    """What stands below each field of a dataclass."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(thing)).body if isinstance(node, ast.ClassDef))
    found = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(node.target)] = " ".join(str(after.value.value).split())
    return found
