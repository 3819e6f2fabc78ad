"""Each chapter's loop reaches the threshold that the chapter states, on three of three seeds."""

import pytest

from rlnotes.chapters.c07.live import live_run
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_07_grpo_moves_what_misled_is_sure_of(seed: int):
    rows = list(live_run(seed))
    assert rows[0]["J"] < 0.1 and rows[-1]["J"] >= 0.9
    assert max(abs(row["loss"]) for row in rows) < 1e-6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_07_grpo_solves_reverse(seed: int):
    trainer = Trainer(TrainConfig(task="reverse", size=8, seed=seed))
    before = trainer.evaluate(1024)
    rows = list(trainer.run(75))
    assert before < 0.45
    assert trainer.evaluate(1024) >= 0.95
    assert rows[-1]["entropy"] < 0.1 < rows[0]["entropy"]
    assert rows[-1]["wasted_groups"] > 0.4 > rows[0]["wasted_groups"]
