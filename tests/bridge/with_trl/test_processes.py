"""Two processes make the update of one."""

# pyright: reportMissingImports=false

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.bridge.with_trl import made, one_update

pytestmark = [pytest.mark.extras, pytest.mark.slow, *map(pytest.mark.filterwarnings, made.WARNINGS)]


@pytest.mark.parametrize("aggregation", ["response_mean", "token_mean"])
def test_an_update_of_two_processes_in_two_parts_each_is_the_update_of_one(tmp_path: Path, aggregation: str):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launcher, "-m", "tests.bridge.with_trl.one_update", str(tmp_path), aggregation],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    alone = one_update.one_update(tmp_path, aggregation, processes=1, parts=1)
    found, before = torch.load(tmp_path / "weights.pt"), made.weights(made.trainer(tmp_path, "grpo"))
    assert (made.weights(alone) - before).abs().max() > 1e-3
    torch.testing.assert_close(found, made.weights(alone), rtol=1e-6, atol=1e-6)
