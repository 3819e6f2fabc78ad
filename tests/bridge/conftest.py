import importlib.util
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing in the folder is selected without extras, nor runs without TRL; and to import TRL takes seconds."""
    unwanted = "not extras" in config.option.markexpr or importlib.util.find_spec("trl") is None
    return True if collection_path.name == "with_trl" and unwanted else None
