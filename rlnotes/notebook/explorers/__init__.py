"""The explorers of all chapters, by name. Each chapter has a module of its own."""

from importlib import import_module
from pkgutil import iter_modules

from rlnotes.notebook.explorer import ExplorerModel

EXPLORERS: dict[str, ExplorerModel] = {}
for _module in iter_modules(__path__):
    EXPLORERS |= import_module(f"{__name__}.{_module.name}").EXPLORERS
