"""A chapter shows a stored log in one line, by a key that does not say what is wrong; and it comes with the package."""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from rlnotes.logs.stored_logs import FOLDER, stored_log, stored_logs
from rlnotes.notebook.exercise import Exercise, grade
from tests.logs import make

ROOT = Path(__file__).parents[2]


def test_every_log_has_a_key_of_its_own_and_rows():
    logs = stored_logs()
    assert {log.path.parent.name for log in logs.values()} == {entry["name"] for entry in make.manifest()}
    for key, log in logs.items():
        assert key == log.key == stored_log(key).key and key not in log.path.as_posix()
        assert len(log.rows()) >= 20 and all("step" in row for row in log.rows())


def test_what_a_chapter_shows_is_in_the_package():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    patterns = tools["setuptools"]["package-data"]["rlnotes"]
    for path in FOLDER.rglob("*"):
        name = path.relative_to(ROOT / "rlnotes").as_posix()
        assert path.is_dir() or any(fnmatchcase(name, one) for one in patterns), name


def test_an_exercise_reads_one():
    """What chapters do: a table on the page, and the oracle of its check, from the same log."""
    log = stored_log("29eb")
    shown = log.table("reward", "no_gradient", every=9)
    assert shown.text().startswith("log 29eb\nstep  reward  no_gradient\n") and "mask" not in shown.html()
    exercise = Exercise(
        cases=((),),
        oracle=lambda: ("no_gradient", log.first("no_gradient", above=0.9)),
        misconceptions={"the reward falls later": ("reward", ...)},
        hints=("Which column is a share?",),
    )
    assert grade(exercise, ("no_gradient", 11)).status == "right"
    assert "the reward falls later" in grade(exercise, ("reward", 11)).reason
    assert log.report().findings[0].rule.name == "most-tokens-silent"


def test_rows_of_either_kind_of_log():
    """Evaluations stand between the steps of TRL's; the warm start of ours is left out."""
    log = stored_log("cb7f")
    assert [row["step"] for row in log.rows() if "eval_reward" in row] != [row["step"] for row in log.rows()]
    assert log.table("eval_reward").columns[0][0] != log.table("reward").columns[0][0]
    assert all(row["phase"] for row in stored_log("29eb").rows())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: stored_log("none"), "key is 'none'; the stored logs are "),
        (lambda: stored_log("29eb").table("clipped"), "columns has 'clipped'; log 29eb has phase, step, reward"),
        (lambda: stored_log("29eb").first("reward", above=2), "reward of log 29eb is never above 2"),
    ],
)
def test_what_is_not_there_is_said(wrong, said: str):
    with pytest.raises(ValueError, match=said):
        wrong()
