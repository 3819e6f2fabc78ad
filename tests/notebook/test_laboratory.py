"""What is said of a table, against the same said by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlnotes.notebook.laboratory import PANELS, REPRODUCED, REVERSED, UNSEEN, Findings, forest, panels
from rlnotes.studies import Interval, Table, paired_interval, read_table
from rlnotes.studies.readings import clipped_kinds, clipped_tokens, ends, jumps, lead, outcomes, rise, runs

HEADER = (
    "method,objective,rollout,rate,seed,step,tokens,accuracy,mismatch,sign,token,shown,clipped,probability,entropy\n"
)


def made(folder: Path) -> Table:
    """Two objectives at two rates, one tuning seed and two others. ``a`` is tuned to 1e-4, where it ends at .5, .6."""
    levels = {
        ("a", "1e-4"): {100: 0.9, 0: 0.5, 1: 0.6},
        ("a", "1e-3"): {100: 0.1, 0: 0.8, 1: 0.9},  # better, but the tuning seed did not know
        ("b", "1e-4"): {100: 0.2, 0: 0.2, 1: 0.3},
        ("b", "1e-3"): {100: 0.3, 0: 0.7, 1: 0.6},
    }
    lines = []
    for (objective, rate), of_seeds in levels.items():
        method = f'"{objective}, stale {rate}"'
        for seed, level in of_seeds.items():
            for step in range(3):
                row = (method, objective, "stale", rate, seed, step, 10 * step, level * step / 2)
                lines.append(",".join(map(str, row)) + f",{'' if step == 0 else 0.1 * step},,,,,,")
        if objective == "a":
            for seed, (shown, clipped, probability, entropy) in {0: (10, 2, 0.1, 1.0), 1: (30, 6, 0.5, 3.0)}.items():
                start = f"{method},a,stale,{rate},{seed},2,20,,,"
                lines += [f"{start}+,x,{shown},{clipped},{probability},{entropy}", f"{start}-,y,5,5,0.3,0.2"]
    (folder / "t.csv").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    methods = dict.fromkeys(f"{objective}, stale {rate}" for objective, rate in levels)
    note = dict(comparison=dict(methods=methods, tuning_seeds=[100]))
    (folder / "t.json").write_text(json.dumps(note), encoding="utf-8")
    return read_table("t", folder / "t.csv", folder / "t.json")


def test_tuning_runs_choose_and_are_not_reported(tmp_path: Path):
    evidence = made(tmp_path)
    assert list(evidence.rows["a, stale 1e-4"]) == [0, 1] and list(evidence.tuning["a, stale 1e-4"]) == [100]
    assert evidence.where(recipe="a", rollout="stale") == ["a, stale 1e-4", "a, stale 1e-3"]
    assert evidence.best(evidence.where(recipe="a")) == "a, stale 1e-4"
    assert evidence.best(evidence.where(recipe="b")) == "b, stale 1e-3"


def test_verdicts_are_paired_each_at_its_tuned_rate(tmp_path: Path):
    a, b = outcomes(made(tmp_path), "stale", reference="a")
    assert (a.objective, a.rate, b.objective, b.rate) == ("a", "1e-4", "b", "1e-3")
    # after the start the measurements are half the level and the level
    assert a.mean.median == pytest.approx(0.75 * 0.55) and a.lead.median == a.lead.low == a.lead.high == 0
    assert (b.lead.low, b.lead.high) == pytest.approx((0.0, 0.75 * 0.2))
    assert a.worst.median == pytest.approx(0.5 * 0.55) and b.worst.median == pytest.approx(0.5 * 0.25)
    assert str(b).startswith("b") and "1e-3" in str(b)
    with pytest.raises(ValueError, match=r"no runs of 'c' under 'stale'; there are: a, b"):
        outcomes(made(tmp_path), "stale", reference="c")


def test_clipped_tokens_are_means_over_all_clips(tmp_path: Path):
    evidence = made(tmp_path)
    [row] = clipped_tokens(evidence, ["a, stale 1e-4"], "+")
    assert (row["token"], row["shown"], row["clipped"]) == ("x", 40, 8)
    assert (row["probability"], row["entropy"]) == pytest.approx(((2 * 0.1 + 6 * 0.5) / 8, (2 * 1.0 + 6 * 3.0) / 8))
    assert clipped_tokens(evidence, ["b, stale 1e-4"], "+") == []
    both = clipped_tokens(evidence, evidence.where(recipe="a"), "-")
    assert [(row["token"], row["clipped"]) for row in both] == [("y", 20)]


def test_a_band_is_the_median_and_the_range(tmp_path: Path):
    band = made(tmp_path).band("a, stale 1e-4", "accuracy")
    assert band.tokens.tolist() == [0, 10, 20]
    np.testing.assert_allclose(band.median, [0, 0.275, 0.55])
    np.testing.assert_allclose([band.low[-1], band.high[-1]], [0.5, 0.6])


def test_a_mean_over_the_run_leaves_out_the_start_and_nothing_else(tmp_path: Path):
    evidence = made(tmp_path)
    np.testing.assert_allclose(evidence.mean("a, stale 1e-4", "accuracy"), [0.75 * 0.5, 0.75 * 0.6])
    np.testing.assert_allclose(evidence.mean("a, stale 1e-4", "mismatch"), [0.15, 0.15])  # not measured at the start


def test_panels_draw_what_is_asked_and_no_more_than_can_be_told_apart(tmp_path: Path):
    evidence = made(tmp_path)
    figure = panels(evidence, {"a": "a, stale 1e-4", "b": "b, stale 1e-3"}, ("accuracy", "mismatch"))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [PANELS["accuracy"], PANELS["mismatch"]]
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(np.asarray(drawn), [0, 0.275, 0.55])
    with pytest.raises(ValueError, match="at most 7 can be told apart"):
        panels(evidence, {str(i): "a, stale 1e-4" for i in range(8)})


def test_runs_are_of_the_tuned_rate_or_of_a_given_one(tmp_path: Path):
    evidence = made(tmp_path)  # a run measures 0, half its level and its level
    np.testing.assert_allclose(runs(evidence, "a", "stale"), [0.75 * 0.5, 0.75 * 0.6])
    np.testing.assert_allclose(runs(evidence, "a", "stale", "1e-3", "last"), [0.5 * 0.8, 0.5 * 0.9])
    np.testing.assert_allclose(runs(evidence, "b", "stale", what="early"), [0.5 * 0.7, 0.5 * 0.6])
    assert lead(evidence, "stale", "b", "a") == paired_interval(
        np.array([0.7, 0.6]) * 0.75, np.array([0.5, 0.6]) * 0.75
    )
    np.testing.assert_allclose(rise(evidence, "a", "stale", "1e-3"), [0.4, 0.45])
    np.testing.assert_allclose(rise(evidence, "a", "stale", "1e-3", "mismatch"), [0.15 - 0.1] * 2)
    np.testing.assert_allclose(
        jumps(evidence, "a, stale 1e-4", "accuracy"), [0.25, 0.3]
    )  # the first, 0 to half, is not


def test_ends_say_where_all_began_and_what_was_tuned(tmp_path: Path):
    begin, header, a, b = ends(made(tmp_path), "stale")
    assert begin == "stale: starts at 0.00 to 0.00" and "1e-4" in header and "1e-3" in header
    assert a.startswith("a ") and "[0.25, 0.30]" in a and "[0.40, 0.45]" in a and a.endswith("1e-4")
    assert b.startswith("b ") and b.endswith("1e-3")


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


def test_clipped_tokens_by_kind():
    lines = [
        dict(token="x", clipped=6, probability=0.1),
        dict(token="y", clipped=2, probability=0.5),
        dict(token="1", clipped=8, probability=0.3),
    ]
    kinds = clipped_kinds(lines, lambda token: "digit" if token.isdigit() else "letter")
    assert kinds == {"letter": (0.5, pytest.approx(0.2)), "digit": (0.5, pytest.approx(0.3))}
