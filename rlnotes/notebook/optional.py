"""Cells that say what they lack and let the rest of the notebook go on."""

import sys
from importlib import import_module

MARK = "# needs "


def skip_without(package: str, module: str | None = None) -> None:
    """Where ``package`` is missing, cells that begin with ``# needs package`` print so and do nothing else.

    What counts is whether ``module``, by default ``package`` itself, can be imported: it may ask for more than that.
    Where it can, and outside of IPython, nothing changes.
    """
    try:
        import_module(module or package)
    except ImportError:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is not None:
            shell.input_transformers_cleanup.append(lambda lines: explained(lines, package))


def explained(lines: list[str], package: str) -> list[str]:
    """The source lines of a cell, or one that prints what is missing if the cell is marked."""
    if not lines or lines[0].strip() != MARK + package:
        return lines
    command = f'"{sys.executable}" -m pip install {package}'
    text = f"this cell needs {package}: {command}; then restart the kernel and run all cells"
    return [f"print({text!r})\n"]
