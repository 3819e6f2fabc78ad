"""The page of verdicts: current, whole, and its words are those of the differences that they rest on."""

from pathlib import Path

from rlnotes.chapters.studies import COMPARISONS
from rlnotes.chapters.verdicts import LINES, told, verdicts_page
from rlnotes.studies.tables import load_rows

PAGE = Path(__file__).parents[2] / "course" / "book" / "verdicts.md"


def test_the_page_of_verdicts_is_up_to_date():
    made = verdicts_page()
    assert PAGE.read_text(encoding="utf-8") == made, "python -m rlnotes.chapters.verdicts course/book/verdicts.md"
    assert all(f"### {name}\n" in made for name in LINES)


def test_every_contest_has_its_verdict_and_its_words_are_those_of_the_tables():
    assert {*LINES} == {name for name, study in COMPARISONS.items() if study.first}
    claims = {(name, one): word for name, line in LINES.items() for one, word in line.rests.items()}
    assert {key: told(*key).word.split()[0] for key in claims} == {key: word.split()[0] for key, word in claims.items()}


def test_a_centre_that_is_recomputed_takes_a_third_more_time():
    found = {row["arm"]: row for row in load_rows("13_cost")}
    assert {arm: row["recomputes"] for arm, row in found.items()} == {
        "stale_ppo": False, "unclipped": False, "method_1": True, "method_2": True, "decoupled_ppo": True,
    }  # fmt: skip
    assert abs(found["unclipped"]["more"]) < 0.05
    for row in found.values():
        assert not row["recomputes"] or (row["least"] > 0 and 0.25 < row["more"] < 0.4)
