"""A reader's recipe in the arena: the same runs as the table's, beside which it can be drawn."""

from dataclasses import replace

import numpy as np
import pytest

from rlnotes.notebook.arena import draw_ranking
from rlnotes.objectives import GRPO
from rlnotes.studies import joined
from rlnotes.studies.arena import TUNING_SEEDS, arena
from rlnotes.studies.challenge import challenge
from rlnotes.studies.run import run
from rlnotes.studies.scores import scores, standings

pytestmark = pytest.mark.usefixtures("_in_this_process")

RATES, TOKENS = (1e-5, 1e-3), 1300


def test_a_recipe_from_a_cell_gets_the_runs_of_every_other_and_stands_beside_them():
    def mine(ratio, advantages):  # which no worker process could import
        return (ratio - 1) * advantages

    same = challenge("grpo again", GRPO, "needle", RATES, seeds=2, tokens=TOKENS)
    best = "grpo again, needle 1e-3"
    assert list(same.rows) == [best] and list(same.rows[best]) == [0, 1]  # the other rate was only tuned on
    assert {method: tuple(runs) for method, runs in same.tuning.items()} == {
        "grpo again, needle 1e-5": TUNING_SEEDS,
        best: TUNING_SEEDS,
    }
    study = arena(("grpo",), ("needle",), RATES, tokens=TOKENS)
    made = run(study, "grpo, needle 1e-3", seed=1)
    np.testing.assert_allclose(same.rows[best][1]["accuracy"], [row["accuracy"] for row in made], rtol=1e-4)
    np.testing.assert_array_equal(same.rows[best][1]["tokens"], [row["tokens"] for row in made])

    other = challenge("mine", replace(GRPO, gate=mine), "needle", RATES[1:], seeds=2, tokens=TOKENS)
    places = standings(scores(joined(same, other), ["needle"]), reference="grpo again")
    assert {place.recipe for place in places} == {"grpo again", "mine"}
    assert "mine" in draw_ranking(places)[1]


def test_what_cannot_be_compared_is_refused_before_a_run():
    with pytest.raises(ValueError, match="name is 'grpo', which is a recipe already"):
        challenge("grpo", GRPO, "needle")
    with pytest.raises(ValueError, match="unknown in tasks: 'spell'"):
        challenge("mine", GRPO, "spell")
    with pytest.raises(ValueError, match="seeds is 1; an interval needs at least 2"):
        challenge("mine", GRPO, "needle", seeds=1)
    with pytest.raises(ValueError, match="recipe 'mine' cannot be run on task 'needle'"):
        challenge("mine", replace(GRPO, gate=lambda ratio: ratio), "needle")
