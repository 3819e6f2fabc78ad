"""Settings of JupyterLab for this course: ``python -m rlnotes.notebook.settings`` writes them into the environment.

The box that offers news about Jupyter asks the network and covers the page; it is switched off. And notebooks are saved
without widget views, which nothing could show when they are opened again.
"""

import json
import sys
from pathlib import Path

PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
SERVER = """from rlnotes.notebook.saving import before_save

c.FileContentsManager.pre_save_hook = before_save  # noqa: F821
"""


def write_settings(prefix: Path) -> None:
    """Write the settings under ``prefix``, keeping what is there."""
    folder = prefix / "etc" / "jupyter"
    path = folder / "labconfig" / "page_config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    disabled = found.get("disabledExtensions", {}) | PAGE_CONFIG["disabledExtensions"]
    path.write_text(json.dumps(found | {"disabledExtensions": disabled}, indent=2) + "\n", encoding="utf-8")
    server = folder / "jupyter_server_config.py"
    before = server.read_text(encoding="utf-8") if server.exists() else ""
    if SERVER not in before:
        server.write_text(before + SERVER, encoding="utf-8")


if __name__ == "__main__":
    write_settings(Path(sys.prefix))
