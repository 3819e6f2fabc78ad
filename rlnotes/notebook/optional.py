"""Cells that say what they lack, show what is stored of them, and let the rest of the notebook go on."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MARK = "# needs "
SAID = "this cell needs "


def skip_without(package: str, module: str | None = None, extra: str | None = None) -> None:
    """Where ``package`` is missing, cells that begin with ``# needs package`` say so and show their stored outputs.

    What counts is whether ``module``, by default ``package`` itself, can be imported: it may ask for more than that.
    ``extra`` is the extra of rlnotes that brings it. Where it can be imported, and outside of IPython, nothing changes.
    """
    try:
        import_module(module or package)
    except ImportError:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is not None:
            shell.input_transformers_cleanup.append(lambda lines: explained(lines, package, extra))


def explained(lines: list[str], package: str, extra: str | None = None) -> list[str]:
    """The source lines of a cell; if the cell is marked, one that says what is missing and shows what is stored."""
    if not lines or lines[0].strip() != MARK + package:
        return lines
    command = f'"{sys.executable}" -m pip install {package}'
    if extra is not None:
        command = f"the extra {extra} brings it; in the project folder: " + (
            f'"{sys.executable}" -m pip install -e ".[{extra}]" -c constraints.txt'
        )
    text = f"{SAID}{package}: {command}; then restart the kernel and run all cells"
    return [f"__import__({__name__!r}, fromlist=['']).show_stored({''.join(lines)!r}, {text!r})\n"]


def show_stored(source: str, text: str) -> None:
    """Print ``text``; then show again what notebooks in this folder have stored of the cell ``source``."""
    from IPython.display import publish_display_data

    outputs = stored_outputs(source)
    print(text + (". Stored by a run that had it:" if outputs else ""))
    for output in outputs:
        if "data" in output:
            publish_display_data(output["data"], output.get("metadata", {}))
        else:
            print(output["text"], end="")


def stored_outputs(source: str) -> list[dict[str, Any]]:
    """Outputs with data or text of the cell ``source`` in the notebooks of this folder, without what was said here."""
    for path in sorted(Path().glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code" and "".join(cell["source"]).strip() == source.strip():
                return [output for output in map(_plain, cell["outputs"]) if output.get("data") or output.get("text")]
    return []


def _plain(output: dict[str, Any]) -> dict[str, Any]:
    """An output with its texts in one piece each, as messages have them."""
    if "data" in output:
        data = {kind: "".join(value) if isinstance(value, list) else value for kind, value in output["data"].items()}
        return output | {"data": data}
    lines = "".join(output.get("text", "")).splitlines(keepends=True)
    return output | {"text": "".join(line for line in lines if not line.startswith(SAID))}


def is_explained(outputs: list[Any]) -> bool:
    """True if these are the outputs of a cell that was not run, since something is missing."""
    return bool(outputs) and "".join(outputs[0].get("text", "")).startswith(SAID)
