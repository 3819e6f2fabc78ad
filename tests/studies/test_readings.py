"""What is said of a table, against the same said by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlnotes.studies import Table, judge, paired_interval, read_table
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
    methods: dict[str, object] = {f"{objective}, stale {rate}": {} for objective, rate in levels}
    note = dict(comparison=dict(base={}, methods=methods, tokens=20, tuning_seeds=[100]))
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
    assert a.mean.value == pytest.approx(0.75 * 0.55) and a.lead is not None and a.lead.difference == (0, 0, 0)
    assert b.lead == judge(0.75 * np.array([0.7, 0.6]), 0.75 * np.array([0.5, 0.6]))
    assert a.worst.value == pytest.approx(0.5 * 0.55) and b.worst.value == pytest.approx(0.5 * 0.25)
    assert str(b).startswith("b") and "1e-3" in str(b) and str(b).endswith("not told")
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


def test_clipped_tokens_by_kind():
    lines = [
        dict(token="x", clipped=6, probability=0.1),
        dict(token="y", clipped=2, probability=0.5),
        dict(token="1", clipped=8, probability=0.3),
    ]
    kinds = clipped_kinds(lines, lambda token: "digit" if token.isdigit() else "letter")
    assert kinds == {"letter": (0.5, pytest.approx(0.2)), "digit": (0.5, pytest.approx(0.3))}
