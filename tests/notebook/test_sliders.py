import asyncio
import threading
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from rlnotes.notebook.figures import new_figure
from rlnotes.notebook.refresh import normalise
from rlnotes.notebook.saving import WIDGET
from rlnotes.notebook.sliders import LONGEST_ERROR, NEEDS_KERNEL, Sliders, check_sliders

SHARE = (0.0, 1.0, 0.05, 0.5, "share x")


class Picture:
    """A drawing that remembers its calls and fails where it is told to."""

    def __init__(self, fails_at: Any = None, message: str = "no"):
        self.fails_at, self.message = fails_at, message
        self.calls: list[dict[str, float]] = []

    def __call__(self, **values):
        self.calls.append(values)
        if self.fails_at is not None and self.fails_at in values.values():
            raise ValueError(self.message)
        figure, (axis,) = new_figure(1, width=1, height=1)
        axis.plot([0, 1], [0, sum(values.values())])
        return figure, f"a line at {values}"


def move(sliders: Sliders, **values: float) -> None:
    for name, value in values.items():
        sliders.sliders[name].value = value


def test_it_starts_at_the_defaults_with_labels_and_values_to_read():
    draw = Picture()
    sliders = Sliders(draw, x=SHARE, group=(2, 16, 1, 8, "group size"))
    assert draw.calls == [{"x": 0.5, "group": 8}] == [sliders.values()]
    assert [slider.description for slider in sliders.sliders.values()] == ["share x", "group size"]
    assert [slider.readout_format for slider in sliders.sliders.values()] == [".2f", "d"]
    assert isinstance(sliders.sliders["group"], ipywidgets.IntSlider)
    assert all(slider.readout for slider in sliders.sliders.values())


@pytest.mark.parametrize(("step", "form"), [(0.5, ".1f"), (0.001, ".3f"), (2.0, ".0f"), (0.125, ".3f")])
def test_the_readout_shows_every_step(step: float, form: str):
    assert Sliders(Picture(), x=(0.0, 10.0, step, 0.0, "x")).sliders["x"].readout_format == form


@pytest.mark.parametrize(
    "control",
    [(1, 0, 0.1, 0.5, "x"), (0, 1, 0, 0.5, "x"), (0, 1, 0.1, 2, "x"), (0, 0, 1, 0, "x"), (0, float("nan"), 1, 0, "x")],
)
def test_a_range_that_is_none_raises_before_anything_is_drawn(control: Any):
    draw = Picture()
    with pytest.raises(ValueError, match=r"clip is \(.*min < max, step > 0"):
        Sliders(draw, clip=control)
    with pytest.raises(ValueError, match="clip has no label"):
        Sliders(draw, clip=(0, 1, 0.1, 0.5, " "))
    with pytest.raises(ValueError, match="no controls"):
        Sliders(draw)
    assert draw.calls == []


def test_a_move_redraws_the_same_widget_once_and_the_same_value_not_at_all():
    draw = Picture()
    sliders = Sliders(draw, x=SHARE)
    picture, before = sliders.picture, sliders.picture.value
    move(sliders, x=0.75)
    assert draw.calls[1:] == [{"x": 0.75}]
    assert sliders.picture is picture and picture.value != before and "a line at {&#x27;x&#x27;: 0.75}" in picture.value
    move(sliders, x=0.75)
    sliders.sliders["x"].description = "another name"
    assert len(draw.calls) == 2


def test_a_cell_that_ran_three_times_draws_once_for_each_widget():
    draw = Picture()
    first, _, last = (Sliders(draw, x=SHARE) for _ in range(3))
    draw.calls.clear()
    move(last, x=0.25)
    assert draw.calls == [{"x": 0.25}]
    move(first, x=0.75)
    assert draw.calls == [{"x": 0.25}, {"x": 0.75}]


def test_an_error_is_one_red_line_until_the_next_good_value():
    draw = Picture(fails_at=1.0, message="x is <too>\nlarge")
    sliders = Sliders(draw, x=SHARE)
    good = sliders.picture.value
    move(sliders, x=1.0)
    assert sliders.picture.value == good
    assert sliders.error.value.count("<div") == 1 and "\n" not in sliders.error.value
    assert "ValueError: x is &lt;too&gt; large (at x = 1;" in sliders.error.value
    assert "color: " in sliders.error.value and 'role="alert"' in sliders.error.value
    move(sliders, x=0.25)
    assert sliders.error.value == "" and "0.25" in sliders.picture.value


def test_a_long_error_is_cut():
    sliders = Sliders(Picture(fails_at=1.0, message="long " * 1000), x=SHARE)
    move(sliders, x=1.0)
    assert len(sliders.error.value) < LONGEST_ERROR + 100


def test_an_error_at_the_defaults_belongs_to_the_cell():
    with pytest.raises(ValueError, match="no"):
        Sliders(Picture(fails_at=0.5), x=SHARE)


