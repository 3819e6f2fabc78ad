"""What tests of studies share."""

import pytest

from rlnotes.studies import runner
from tests.studies.pools import Here


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Here)
