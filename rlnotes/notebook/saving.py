"""What a notebook keeps of its widgets when it is saved: the picture or page beside the view, never the view.

A saved view finds no model when the notebook is opened again without its kernel, and shows an error in its place.
"""

from typing import Any

WIDGET = "application/vnd.jupyter.widget-view+json"


def _is_view_alone(data: dict[str, Any]) -> bool:
    return WIDGET in data and set(data) <= {WIDGET, "text/plain"}


def drop_views(notebook: Any) -> None:
    """Take the widget views out of ``notebook``, nbformat 4. An output that holds nothing else goes with its view."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if not _is_view_alone(output.get("data", {}))]
            for output in cell["outputs"]:
                output.get("data", {}).pop(WIDGET, None)


def before_save(model: dict[str, Any], **_: Any) -> None:
    """For Jupyter's ``ContentsManager.pre_save_hook``."""
    if model["type"] == "notebook" and model["content"]["nbformat"] == 4:
        drop_views(model["content"])
