"""The studies behind the stored tables of all chapters, by name. A chapter's own stand beside its tables."""

from importlib import import_module
from pathlib import Path

from rlnotes import chapters
from rlnotes.studies.study import Study

COMPARISONS: dict[str, Study] = {}
for _path in sorted(Path(chapters.__path__[0]).glob("c*/studies.py")):
    COMPARISONS |= import_module(f"{chapters.__name__}.{_path.parent.name}.studies").STUDIES
