"""What tests of studies share."""

import pytest

from rlnotes.lm.shard import Shard
from rlnotes.studies import runner
from tests.studies.pools import Here


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Here)


@pytest.fixture
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    """Nobody asks whether all responses are done: random numbers are drawn for their whole length."""
    monkeypatch.setattr(Shard, "any", lambda self, own: True)
