"""Of a loop that is run on several seeds, `make test` runs the first and `make audit` the others."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    seeds = getattr(getattr(item, "callspec", None), "indices", {})
    if item.path.name.startswith("test_loop") and seeds.get("seed", 0) > 0:
        item.add_marker(pytest.mark.sweep)
