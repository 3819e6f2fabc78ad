"""What exact explorers send to the browser: drawable at every place of the sliders, and what the package says."""

import itertools
import json

import numpy as np
import pytest

from rlnotes.bounds import cpi
from rlnotes.bounds import mdp as bounds
from rlnotes.chapters.c04.explorers import CASES
from rlnotes.chapters.c05.explorers import at_kl
from rlnotes.chapters.c12.explorers import VERSIONS
from rlnotes.chapters.explorers import EXPLORERS
from rlnotes.exact.mdp import softmax
from rlnotes.exact.pathologies import two_rooms
from rlnotes.notebook.explorer import ExactModel, Panel
from rlnotes.notebook.figures import bundle

EXACT = {name: model for name, model in EXPLORERS.items() if isinstance(model, ExactModel)}


def curves(name: str, panel: int = 0, **values: float) -> Panel:
    return EXACT[name].drawing(**EXACT[name].defaults() | values)[1][panel].curves


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT.keys())
def test_it_can_be_drawn_at_the_ends_of_every_slider(model: ExactModel):
    for chosen in itertools.product(*((c.min, c.value, c.max) for c in model.controls)):
        values = dict(zip(model.defaults(), chosen, strict=True))
        data = model.data(values)
        assert data["text"] and "nan" not in data["text"], values
        assert len(json.dumps(data, allow_nan=False)) < 10_000
        assert len(data["panels"]) == len(model.panels)
        for panel, axes in zip(data["panels"], model.panels, strict=True):
            assert len(panel["curves"]) <= 5  # colours and dashes
            heights = [y for curve in panel["curves"] for y in curve["ys"]]
            low, high = panel.get("y") or axes.y or (min(heights), max(heights))
            assert low < high and any(low <= y <= high for y in heights), f"nothing to see at {values}"
        bundle(model.figure(values), model.alt(values))


@pytest.mark.parametrize("case", [0, 1, 2])
def test_chapter_04_draws_the_bounds_of_the_package(case: int):
    mdp, other, old = list(CASES.values())[case](0.8)
    true, sharp, loose = curves("step, true", case=case, gamma=0.8, zoom=1.0)
    for i in (0, 1, 40, 80):
        alpha = true[1][i]
        exact = cpi.kakade_langford(mdp, old, other, alpha)
        expected = exact.true, exact.lower, cpi.conservative(mdp, old, other, alpha).lower
        np.testing.assert_allclose([true[2][i], sharp[2][i], loose[2][i]], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("largest", [-5.0, -2.0, -0.5])
def test_chapter_05_draws_the_bounds_of_the_package(largest: float):
    mdp = two_rooms(0.8).mdp
    logits = np.zeros(mdp.r.shape)
    pi, end = softmax(logits), at_kl(mdp, logits, 10**largest)
    shown = curves("trust, true", gamma=0.8, largest=largest)
    assert shown[0][1][-1] == pytest.approx(10**largest)
    for i in (1, 20, 40):
        new = softmax(i / 40 * end)
        mean, most = bounds.average_kl(mdp, new, pi), bounds.max_kl(mdp, new, pi)
        assert [x[i] for _, x, _ in shown] == pytest.approx([bounds.mean_kl(mdp, new, pi)] * 4)
        expected = mean.true, mean.surrogate, mean.lower, most.lower
        np.testing.assert_allclose([y[i] for _, _, y in shown], expected, rtol=1e-7, atol=1e-10)


def inside(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which of ``points`` (K, 2) are in the convex outline, walked against the clock."""
    sides = zip(np.c_[x, y][:-1], np.c_[x, y][1:], strict=True)
    left_of = [
        (end - begin)[0] * (points - begin)[:, 1] - (end - begin)[1] * (points - begin)[:, 0] for begin, end in sides
    ]
    return np.all(np.array(left_of) >= -1e-12, axis=0)


@pytest.mark.parametrize(
    ("delta", "versions"), [(0.11, 3), (0.21, 2), (0.3, 2), (0.34, 3), (0.36, 3), (0.5, 2), (0.5, 3)]
)
def test_chapter_12_outlines_hold_what_total_variation_says(delta: float, versions: int):
    grid = np.array([[i, j, 97 - i - j] for i in range(98) for j in range(98 - i)]) / 97
    near = bounds.state_tv(VERSIONS[:versions, None], grid) <= delta
    simplex, common, *balls = curves("regions", delta=delta, versions=versions)
    assert inside(*simplex[1:], grid[:, :2]).all()
    assert len(balls) == versions
    for (_, x, y), expected in zip(balls, near, strict=True):
        assert (inside(x, y, grid[:, :2]) == expected).all()
    found = inside(*common[1:], grid[:, :2]) if len(common[1]) else np.zeros(len(grid), bool)
    assert (found == near.all(0)).all()
    text = EXACT["regions"].data(dict(delta=delta, versions=versions))["text"]
    assert ("no common part" in text) == (delta < (0.275 if versions == 2 else 0.35))  # as chapter 12 computes them
