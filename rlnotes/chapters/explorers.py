"""The explorers of all chapters, by name. Each chapter's folder has a module of them, and their scripts beside it."""

from importlib import import_module
from pkgutil import iter_modules

from rlnotes import chapters
from rlnotes.notebook.explorer import ExplorerModel

EXPLORERS: dict[str, ExplorerModel] = {}
for _module in iter_modules(chapters.__path__):
    if _module.ispkg:
        _own = import_module(f"{chapters.__name__}.{_module.name}.explorers").EXPLORERS
        if _both := EXPLORERS.keys() & _own.keys():
            raise ValueError(f"{_module.name} names an explorer {min(_both)!r}, as another chapter does; rename one")
        EXPLORERS |= _own
