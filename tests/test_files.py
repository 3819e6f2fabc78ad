"""One writer at a time; text that is whole or absent."""

import os
from pathlib import Path

import pytest

from rlnotes.files import append_line, read_lines, replace_text, sole_writer
from tests.processes import full_disk, writing


def test_a_second_writer_is_refused_with_the_first_ones_process_and_a_dead_one_holds_up_nobody(tmp_path: Path):
    folder = tmp_path / "run"
    with writing(folder) as process:
        said = rf"run is being written by process {process.pid} on .*; wait for it, end it"
        with pytest.raises(ValueError, match=said), sole_writer(folder):
            pytest.fail("two writers")
        process.kill()
        process.wait()
        with sole_writer(folder):
            assert (folder / ".lock").exists()
    assert not folder.exists() or not any(folder.iterdir())


def test_this_process_too_writes_once_at_a_time(tmp_path: Path):
    with sole_writer(tmp_path):
        with pytest.raises(ValueError, match=rf"by process {os.getpid()} on .*, this one;"), sole_writer(tmp_path):
            pytest.fail("two writers")
        with sole_writer(tmp_path, "a.csv"), sole_writer(tmp_path, "b.csv"):
            pass
    with sole_writer(tmp_path):
        pass
    assert not any(tmp_path.iterdir())


def test_a_folder_that_stays_empty_goes_again_and_one_that_was_there_stays(tmp_path: Path):
    with pytest.raises(RuntimeError), sole_writer(tmp_path / "a" / "b"):
        raise RuntimeError
    assert tmp_path.exists() and not any(tmp_path.iterdir())
    with sole_writer(tmp_path / "a" / "b"):
        (tmp_path / "a" / "kept").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


@pytest.mark.parametrize("left", range(6, 15))
def test_a_line_that_does_not_fit_is_not_there_at_all(tmp_path: Path, left: int):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"first\n")
    with path.open("ab", buffering=0) as file:
        with pytest.raises(OSError, match=r"a\.jsonl"), full_disk(left):
            append_line(file, "the second")
        append_line(file, "third")
    assert path.read_bytes() == b"first\nthird\n"


@pytest.mark.parametrize("left", [0, 3, 9])
def test_a_text_that_does_not_fit_leaves_what_was_there(tmp_path: Path, left: int):
    path = tmp_path / "a.csv"
    path.write_bytes(b"before")
    with pytest.raises(OSError, match=r"a\.csv'$"), full_disk(left):
        replace_text(path, "the new one")
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def test_a_text_takes_its_place_in_one_move(tmp_path: Path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"before")
    seen = []
    monkeypatch.setattr(os, "replace", lambda source, target: seen.append((source.read_bytes(), target.read_bytes())))
    replace_text(path, "the new one")
    assert seen == [(b"the new one", b"before")]


def test_a_text_replaces_what_a_link_leads_to(tmp_path: Path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far" / "a.csv")
    replace_text(tmp_path / "near", "α\r\n")
    assert (tmp_path / "near").is_symlink()
    assert (tmp_path / "far" / "a.csv").read_bytes() == "α\r\n".encode()


def test_lines_are_read_as_a_hand_may_leave_them(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbffirst\r\n\nthird\n\xce")  # a mark, CR LF, a blank line, half a letter
    assert read_lines(path) == (["first", "", "third"], "\N{REPLACEMENT CHARACTER}")
    path.write_bytes(b"first\n\xce\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2 is no UTF-8 text; mend the line"):
        read_lines(path)
