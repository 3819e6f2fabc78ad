"""Each chapter's loop reaches the threshold that the chapter states, on three of three seeds."""

import pytest

from rlnotes.chapters.c07.live import live_run


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_07_grpo_moves_what_misled_is_sure_of(seed: int):
    rows = list(live_run(seed))
    assert rows[0]["J"] < 0.1 and rows[-1]["J"] >= 0.9
    assert max(abs(row["loss"]) for row in rows) < 1e-6
    assert rows[0]["equal groups"] > 0.7 > min(row["equal groups"] for row in rows)
