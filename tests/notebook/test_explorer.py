"""An explorer of an exact model: what Python answers when a slider moves."""

import base64
import json
import re
import threading
from typing import Any

import numpy as np
import pytest

from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, explorer


class Line(ExactModel):
    """A line of the slope that the slider says. It remembers its calls, and fails where it is told to."""

    title = "a line"
    controls = (Control("x", "slope x", 0.0, 10.0, 1.0, 5.0),)
    panels = (Axes("line", "t", "x t", (0, 1)),)

    def __init__(self, fails_at: float | None = None, error: BaseException | None = None):
        self.fails_at, self.error = fails_at, error or ValueError("x is <too>\nlarge")
        self.calls: list[float] = []

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        x = values["x"]
        self.calls.append(x)
        if x == self.fails_at:
            raise self.error
        return f"x is {x:g}", [Drawn([("line", np.array([0.0, 1.0]), np.array([0.0, x]))], [(1.0, x, 0)], y=(0, 12))]


def test_a_move_sends_words_and_arrays():
    widget = explorer(Line(), x=2.0)
    assert widget.drawing["text"] == "x is 2"
    widget.set_state({"values": {"x": 7}})  # as a message of the browser does
    assert widget.drawing == {
        "text": "x is 7",
        "panels": [
            {
                "curves": [{"label": "line", "xs": [0.0, 1.0], "ys": [0.0, 7.0]}],
                "points": [{"x": 1.0, "y": 7.0, "curve": 0}],
                "y": (0, 12),
            }
        ],
    }
    assert "drawing" in widget.keys


def test_the_same_value_is_not_computed_again():
    model = Line()
    widget = explorer(model)
    model.calls.clear()
    for x in (7, 7, 8):
        widget.set_state({"values": {"x": x}})
    assert model.calls == [7, 8]


def test_an_error_is_one_line_until_the_next_good_value():
    widget = explorer(Line(fails_at=10))
    widget.values = {"x": 10}
    assert widget.drawing == {"error": "ValueError: x is <too>\nlarge (at x = 10; the picture is older)"}
    widget.values = {"x": 3}
    assert widget.drawing["text"] == "x is 3"


def test_an_error_at_the_start_belongs_to_the_cell():
    with pytest.raises(ValueError, match="too"):
        explorer(Line(fails_at=5))


def test_what_cannot_be_drawn_is_an_error_that_names_its_curve():
    model = Line()
    widget = explorer(model)
    widget.values = {"x": np.inf}
    assert "line has a number that is not finite" in widget.drawing["error"]


def test_an_interrupt_does_not_kill_it():
    model = Line(fails_at=10, error=KeyboardInterrupt())
    widget = explorer(model)
    with pytest.raises(KeyboardInterrupt):
        widget.values = {"x": 10}
    widget.values = {"x": 3}
    assert widget.drawing["text"] == "x is 3"


def test_moves_from_two_threads_are_computed_one_after_the_other_and_the_last_is_shown():
    begun, go_on, running, most = threading.Event(), threading.Event(), [], []

    class Slow(Line):
        def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
            running.append(1)
            most.append(len(running))
            if values["x"] == 1:
                begun.set()
                assert go_on.wait(10)
            running.pop()
            return super().drawing(**values)

    widget = explorer(Slow())
    threads = [threading.Thread(target=lambda x=x: widget.set_state({"values": {"x": x}})) for x in (1, 9)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    threads[1].join(0.2)  # it waits for the first
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert widget.drawing["text"] == "x is 9" and max(most) == 1


def stored(html: str) -> dict[str, Any]:
    """The drawing in the script of a page fragment."""
    (code,) = re.findall(r"base64,([^\"]+)\"\).then", html)
    (drawing,) = re.findall(r"export const compute = \(\) => \((.*)\);", base64.b64decode(code).decode("utf-8"))
    return json.loads(drawing)


def test_a_page_without_kernel_shows_where_the_sliders_were_and_says_so():
    widget = explorer(Line())
    widget.values = {"x": 7}
    data, metadata = widget._repr_mimebundle_()
    assert stored(data["text/html"])["text"] == "x is 7"
    assert data["text/plain"] == metadata["image/png"]["alt"] == "a line; a still picture at slope x 7. x is 7"
    assert "need a running kernel" in data["text/html"]
