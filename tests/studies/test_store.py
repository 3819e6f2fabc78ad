"""The commands behind small stored tables."""

import json
import sys
from pathlib import Path

import pytest

from rlnotes.studies.store import store_runs


def test_runs_that_stand_beside_the_table_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two were made before, of which the second line was cut short."""
    out, part = tmp_path / "00_some.json", tmp_path / "00_some.part"
    part.write_text('[100.0, {"seed": 0, "J": "as it was"}]\n[100.0, {"se', encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["", "--out", str(out)])
    store_runs("some.module", "", dict, [({"seed": seed, "J": 0.123456},) for seed in range(3)])
    table = json.loads(out.read_text(encoding="utf-8"))
    assert table["rows"] == [dict(seed=0, J="as it was"), dict(seed=1, J=0.1235), dict(seed=2, J=0.1235)]
    assert table["command"] == "python -m some.module --out 00_some.json" and table["seconds"] == 100
    assert not part.exists()
