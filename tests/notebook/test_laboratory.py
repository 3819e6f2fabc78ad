"""What the page of the laboratory draws, and its findings on claims."""

from pathlib import Path

import numpy as np
import pytest

from rlnotes.notebook.laboratory import PANELS, REPRODUCED, REVERSED, UNSEEN, Findings, forest, panels
from rlnotes.studies import Interval
from tests.studies.test_readings import made


def test_panels_draw_what_is_asked_and_no_more_than_can_be_told_apart(tmp_path: Path):
    evidence = made(tmp_path)
    figure = panels(evidence, {"a": "a, stale 1e-4", "b": "b, stale 1e-3"}, ("accuracy", "mismatch"))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [PANELS["accuracy"], PANELS["mismatch"]]
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(np.asarray(drawn), [0, 0.275, 0.55])
    for method in ("a, stale 1e-4", "b, stale 1e-3"):
        for seed, columns in evidence.rows[method].items():
            columns["greedy"] = np.array([0.2 + 0.2 * seed, 0.9, 0.9])
    start = panels(evidence, {"a": "a, stale 1e-4", "b": "b, stale 1e-3"}, ("accuracy", "mismatch"))
    assert len(figure.axes[0].lines) == len(start.axes[1].lines) == 2
    assert start.axes[0].lines[-1].get_ydata() == pytest.approx([0.3, 0.3])
    with pytest.raises(ValueError, match="at most 7 can be told apart"):
        panels(evidence, {str(i): "a, stale 1e-4" for i in range(8)})


ABOVE, BELOW, OVER, HAIR = (Interval(*one) for one in ((2, 1, 3), (-2, -3, -1), (0, -1, 1), (1, 0.00005, 2)))


@pytest.mark.parametrize(
    "leads, judged, alike",
    [
        ([ABOVE], REPRODUCED, REVERSED),
        ([BELOW], REVERSED, REVERSED),
        ([OVER], UNSEEN, UNSEEN),
        ([HAIR], UNSEEN, UNSEEN),
        ([ABOVE, ABOVE], REPRODUCED, REVERSED),
        ([ABOVE, OVER], UNSEEN, REVERSED),
        ([ABOVE, BELOW], REVERSED, REVERSED),
    ],
)
def test_all_differences_must_be_above_0_and_one_below_is_enough(leads: list[Interval], judged: str, alike: str):
    findings, named = Findings(), {str(i): one for i, one in enumerate(leads)}
    findings.judge("more", "here", named)
    findings.alike("the same", "here", named)
    assert [finding.word for finding in findings.found.values()] == [judged, alike]


def test_findings_are_told_counted_and_replaced(capsys: pytest.CaptureFixture[str]):
    findings = Findings()
    findings.judge("more", "here", {"a − b": BELOW})
    findings.judge("more", "here", {"a − b": ABOVE, "a − c": ABOVE})  # a cell that runs again
    findings.alike("the same", "there", {"a − d": OVER})
    told = capsys.readouterr().out
    assert f"more, here: {REPRODUCED}\n   a − b" in told and f"the same, there: {UNSEEN}\n" in told
    words, leads, *by_chance = findings.summary()
    assert words == f"2 findings: 1 {REPRODUCED}, 0 {REVERSED}, 1 {UNSEEN}"
    assert leads == "3 differences: 2 above 0 on all seeds, 0 below 0 on all seeds"
    assert "0.2 differences" in by_chance[0] and f"0.0 findings {REPRODUCED}, 0.1 {REVERSED}" in by_chance[1]


def test_the_chances_are_those_of_five_coins():
    """Of each finding, against five signs drawn for each of its differences."""
    signs = np.random.default_rng(0).choice([-1, 1], (200_000, 2, 5)).sum(-1)
    findings = Findings()
    findings.judge("more", "here", {"a": ABOVE, "b": ABOVE})
    findings.alike("the same", "here", {"a": ABOVE, "b": ABOVE})
    judged, alike = (finding.chance for finding in findings.found.values())
    assert judged == pytest.approx(((signs == 5).all(-1).mean(), (signs == -5).any(-1).mean()), abs=2e-3)
    assert alike == pytest.approx((0, (np.abs(signs) == 5).any(-1).mean()), abs=2e-3)


def test_a_forest_has_a_row_for_each_case_and_a_mark_for_each_difference():
    findings = Findings()
    findings.judge("more", "here", {"a − b": ABOVE, "a − c": OVER})
    findings.judge("other", "here", {"a − b": BELOW})
    findings.judge("more", "there", {"a − b": OVER})
    figure = forest(findings, [["other", "more"]])
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["other", "here", "more", "here", "there"]
    ranges = [np.asarray(line.get_xdata()).tolist() for line in axis.lines if len(np.asarray(line.get_xdata())) == 2]
    assert [one for one in ranges if one != [0, 0]] == [[-3, -1], [1, 3], [-1, 1], [-1, 1]]
    with pytest.raises(ValueError, match="no finding on 'less'; there are: more, other"):
        forest(findings, [["less"]])