def test_an_interrupt_does_not_kill_it():
    draw = Picture()
    sliders = Sliders(draw, x=SHARE)

    def interrupted(**_):
        raise KeyboardInterrupt

    sliders.draw = interrupted
    with pytest.raises(KeyboardInterrupt):
        move(sliders, x=0.25)
    sliders.draw = draw
    move(sliders, x=0.75)
    assert "0.75" in sliders.picture.value


@pytest.mark.parametrize("bad", [0.0, 0.5, 1.0, 2, 16])
def test_the_headless_check_finds_an_error_at_either_end(bad: float):
    sliders = Sliders(Picture(), x=SHARE, group=(2, 16, 1, 8, "group size"))
    check_sliders(sliders)
    sliders.draw = Picture(fails_at=bad)
    with pytest.raises(ValueError, match="no") as caught:
        check_sliders(sliders)
    assert str(bad) in caught.value.__notes__[0]
    assert sliders.values() == sliders.defaults()


def test_the_headless_check_draws_every_corner_to_the_end():
    draw = Picture()
    sliders = Sliders(draw, x=SHARE, y=SHARE)
    draw.calls.clear()
    check_sliders(sliders)
    assert sorted(tuple(call.values()) for call in draw.calls) == [(a, b) for a in (0, 0.5, 1) for b in (0, 0.5, 1)]

    def unclosed(**values):  # an error that comes only when the figure is saved
        figure, text = draw(**values)
        figure.suptitle("$x")
        figure.axes[0].set_title(r"$\nosuchsymbol$")
        return figure, text

    sliders.draw = unclosed
    with pytest.raises(ValueError, match="nosuchsymbol"):
        check_sliders(sliders)


def test_figures_do_not_pile_up():
    sliders = Sliders(Picture(), x=(0, 200, 1, 0, "x"))
    for value in range(1, 101):
        move(sliders, x=value)
    assert plt.get_fignums() == [] and "100" in sliders.picture.value


def test_moves_that_come_together_are_drawn_once():
    draw = Picture()
    sliders = Sliders(draw, x=(0, 200, 1, 0, "x"))

    async def moves():
        for value in range(1, 41):
            move(sliders, x=value)
        assert len(draw.calls) == 1
        await asyncio.sleep(0.5)

    asyncio.run(moves())
    assert draw.calls[1:] == [{"x": 40}] and "40" in sliders.picture.value


def test_a_move_from_another_thread_waits_for_the_picture_under_way():
    draw, begun, go_on = Picture(), threading.Event(), threading.Event()
    sliders = Sliders(draw, x=(0, 200, 1, 0, "x"))

    def slow(**values):
        begun.set()
        assert go_on.wait(10)
        return draw(**values)

    sliders.draw = slow
    thread = threading.Thread(target=lambda: move(sliders, x=1))
    thread.start()
    assert begun.wait(10)
    for value in (2, 3, 4):
        move(sliders, x=value)
    go_on.set()
    thread.join(10)
    assert draw.calls[1:] == [{"x": 1}, {"x": 4}] and "4" in sliders.picture.value


SETUP = """
import time
from rlnotes.notebook.figures import new_figure
from rlnotes.notebook.sliders import Sliders
calls = []
def draw(x):
    calls.append(x)
    time.sleep(0.25)
    return new_figure(1)[0], f"x is {x}"
sliders = Sliders(draw, x=(0, 40, 1, 0, "x"))
print(sliders.sliders["x"].model_id)
"""


def printed(client: Any, code: str) -> str:
    texts: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        if message["content"].get("name") == "stdout":
            texts.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=hook, timeout=60)
    assert reply["content"]["status"] == "ok", reply
    return "".join(texts).strip()


def test_a_flood_of_moves_makes_a_handful_of_pictures_and_shows_the_last():
    """40 moves within a second, each picture a quarter of a second: one after another they would take 10 s."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        model = printed(client, SETUP)
        for value in range(1, 41):
            data = {"method": "update", "state": {"value": value}, "buffer_paths": []}
            client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": model, "data": data}))
            threading.Event().wait(1 / 40)
        printed(client, "import asyncio; await asyncio.sleep(1)")
        runs, last, shown = printed(client, 'print(len(calls) - 1, calls[-1], sliders.shown[0]["text/plain"])').split(
            maxsplit=2
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert 1 <= int(runs) <= 7 and last == "40" and shown == "x is 40"


def test_without_a_kernel_a_picture_and_a_line_are_left():
    sliders = Sliders(Picture(), x=SHARE)
    data, metadata = sliders._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == sliders.box.model_id
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("sliders", outputs=[output])])
    normalise(notebook)
    (stored,) = notebook.cells[0].outputs
    assert WIDGET not in stored.data
    assert stored.data["text/html"].startswith('<img alt="a line at') and NEEDS_KERNEL in stored.data["text/html"]
    assert stored.data["image/png"] and stored.metadata["image/png"]["alt"] == stored.data["text/plain"]


def test_two_that_are_alike_store_alike():
    def stored() -> dict[str, Any]:
        data, _ = Sliders(Picture(), x=SHARE)._repr_mimebundle_()
        return {kind: value for kind, value in data.items() if kind != WIDGET}

    assert stored() == stored()
