"""Packages for Binder, from ``constraints.txt``: ``python -m rlnotes.notebook.binder`` writes ``requirements.txt``.

Binder gives a session little memory, so it gets what the chapters need at run time, and torch's CPU build.
"""

from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"
LABEL = "+cpu"  # this build exists on PyTorch's own index only, so constraints.txt cannot name it
PLATFORM = {  # Binder's machines, whatever this one is
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """The package ``name`` with ``extras`` and all that it requires, by what the installed packages say.

    A package that is not installed counts as one that requires nothing.
    """
    found: set[tuple[str, frozenset[str]]] = set()
    todo = [(canonicalize_name(name), extras)]
    while todo:
        if (item := todo.pop()) not in found:
            found.add(item)
            todo += [(canonicalize_name(r.name), frozenset(r.extras)) for r in _required(*item)]
    return {name for name, _ in found}


def _required(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What ``name`` with ``extras`` requires itself, on Binder."""
    try:
        listed = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return []
    environments = [PLATFORM | {"extra": extra} for extra in ("", *extras)]
    return [r for r in listed if r.marker is None or any(r.marker.evaluate(each) for each in environments)]


def requirements(constraints: str) -> str:
    """The text of ``binder/requirements.txt``: the lines of ``constraints`` that the course needs at run time."""
    names = needed("rlnotes", frozenset({"lab"}))
    lines = [line for line in constraints.splitlines() if canonicalize_name(line.split("==")[0]) in names]
    return "\n".join([INDEX, *(line + LABEL * line.startswith("torch==") for line in lines)]) + "\n"


if __name__ == "__main__":
    text = requirements((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    (ROOT / "binder" / "requirements.txt").write_text(text, encoding="utf-8", newline="\n")
