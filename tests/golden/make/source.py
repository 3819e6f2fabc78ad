"""A library's own functions, taken from its repository at one commit without installing or importing the library.

A name is looked up in the syntax tree of its file and run when it is first used, with what it uses itself: names of
the file, and imports from other files of the repository at the same commit. The standard library, NumPy and torch are
imported as they are; everything else (transformers, megatron, ray, ...) is a ``Stub`` that fails when it is used.
"""

import __future__

import ast
import builtins
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

REAL = frozenset({"torch", "numpy"}) | sys.stdlib_module_names


class SourceError(ValueError):
    """What was asked for is not in the repository, or cannot be taken from it."""


class Stub:
    """What stands for a package that is not loaded."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str) -> "Stub":
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self.name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise SourceError(f"{self.name} is a stub: the extracted code calls it, so an adapter has to give its own")


class Repository:
    """The files of a library's repository (a git directory or a checkout) at one commit."""

    def __init__(self, library: str, folder: Path, commit: str):
        self.library, self.folder, self.commit = library, folder, commit
        if self._git("cat-file", "-e", f"{commit}^{{commit}}") is None:
            raise SourceError(
                f"{library}: commit {commit} is not in {folder}: give a git directory or checkout of {library} that "
                f"has it (git -C {folder} fetch origin {commit})"
            )
        self.files = frozenset((self._git("ls-tree", "-r", "--name-only", commit) or "").splitlines())
        self._code: dict[str, Code] = {}

    def _git(self, *arguments: str) -> str | None:
        command = ["git", "-C", str(self.folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        return None if done.returncode else done.stdout

    def text(self, path: str) -> str:
        text = self._git("show", f"{self.commit}:{path}")
        if text is None:
            raise SourceError(f"{self.library}: no file {path} at commit {self.commit} in {self.folder}")
        return text

    def code(self, path: str) -> "Code":
        if path not in self._code:
            self._code[path] = Code(self, path)
        return self._code[path]

    def path_of(self, module: str) -> str | None:
        stem = module.replace(".", "/")
        return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in self.files), None)

    def has(self, module: str) -> bool:
        return any(
            path.startswith((f"{module.replace('.', '/')}/", f"{module.replace('.', '/')}.")) for path in self.files
        )


class Module:
    """A module or package of the repository. Its names are extracted when they are asked for."""

    def __init__(self, repository: Repository, name: str):
        self._repository, self._name = repository, name

    def __getattr__(self, name: str) -> Any:
        path = self._repository.path_of(self._name)
        if path and (code := self._repository.code(path)).defines(name):
            return code[name]
        below = f"{self._name}.{name}"
        if self._repository.has(below):
            return Module(self._repository, below)
        raise AttributeError(f"{self._repository.library}: no {name} in {self._name} at {self._repository.commit}")


class Code(dict[str, Any]):
    """The global names of one file. A missing one is run from the file's syntax tree, so only what is used is run."""

    def __init__(self, repository: Repository, path: str):
        # dataclasses look for the module of a class among those that are loaded: they find this one
        super().__init__(__builtins__=vars(builtins) | {"__import__": self._import}, __name__=__name__)
        self.repository, self.path = repository, path
        self.tree = ast.parse(repository.text(path))
        self._definitions = {name: node for node in self.tree.body for name in names_of(node)}

    def defines(self, name: str) -> bool:
        return name in self or name in self._definitions

    def __missing__(self, name: str) -> Any:
        node = self._definitions.get(name)
        if node is None:
            raise KeyError(name)
        self._run(node)
        return self[name]

    def _run(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            # compiling changes nothing but the time and, through fused operations, the last digit
            node.decorator_list = [d for d in node.decorator_list if "torch.compile" not in ast.unparse(d)]
        tree = ast.fix_missing_locations(ast.Module([node], []))
        # annotations are not evaluated: they name classes that nothing else needs
        flags = __future__.annotations.compiler_flag
        exec(compile(tree, f"{self.repository.commit}:{self.path}", "exec", flags, dont_inherit=True), self)

    def _import(self, name: str, _: Any = None, __: Any = None, wanted: Any = (), level: int = 0) -> Any:
        root = name.split(".")[0]
        if level:
            package = self.path.split("/")[:-level]
            name = ".".join([*package, name] if name else package)
        elif root in REAL:
            return importlib.__import__(name, None, None, wanted or ())
        elif not self.repository.has(root):
            return Stub(name if wanted else root)
        return Module(self.repository, name if wanted else root)

    def _node(self, kind: type[ast.ClassDef] | type[ast.FunctionDef], name: str, within: ast.AST) -> Any:
        found = [node for node in ast.walk(within) if isinstance(node, kind) and node.name == name]
        if len(found) != 1:
            raise SourceError(f"{self.repository.library}: {len(found)} definitions of {name} in {self.path}, not one")
        return found[0]

    def method(self, owner: str, name: str) -> Callable[..., Any]:
        """A method of a class as a function of ``self`` and its arguments, without the class."""
        node = self._node(ast.FunctionDef, name, self._node(ast.ClassDef, owner, self.tree))
        node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) != "staticmethod"]
        self._run(node)
        return self.pop(name)

    def block(self, function: str, first: str, last: str, arguments: str) -> Callable[..., dict[str, Any]]:
        """The statements of a function from the one that starts with ``first`` to the one that starts with ``last``.

        They become a function of ``arguments`` ("a, b") that returns every local name.
        """
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        tree = next((n for n in ast.walk(self.tree) if isinstance(n, kinds) and n.name == function), None)
        if tree is None:
            raise SourceError(f"{self.repository.library}: no function {function} in {self.path}")
        for parent in ast.walk(tree):
            for body in (getattr(parent, field, None) for field in ("body", "orelse")):
                starts = [ast.unparse(node) for node in body] if isinstance(body, list) else []
                begin = next((i for i, text in enumerate(starts) if text.startswith(first)), None)
                end = next((i for i, text in enumerate(starts) if text.startswith(last)), None)
                if begin is not None and end is not None:
                    made = ast.parse(f"def block({arguments}):\n    return locals()").body[0]
                    assert isinstance(made, ast.FunctionDef) and isinstance(body, list)
                    made.body[:0] = body[begin : end + 1]
                    self._run(made)
                    return self.pop("block")
        raise SourceError(f"{self.repository.library}: no statements from {first!r} to {last!r} in {self.path}")


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a file defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.split(".")[0] for alias in node.names]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def locals_of(watched: Callable[..., Any], call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """What ``call`` returns, and the local names of ``watched`` as it returned last within the call."""
    found: dict[str, Any] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is watched.__code__:
            found.clear()
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        result = call()
    finally:
        sys.setprofile(before)
    return result, found
