"""What is said of a table, against the same said by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlnotes.notebook.evidence import Evidence, read_evidence
from rlnotes.notebook.laboratory import PANELS, clipped_tokens, panels, verdicts

HEADER = (
    "method,objective,rollout,rate,seed,step,tokens,accuracy,mismatch,sign,token,shown,clipped,probability,entropy\n"
)


def made(folder: Path) -> Evidence:
    """Two objectives at two rates, one tuning seed and two others. ``a`` is tuned to 1e-4, where it ends at .5, .6."""
    levels = {
        ("a", "1e-4"): {100: 0.9, 0: 0.5, 1: 0.6},
        ("a", "1e-3"): {100: 0.1, 0: 0.8, 1: 0.9},  # better, but the tuning seed did not know
        ("b", "1e-4"): {100: 0.2, 0: 0.2, 1: 0.3},
        ("b", "1e-3"): {100: 0.3, 0: 0.7, 1: 0.6},
    }
    lines = []
    for (objective, rate), runs in levels.items():
        method = f'"{objective}, stale {rate}"'
        for seed, level in runs.items():
            for step in range(3):
                row = (method, objective, "stale", rate, seed, step, 10 * step, level * step / 2)
                lines.append(",".join(map(str, row)) + f",{'' if step == 0 else 0.1},,,,,,")
        if objective == "a":
            for seed, (shown, clipped, probability, entropy) in {0: (10, 2, 0.1, 1.0), 1: (30, 6, 0.5, 3.0)}.items():
                start = f"{method},a,stale,{rate},{seed},2,20,,,"
                lines += [f"{start}+,x,{shown},{clipped},{probability},{entropy}", f"{start}-,y,5,5,0.3,0.2"]
    (folder / "t.csv").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    methods = dict.fromkeys(f"{objective}, stale {rate}" for objective, rate in levels)
    note = dict(comparison=dict(methods=methods, tuning_seeds=[100]))
    (folder / "t.json").write_text(json.dumps(note), encoding="utf-8")
    return read_evidence("t", folder / "t.csv", folder / "t.json")


def test_tuning_runs_choose_and_are_not_reported(tmp_path: Path):
    evidence = made(tmp_path)
    assert list(evidence.rows["a, stale 1e-4"]) == [0, 1] and list(evidence.tuning["a, stale 1e-4"]) == [100]
    assert evidence.where(objective="a", rollout="stale") == ["a, stale 1e-4", "a, stale 1e-3"]
    assert evidence.best(evidence.where(objective="a")) == "a, stale 1e-4"
    assert evidence.best(evidence.where(objective="b")) == "b, stale 1e-3"


def test_verdicts_are_paired_each_at_its_tuned_rate(tmp_path: Path):
    a, b = verdicts(made(tmp_path), "stale", reference="a")
    assert (a.objective, a.rate, b.objective, b.rate) == ("a", "1e-4", "b", "1e-3")
    # after the start the measurements are half the level and the level
    assert a.mean.median == pytest.approx(0.75 * 0.55) and a.lead.median == a.lead.low == a.lead.high == 0
    assert (b.lead.low, b.lead.high) == pytest.approx((0.0, 0.75 * 0.2))
    assert a.worst.median == pytest.approx(0.5 * 0.55) and b.worst.median == pytest.approx(0.5 * 0.25)
    assert str(b).startswith("b") and "1e-3" in str(b)
    with pytest.raises(ValueError, match=r"no runs of 'c' under 'stale'; there are: a, b"):
        verdicts(made(tmp_path), "stale", reference="c")


def test_clipped_tokens_are_means_over_all_clips(tmp_path: Path):
    evidence = made(tmp_path)
    [row] = clipped_tokens(evidence, ["a, stale 1e-4"], "+")
    assert (row["token"], row["shown"], row["clipped"]) == ("x", 40, 8)
    assert (row["probability"], row["entropy"]) == pytest.approx(((2 * 0.1 + 6 * 0.5) / 8, (2 * 1.0 + 6 * 3.0) / 8))
    assert clipped_tokens(evidence, ["b, stale 1e-4"], "+") == []
    both = clipped_tokens(evidence, evidence.where(objective="a"), "-")
    assert [(row["token"], row["clipped"]) for row in both] == [("y", 20)]


def test_a_band_is_the_median_and_the_range(tmp_path: Path):
    band = made(tmp_path).band("a, stale 1e-4", "accuracy")
    assert band.tokens.tolist() == [0, 10, 20]
    np.testing.assert_allclose(band.median, [0, 0.275, 0.55])
    np.testing.assert_allclose([band.low[-1], band.high[-1]], [0.5, 0.6])


def test_panels_draw_what_is_asked_and_no_more_than_can_be_told_apart(tmp_path: Path):
    evidence = made(tmp_path)
    figure = panels(evidence, {"a": "a, stale 1e-4", "b": "b, stale 1e-3"}, ("accuracy", "mismatch"))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [PANELS["accuracy"], PANELS["mismatch"]]
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(np.asarray(drawn), [0, 0.275, 0.55])
    with pytest.raises(ValueError, match="at most 7 can be told apart"):
        panels(evidence, {str(i): "a, stale 1e-4" for i in range(8)})
