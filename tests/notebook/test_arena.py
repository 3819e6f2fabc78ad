"""The page of the arena: figures with their words, and sentences with the table's numbers."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from rlnotes.notebook.arena import (
    conclusions,
    draw_curves,
    draw_places,
    draw_profiles,
    draw_ranking,
    ranking_lines,
    report,
)
from rlnotes.objectives import RECIPES
from rlnotes.studies import Table, read_table
from rlnotes.studies.scores import scores, standings

TASKS, RATES = ("easy", "hard"), ("1e-4", "1e-3")


def made(folder: Path, recipes: list[str]) -> Table:
    """Three runs of each recipe on two tasks at two rates, of which the second is better, and two for tuning.

    The first recipe, the reference, lies in the middle; the next ones alternate above and below, each farther off.
    """
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    methods = {}
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("method", "recipe", "task", "rate", "seed", "step", "tokens", "accuracy"))
        for i, recipe in enumerate(recipes):
            for task in TASKS:
                for rate in RATES:
                    name = f"{recipe}, {task} {rate}"
                    methods[name] = dict(tokens=20)
                    for seed in (100, 101, 0, 1, 2):
                        level = 0.5 + 0.4 * (-1) ** i * i / len(recipes) + 0.05 * rng.uniform() - (rate == "1e-4") / 10
                        rows = [(name, recipe, task, rate, seed, k, 10 * k, level * k / 2) for k in range(3)]
                        table.writerows(rows)
    note = dict(comparison=dict(base={}, methods=methods, tokens=20, tuning_seeds=[100, 101]))
    (folder / "table.json").write_text(json.dumps(note), encoding="utf-8")
    return read_table("t", folder / "table.csv", folder / "table.json")


def test_a_ranking_of_all_recipes_has_a_legible_row_for_each(tmp_path: Path):
    places = standings(scores(made(tmp_path, list(RECIPES))), reference="vanilla_pg")
    figure, alt = draw_ranking(places)
    left = figure.axes[0]
    assert [label.get_text() for label in left.get_yticklabels()] == [place.recipe for place in places]
    assert figure.get_figheight() / len(places) > 0.15  # inches, for letters of 8/72
    top, bottom = left.get_ylim()[::-1]
    assert top < bottom  # the best on top
    for place, said in zip(places, alt.split(": ", 1)[1].split("; "), strict=True):
        assert said == f"{place.recipe} {place.mean.value:.2f}, {place.verdict}"
    drawn = [ends for line in left.lines if len(ends := np.asarray(line.get_xdata())) == 2]
    np.testing.assert_allclose(drawn, [place.mean[1:] for place in places])
    assert {str(line.get_marker()) for line in left.lines} == {"None", "."}, "the verdict is that of the other column"


def test_places_are_drawn_and_told_with_the_first_on_top(tmp_path: Path):
    found = scores(made(tmp_path, ["a", "b", "c"]))
    figure, alt = draw_places(found)
    assert alt == "Places of recipes by IQM, mean, median, easy, hard. c 1 1 1 1 1; a 2 2 2 2 2; b 3 3 3 3 3"
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["c", "a", "b"]
    assert [text.get_text() for text in axis.texts] == ["1"] * 5 + ["2"] * 5 + ["3"] * 5


def test_profiles_and_curves_say_their_numbers_and_draw_no_more_than_can_be_told_apart(tmp_path: Path):
    evidence = made(tmp_path, ["a", "b", "c", "d", "e", "f", "g", "h"])
    found = scores(evidence)
    figure, alt = draw_profiles(found, ["a", "b"])
    assert "a 100%, 0%; b 100%, 0%" in alt and len(figure.axes[0].lines) == 2
    figure, alt = draw_curves(evidence, found, ["a", "h"])
    assert [axis.get_title() for axis in figure.axes if axis.get_title()] == list(TASKS)
    ends = {recipe: np.median(evidence.last(f"{recipe}, easy 1e-3", "accuracy", 1)) for recipe in "ah"}
    assert f"easy: a {ends['a']:.2f}, h {ends['h']:.2f}" in alt
    np.testing.assert_allclose(np.asarray(figure.axes[0].lines[1].get_ydata())[-1], ends["h"])
    for draw in (lambda names: draw_profiles(found, names), lambda names: draw_curves(evidence, found, names)):
        with pytest.raises(ValueError, match="recipes holds 8 curves; at most 7 can be told apart"):
            draw(list("abcdefgh"))


def test_the_text_says_what_can_be_concluded_with_the_numbers_of_the_table(tmp_path: Path):
    evidence = made(tmp_path, ["a", "b", "c", "d", "e"])
    found = scores(evidence)
    places = standings(found, reference="a")
    header, *lines = ranking_lines(places)
    assert "chance to beat a" in header
    assert [line.split()[0] for line in lines] == ["e", "c", "a", "b", "d"]
    text = " ".join(conclusions(evidence, found, places))
    assert "Of 4 recipes 2 are better than a on these 2 tasks, 2 are worse, and 0 are not told apart" in text
    assert "by 3 runs of each task" in text and "at least 0.20 of 4 would still be called better or worse" in text
    assert (
        "e comes first. By the interval of its chance to beat each of them, it is told apart from every other" in text
    )
    assert "on 2 other seeds: 1e-4 was best 0 times, 1e-3 was best 10 times" in text


def test_a_first_place_that_is_shared_is_called_shared(tmp_path: Path):
    evidence = made(tmp_path, ["a"])
    twice = evidence.rows | {name.replace("a,", "b,"): runs for name, runs in evidence.rows.items()}
    again = read_table("t", tmp_path / "table.csv", tmp_path / "table.json")
    for name, labels in evidence.labels.items():
        other = name.replace("a,", "b,")
        again.labels[other] = labels | dict(recipe="b")
        again.tuning[other] = evidence.tuning[name]
        again.rows[other] = twice[other]
        again.settings["comparison"]["methods"][other] = dict(tokens=20)
    found = scores(again)
    text = " ".join(conclusions(again, found, standings(found, "b")))
    assert "0 are worse, and 1 are not told apart" in text
    assert "a comes first. By the interval of its chance to beat each of them, it is not told apart from b." in text


def test_a_report_draws_pictures_and_takes_the_first_recipe_for_the_reference(tmp_path: Path):
    made(tmp_path, ["b", "a", "c"])
    text = "\n".join(report(tmp_path))
    assert "chance to beat b" in text and "Nothing is said of other tasks" in text
    for name in ("ranking", "profiles", "curves"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
