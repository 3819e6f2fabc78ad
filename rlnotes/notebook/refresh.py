"""Run notebooks and store what they print: ``python -m rlnotes.notebook.refresh course/*.ipynb``.

What is stored is what can be stored twice alike: no execution times, no widgets, no random ids, no progress bars.
A cell that lacks a package keeps the outputs that it has.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from rlnotes.notebook.optional import is_explained
from rlnotes.notebook.saving import drop_views

CELL_SECONDS = 180
SILENT = {"CI": "1", "TQDM_DISABLE": "1"}  # no progress bars: neither the package's own nor a plain one


def refresh(path: Path) -> float:
    """Execute the notebook at ``path`` in its own folder, normalise and write it. Returns the seconds it ran.

    They are the processor's, of the kernel and of what it started: a chapter promises seconds on one thread, and other
    work on this machine does not count. Where the system does not tell them (Windows), they are those of the clock.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    stored = [cell.get("outputs", []) for cell in notebook.cells]
    own = notebook.metadata.get("rlnotes", {})
    started, worked = time.monotonic(), _seconds_of_children()
    client.execute(env=os.environ | SILENT)
    seconds = _seconds_of_children() - worked or time.monotonic() - started
    for cell, before in zip(notebook.cells, stored, strict=True):
        if is_explained(cell.get("outputs", [])):
            cell.outputs = before
    normalise(notebook)
    notebook.metadata["rlnotes"] = own | {"seconds": round(seconds)}
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return seconds


def _seconds_of_children() -> float:
    """Processor seconds of the processes that this one started and that have ended; 0 on Windows."""
    times = os.times()
    return times.children_user + times.children_system


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Drop what differs from run to run."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    drop_views(notebook)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        kept: list[nbformat.NotebookNode] = []
        for output in cell.outputs:
            output.pop("transient", None)
            before = kept[-1] if kept else {}
            if output.output_type == before.get("output_type") == "stream" and output.name == before["name"]:
                before["text"] += output.text  # how a text was cut into messages depends on the moment
            else:
                kept.append(output)
        cell.outputs = kept


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {refresh(Path(name)):.0f} s")
