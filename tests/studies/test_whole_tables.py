"""A table holds each run whole and once, or not at all, whatever cut it; and it is one study's, by one writer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlnotes.cli import Stability
from rlnotes.files import sole_writer
from rlnotes.lm.config import TrainConfig
from rlnotes.objectives import DR_GRPO, GRPO, Choices
from rlnotes.studies import read_table
from rlnotes.studies.runner import append, begin, compare, mend, missing
from rlnotes.studies.study import Method, Study
from tests.processes import full_disk

STUDY = Study(
    question="which of the two?",
    base=TrainConfig(prompts=2, group_size=2, count_clipped=True),
    methods={"GRPO": Method(GRPO), "Dr. GRPO, own": Method(DR_GRPO)},
    tokens=60,
    metrics=("accuracy", "entropy"),
)
RUN = [dict(step=step, tokens=25 * step, accuracy=0.1 * step, entropy=1.25) for step in range(4)]
CLIPPED = [
    dict(step=3, tokens=75, entropy=0.5, sign="+", token=token, shown=3, clipped=1) for token in ("a", "\n", '"')
]
ALL = [(method, seed) for seed in range(2) for method in STUDY.methods]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two runs of each method."""
    path = tmp_path / "t.csv"
    begin(STUDY, path)
    for run in ALL:
        append(STUDY, path, *run, RUN + CLIPPED)
    return path


def read(table: Path):
    return read_table("t", table, table.with_suffix(".json"))


@pytest.mark.filterwarnings("ignore:.*holds only a part")
def test_a_table_cut_at_any_byte_of_its_last_run_is_made_whole_again(table: Path, monkeypatch):
    """But where the cut is between two rows on tokens: nothing tells that some are missing. A cut in a run's first row
    may be in one more row of the run before, which is made again, too.
    """
    monkeypatch.setattr("os.fsync", lambda _: None)  # which is slow, and not what is tried here
    whole, kept = table.read_bytes(), 0
    start = whole.index(b'"Dr. GRPO, own",1,0,')
    second = whole.index(b"\n", start)
    for cut in range(start, len(whole)):
        table.write_bytes(whole[:cut])
        due = missing(table, STUDY, seeds=2)
        if not due:
            kept += 1
            continue
        assert due == (ALL[-2:] if start < cut <= second else ALL[-1:])
        for run in due:
            append(STUDY, table, *run, RUN + CLIPPED)
        assert table.read_bytes() == whole
    assert kept == len(CLIPPED)


@pytest.mark.parametrize("cut", [0, 7, 70])
def test_a_table_cut_in_its_header_is_refused(table: Path, cut: int):
    table.write_bytes(table.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"t\.csv is no table of a study, whose first line names its columns"):
        list(compare(STUDY, table))


def test_what_is_read_of_a_cut_table_is_whole_or_an_error(table: Path):
    whole = table.read_bytes()
    last = whole.rindex(b"Dr.")
    for cut in range(last + 1, len(whole)):
        table.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"holds only a part of Dr\. GRPO, own, seed 1; the command that made it"):
            read(table)


def test_a_cut_is_said(table: Path):
    table.write_bytes(table.read_bytes()[:-4])
    with pytest.warns(UserWarning, match=r"t\.csv holds only a part of Dr\. GRPO, own, seed 1, which is taken out"):
        mend(STUDY, table)


def test_a_mark_blank_lines_and_other_line_ends_drop_nothing(table: Path):
    before = read(table)
    text = table.read_bytes().replace(b'"\n"', b'"NEWLINE"').replace(b"\n", b"\r\n\r\n").replace(b"NEWLINE", b"\n")
    table.write_bytes(b"\xef\xbb\xbf" + text)
    assert missing(table, STUDY, seeds=2) == []
    after = read(table)
    for method, runs in before.rows.items():
        for seed, columns in runs.items():
            for name, values in columns.items():
                np.testing.assert_array_equal(values, after.rows[method][seed][name])
    assert after.clipped == before.clipped
    append(STUDY, table, "GRPO", 2, RUN)
    assert list(read(table).rows["GRPO"]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "GRPO,0,1,25,0.1",
            "GRPO,0,1,25,0.1GRPO,0,1,25,0.1",
            r"t\.csv, line 3 is no row of 11 cells; mend it, or remove",
        ),
        ("GRPO,0,1,25", "GRPO,0,1,5g", r"t\.csv, line 3 is no row"),
        (
            "GRPO,0,3,75,0.3,1.25,,,,,",
            "GRPO,0,3,75,0.3,1.25,,,,,\nGRPO,0,0,0,0,1,,,,,",
            "begins GRPO, seed 0, which is there al",
        ),
        ("GRPO,0,2", "PPO,0,2", "holds runs of 'PPO', which its note does not name; remove their lines"),
        ("method,seed", "name,seed", r"t\.csv is no table of a study"),
    ],
)
def test_damage_in_the_middle_is_named_and_nothing_is_changed(table: Path, old: str, new: str, said: str):
    text = table.read_text(encoding="utf-8")
    assert old in text
    table.write_text(text.replace(old, new, 1), encoding="utf-8")
    before = table.read_bytes()
    for act in (read, lambda table: list(compare(STUDY, table)), lambda table: append(STUDY, table, "GRPO", 2, RUN)):
        with pytest.raises(ValueError, match=said):
            act(table)
    assert table.read_bytes() == before


@pytest.mark.parametrize("room", [0, 1, 40, 80])
def test_a_full_disk_leaves_the_table_as_it_was(table: Path, room: int):
    before = table.read_bytes()
    with pytest.raises(OSError), full_disk(len(before) + room):
        append(STUDY, table, "GRPO", 2, RUN)
    assert table.read_bytes() == before
    assert sorted(path.name for path in table.parent.iterdir()) == ["t.csv", "t.json"]


def test_a_table_that_another_writes_is_refused_before_anything_is_changed(table: Path):
    before = table.read_bytes()
    with sole_writer(table.parent, table.name):
        with pytest.raises(ValueError, match=r"t\.csv is being written by process"):
            list(compare(STUDY, table, seeds=3))
        with sole_writer(table.parent, "another.csv"):  # which is nobody's business
            pass
    assert table.read_bytes() == before


def test_a_table_without_its_note_is_refused_and_a_broken_note_is_named(table: Path):
    note = table.with_suffix(".json")
    note.write_text(note.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.json describes no study"):
        list(compare(STUDY, table))
    note.unlink()
    with pytest.raises(ValueError, match=r"t\.csv lacks its note"):
        list(compare(STUDY, table))
    assert not note.exists()


def test_settings_that_no_run_can_have_leave_nothing_behind(tmp_path: Path):
    with pytest.raises(ValueError, match="size is 0"):
        Stability(tmp_path / "lab", ("pg_is",), ("none",), size=0)()
    assert not any(tmp_path.iterdir())


def no_gate(ratio, advantages):
    raise TypeError("no gate at all")


def test_a_first_run_that_fails_leaves_nothing_behind(tmp_path: Path):
    study = replace(STUDY, methods={"mine": Method(Choices(gate=no_gate))})
    with pytest.raises(TypeError, match="no gate at all"):
        list(compare(study, tmp_path / "new" / "t.csv", seeds=1))
    assert not any(tmp_path.iterdir())
