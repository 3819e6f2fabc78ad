"""The curve of the real model: the figure and the words beside it are those of the stored rows."""

import csv
import json
from pathlib import Path

import pytest

from rlnotes.studies import real_curve
from tests.studies.test_real import write_log

ROOT = Path(__file__).parents[2]


def test_the_figure_and_its_words_are_those_of_the_rows():
    runs = real_curve.curves()
    assert sorted(runs) == [0, 1, 2]
    assert real_curve.FIGURE.read_text(encoding="utf-8") == real_curve.drawn(runs), real_curve.__doc__
    assert real_curve.FIGURE.stat().st_size < 60_000
    for page, place in (("README.md", "course/book/_static/real.svg"), ("course/book/index.md", "_static/real.svg")):
        text = (ROOT / page).read_text(encoding="utf-8")  # in one line: the book drops a line break in it
        assert f"![{real_curve.said(runs)}]({place})" in text, page


def test_rows_of_whole_runs_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(real_curve, "ROWS", tmp_path / "rows.csv")
    monkeypatch.setattr(real_curve, "FIGURE", tmp_path / "figure.svg")
    with pytest.raises(SystemExit):
        real_curve.main(["--runs", str(tmp_path)])
    assert "holds no whole run" in capsys.readouterr().err and not list(tmp_path.iterdir())
    write_log(tmp_path, "alone", 0, [0.5, 0.9])
    write_log(tmp_path, "grpo, int4", 0, [0.2])
    write_log(tmp_path, "grpo, int4", 1, [0.2], ended=False)
    rows = list(real_curve.kept(tmp_path))
    assert [row[:4] for row in rows] == [
        ("alone", 0, 0, "0.00"), ("alone", 0, 1, "2.00"), ("alone", 0, 2, "4.00"),
        ("grpo, int4", 0, 0, "0.00"), ("grpo, int4", 0, 1, "2.00"),
    ]  # fmt: skip
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([real_curve.COLUMNS, *rows])
    run = real_curve.curves(path=tmp_path / "rows.csv")[0]
    assert (
        run[-1] == (4.0, 0.9, 0.9) and real_curve.reached(run) == 4.0 and real_curve.reached(run, 0.95) == float("inf")
    )


def test_what_made_the_rows_stands_beside_them():
    note = json.loads(real_curve.ROWS.with_suffix(".json").read_text(encoding="utf-8"))
    with real_curve.ROWS.open(encoding="utf-8", newline="") as file:
        assert {row["arm"] for row in csv.DictReader(file)} == set(note["changes"])
    assert note["machine"]["card"] == "NVIDIA H200" and note["command"] == real_curve.COMMAND


def test_ends_at_other_rates_are_stored(tmp_path: Path):
    write_log(tmp_path, "grpo", 2, [0.5, 0.75])
    (tmp_path / "settings.json").write_text(json.dumps(dict(learning_rate=2e-5)), encoding="utf-8")
    row = dict(arm="grpo", rate=2e-5, seed=2, accuracy=0.75, greedy=0.75)
    assert list(real_curve.ends([tmp_path])) == [row]


def test_the_stored_table_names_no_machine():
    note = json.loads(real_curve.ROWS.with_name(f"{real_curve.TABLE}.json").read_text(encoding="utf-8"))
    assert note["comparison"]["base"]["model"] == "FOLDER"
