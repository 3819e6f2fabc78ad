"""The stored runs behind the instrument panel of chapters 03 and 05, and what is read from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlnotes.chapters import c03
from rlnotes.chapters.c03 import panel, readings
from rlnotes.studies.store import four_digits

STORED = json.loads((Path(c03.__path__[0]) / "03_panel.json").read_text(encoding="utf-8"))


def test_the_table_says_what_made_it():
    assert STORED["command"] == "python -m rlnotes.chapters.c03.panel --out 03_panel.json"
    assert STORED["seconds"] > 0 and STORED["machine"]
    made = [(arm, seed) for seed in panel.SEEDS for arm in panel.LOOPS]
    assert [(row["arm"], row["seed"]) for row in STORED["rows"]] == made
    assert all(len(row[name]) == panel.BLOCKS for row in STORED["rows"] for name in panel.READ)


@pytest.mark.parametrize("arm", panel.LOOPS)
def test_the_first_block_of_a_run_is_made_again(arm: str):
    """Sums in another order are enough to turn a run, so on another processor only the first block is near."""
    again = four_digits(panel.panel_run(arm, 0, blocks=1))
    (stored,) = (row for row in STORED["rows"] if (row["arm"], row["seed"]) == (arm, 0))
    for name in ("largest", *panel.READ):
        assert again[name][0] == pytest.approx(stored[name][0], rel=0.1, abs=0.01), name


def test_the_panel_shows_the_promise_by_returns_at_the_steps_where_blocks_end():
    _, words = readings.drawn({"seed 0": readings.panel_rows("a2c")[0]})
    assert "promised by returns, held out, seed 0: minimum -126 at 29, maximum 110 at 184" in words


def test_a_run_falls_that_was_high_before():
    assert readings.falls(np.array([100, 420, 300, 199, 450]))
    assert not readings.falls(np.array([100, 199, 399, 199])) and not readings.falls(np.array([100, 420, 200, 420]))


def test_the_deepest_loss_begins_where_J_was_highest_for_the_last_time():
    J = np.array([500.0, 300.0, 450.0, 500.0, 400.0, 250.0, 350.0, 500.0])
    lengths = dict(kl=np.array([9.0, 8, 7, 6, 1, 2, 3, 9]), largest=np.array([9.0, 8, 7, 6, 0.2, 0.1, 3, 9]))
    (row,) = readings.deepest([dict(seed=0, J=J) | lengths])
    assert list(row.values()) == [0, 500, 250, 2, 2.0, 0.2, 500]
    (rising,) = readings.deepest([dict(seed=0, J=np.sort(J)) | lengths])
    assert rising["blocks"] == 0 and rising["from J of"] == rising["down to"]


def test_each_block_is_counted_where_its_promises_stand():
    promised, by_returns = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (0.5, -2.0)]).T
    change = np.array([-31.0, -40.0, 50.0, 29.0, -90.0, -30.0])
    far = dict(largest=np.where(change == 50, 0.02, 0.01), kl=np.where(change < -30, 0.2, 0.1))
    run = dict(J=450 + change, change=change, promised=promised, by_returns=by_returns) | far
    counted = [tuple(row.values())[1:] for row in readings.by_kind([run, run])]
    by_promises = [(12, 6, 2), (2, 2, 0), (4, 2, 0), (2, 0, 2), (2, 0, 0), (2, 2, 0)]
    assert counted == [*by_promises, (2, 0, 2), (6, 6, 0), (12, 6, 2), (6, 6, 0)]
    column = readings.told([run, run], steps=256)
    assert (column["runs that fell"], column["J at the end"], column["highest"]) == ("0 of 2", "420 to 420", "0.020")
    assert [column[f"{what} more than 30{of}"] for what, of in (("lost", " of J"), ("gained", ""))] == ["6", "2"]
    assert column["change of the worst"] == "-90"
    assert (column["KL above 0.1"], column["of these lost more than 30"]) == ("6", "6")
    assert (column["returns all equal before"], column["KL of a block: median"]) == ("2", "0.150")


def test_a_reading_that_tells_what_came_has_a_correlation_of_one_and_what_tells_what_comes_next_too():
    change = np.array([40.0, -50.0, 10.0, -31.0, 5.0])
    run = dict.fromkeys(readings.SIGNS, np.append(change[1:], 0)) | dict(change=change, promised=2 * change)
    by_title = {row["reading"]: row for row in readings.by_sign([run])}
    assert by_title["promised"]["correlation with what came"] == "+1.00 (+1.00 to +1.00)"
    assert by_title["outside"]["with the next block's"] == "+1.00 (+1.00 to +1.00)"
    assert by_title["promised"]["with its size"] == "-0.30 (-0.30 to -0.30)"
    assert by_title["promised"]["median, lost"] == "-81" and by_title["promised"]["median, gained"] == "80"
