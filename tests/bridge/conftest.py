import importlib.util
from pathlib import Path

import pytest

NEEDS = {"with_trl": "trl", "with_model": "transformers"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing in these folders is selected without extras, nor runs without the package; to import it takes seconds."""
    package = NEEDS.get(collection_path.name)
    unwanted = "not extras" in config.option.markexpr or (package and importlib.util.find_spec(package) is None)
    return True if package and unwanted else None
