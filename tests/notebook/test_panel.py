"""The figure of the instrument panel."""

import pytest

from rlnotes.notebook.panel import PANELS, instrument_panel

ROWS = [dict(step=t, kl=0.01 * t, J=0.5 + 0.1 * t, promised=0.2, change=0.2 - 0.3 * (t == 3)) for t in (1, 2, 3)]


def test_there_is_a_curve_for_each_run_in_each_panel_and_words_for_each():
    figure, words = instrument_panel({"clip": ROWS, "unclipped": ROWS[:2]}, titles={"kl": "KL(old, new) of a step"})
    assert [len(axis.lines) for axis in figure.axes] == [2] * len(PANELS)
    assert "J after the update, unclipped: minimum 0.6 at 1, maximum 0.7 at 2" in words
    assert "KL(old, new) of a step, clip: minimum 0.01 at 1, maximum 0.03 at 3" in words
    assert "what came of it, clip: minimum -0.1 at 3, maximum 0.2 at 1" in words
    assert figure.axes[2].get_ylim() == figure.axes[3].get_ylim(), "a promise is held against what came of it"


def test_a_run_without_rows_is_refused():
    with pytest.raises(ValueError, match=r"runs\['clip'\] has no rows"):
        instrument_panel({"clip": []})
