"""Rows of runs that were made in two ways."""

import pytest

from rlnotes.studies.run import Row


def same(found: list[Row], expected: list[Row]) -> None:
    assert len(found) == len(expected)
    for row, own in zip(found, expected, strict=True):
        assert row.keys() == own.keys() - {"seconds"}
        assert [row.get(name) for name in ("step", "tokens", "reward")] == [
            own.get(name) for name in ("step", "tokens", "reward")
        ]
        for name, value in row.items():
            assert value == pytest.approx(own[name], rel=1e-3, abs=1e-4), name
