"""Sliders that redraw a picture: exact models to play with, by mouse or by keyboard."""

import asyncio
import html
import math
from collections.abc import Callable
from itertools import product
from threading import Lock
from typing import Any, NamedTuple

import ipywidgets
from matplotlib.figure import Figure

from rlnotes.notebook.figures import bundle

SETTLE_SECONDS = 0.03  # from a move to its picture; moves that wait in the kernel's queue arrive meanwhile
LONGEST_ERROR = 200  # characters
NEEDS_KERNEL = "<p><em>The sliders need a running kernel: run the notebook in JupyterLab to move them.</em></p>"

Draw = Callable[..., tuple[Figure, str]]


class Control(NamedTuple):
    """A slider's range, step, first value and label. Whole numbers throughout make a slider of whole numbers."""

    low: float
    high: float
    step: float
    default: float
    label: str

    def check(self, name: str) -> None:
        """Raise ``ValueError`` that names ``name`` if no slider can be made of this."""
        low, high, step, default, label = self
        if not all(map(math.isfinite, self[:4])) or not (low <= default <= high and low < high and step > 0):
            raise ValueError(
                f"{name} is ({low}, {high}, {step}, {default}, ...); it must be (min, max, step, default, label) "
                "with min < max, step > 0, and min <= default <= max"
            )
        if not label.strip():
            raise ValueError(f"{name} has no label; say in a word or two what it is")

    def slider(self, label_width: str) -> Any:
        """The widget, with a readout that shows as many digits as a step changes."""
        whole = all(isinstance(number, int) for number in self[:4])
        return (ipywidgets.IntSlider if whole else ipywidgets.FloatSlider)(
            value=self.default, min=self.low, max=self.high, step=self.step,
            description=self.label, tooltip=self.label, style={"description_width": label_width},
            readout_format="d" if whole else f".{_digits(self.step)}f", layout={"width": "auto", "max_width": "36em"},
        )  # fmt: skip


def _digits(step: float) -> int:
    """Digits after the point that a number on a grid of ``step`` needs."""
    return next((digits for digits in range(8) if math.isclose(round(step, digits), step)), 8)


class Sliders:
    """A picture of ``draw(**values)`` below one slider for each control; it follows the sliders.

    ``draw`` returns a figure (see :func:`rlnotes.notebook.figures.new_figure`) and its alternative text. A control is
    ``name=(min, max, step, default, label)``. Raises ``ValueError`` for a range that is none, and whatever ``draw``
    raises at the defaults. What it raises later is shown as one line, until the next value that can be drawn.
    """

    def __init__(self, draw: Draw, **controls: tuple[float, float, float, float, str]):
        if not controls:
            raise ValueError('there are no controls; give at least one, as in x=(0, 1, 0.1, 0.5, "share x")')
        self.draw = draw
        self.controls = {name: Control(*control) for name, control in controls.items()}
        for name, control in self.controls.items():
            control.check(name)
        self.shown = self.render(self.defaults())
        label_width = f"{max(len(control.label) for control in self.controls.values()) + 2}ch"
        self.sliders = {name: control.slider(label_width) for name, control in self.controls.items()}
        self.error = ipywidgets.HTML()
        self.picture = ipywidgets.HTML(_steady(self.shown[0]["text/html"]))
        self.box = ipywidgets.VBox([*self.sliders.values(), self.error, self.picture])
        self._lock, self._busy, self._moved = Lock(), False, False
        for slider in self.sliders.values():
            slider.observe(self._move, names="value")

    def defaults(self) -> dict[str, float]:
        """The value that each control starts with."""
        return {name: control.default for name, control in self.controls.items()}

    def values(self) -> dict[str, float]:
        """Where the sliders stand."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def render(self, values: dict[str, float]) -> tuple[dict[str, str], dict[str, Any]]:
        """Data and metadata of the picture at ``values``. Raises what ``draw`` raises."""
        return bundle(*self.draw(**values))

    def _move(self, change: Any) -> None:
        """Have the picture drawn soon, unless that is under way.

        A kernel handles one message after another, so a slow picture makes moves queue up. The pause lets the queued
        ones arrive, and only the last is drawn. Where no event loop runs, the picture is drawn at once. JupyterLab
        hands most moves to a thread of their own (a subshell), others come from cells: one that comes while a picture
        is drawn is noted, and drawn next.
        """
        with self._lock:
            self._moved = True
            if self._busy:
                return
            self._busy = True
        try:
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._catch_up)
        except RuntimeError:  # no loop
            self._catch_up()

    def _catch_up(self) -> None:
        """Draw until the picture shows the sliders' last values."""
        try:
            while self._take_move():
                self._redraw()
        except BaseException:  # an interrupt
            self._busy = False
            raise

    def _take_move(self) -> bool:
        """True if the sliders moved since the last picture; else there is nothing left to do."""
        with self._lock:
            self._busy, self._moved = self._moved, False
            return self._busy

    def _redraw(self) -> None:
        values = self.values()
        try:
            self.shown = self.render(values)
        except Exception as error:  # it comes while the reader plays, far from any cell that could show it
            self.error.value = _error_line(values, error)
        else:
            self.error.value = ""
            self.picture.value = _steady(self.shown[0]["text/html"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live widget, and beside it the picture for readers without a kernel."""
        data, metadata = self.shown
        widget = self.box._repr_mimebundle_() or {}
        return {**widget, **data, "text/html": data["text/html"] + NEEDS_KERNEL}, metadata


def _steady(image: str) -> str:
    """An image that is decoded before it is shown: the page does not blink when it replaces another."""
    return image.replace("<img ", '<img decoding="sync" style="max-width: 100%" ', 1)


def _error_line(values: dict[str, float], error: Exception) -> str:
    """What went wrong, and where, as one red line that can be read on white and on black."""
    where = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    text = " ".join(f"{type(error).__name__}: {error} (at {where}; the picture is older)".split())
    if len(text) > LONGEST_ERROR:
        text = text[: LONGEST_ERROR - 1] + "…"
    return f'<div role="alert" style="color: var(--jp-error-color1, #d32f2f)">{html.escape(text)}</div>'


def check_sliders(sliders: Sliders) -> None:
    """Draw at every combination of the controls' minima, defaults and maxima, without moving a slider.

    Raises what ``draw`` raises, with a note that says at which values.
    """
    names = list(sliders.controls)
    ends = [(control.low, control.default, control.high) for control in sliders.controls.values()]
    for values in product(*ends):
        chosen = dict(zip(names, values, strict=True))
        try:
            sliders.render(chosen)
        except Exception as error:
            error.add_note(f"drawn at {chosen}")
            raise
