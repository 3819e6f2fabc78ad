"""Settings of JupyterLab for this course: ``python -m rlnotes.notebook.settings`` writes them into the environment.

The box that offers news about Jupyter asks the network and covers the page; it is switched off.
"""

import json
import sys
from pathlib import Path

PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


def write_settings(prefix: Path) -> Path:
    """Write the page configuration under ``prefix``, keeping what is there. Returns its path."""
    path = prefix / "etc" / "jupyter" / "labconfig" / "page_config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    disabled = found.get("disabledExtensions", {}) | PAGE_CONFIG["disabledExtensions"]
    path.write_text(json.dumps(found | {"disabledExtensions": disabled}, indent=2) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    write_settings(Path(sys.prefix))
