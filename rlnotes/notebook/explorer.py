"""Explorers: models that a reader moves by sliders, drawn in the browser.

A closed form is computed there too: live in JupyterLab through anywidget, and live on a bare page, with no kernel and
no widget manager. An exact model is computed in Python, which sends the arrays; without a kernel it is a still picture.
What a notebook stores is a page fragment with its own script, and a picture for where scripts do not run.
"""

import base64
import html
import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from threading import Lock
from typing import Any

import numpy as np
import traitlets
from matplotlib.figure import Figure

from rlnotes.notebook.figures import STYLES, bundle, new_figure

Panel = list[tuple[str, np.ndarray, np.ndarray]]  # curves: label, x, y
Range = tuple[float, float]

NEEDS_KERNEL = "<p><em>These sliders need a running kernel: run the notebook in JupyterLab to move them.</em></p>"


@dataclass(frozen=True)
class Control:
    """A slider."""

    name: str
    label: str
    min: float
    max: float
    step: float
    value: float


@dataclass(frozen=True)
class Axes:
    """A panel's title, axis labels and ranges; ``y`` None follows the curves.

    ``filled`` are the places of the curves that are outlines of something, ``ticks`` the numbers that the x axis shows.
    """

    title: str
    xlabel: str
    ylabel: str
    x: Range
    y: Range | None = None
    ticks: tuple[float, ...] | None = None
    filled: tuple[int, ...] = ()


@dataclass(frozen=True)
class Drawn:
    """What a panel shows at some values: curves, points (x, y, place of the curve), ranges that are not its axes'."""

    curves: Panel
    points: list[tuple[float, float, int]]
    x: Range | None = None
    y: Range | None = None

    def data(self) -> dict[str, Any]:
        """As the browser reads it. Raises ``ValueError`` for a number that cannot be drawn."""
        curves = [dict(label=label, xs=_numbers(label, x), ys=_numbers(label, y)) for label, x, y in self.curves]
        points = [dict(zip(("x", "y"), _numbers("a point", xy), strict=True), curve=i) for *xy, i in self.points]
        return dict(curves=curves, points=points) | {name: r for name in "xy" if (r := getattr(self, name))}


def _numbers(name: str, numbers: Any) -> list[float]:
    """Six digits of each: more than a screen shows."""
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} has a number that is not finite and cannot be drawn")
    return [float(f"{number:.6g}") for number in numbers]


class ExplorerModel:
    """One closed form, twice: ``script`` computes it in the browser, :meth:`curves` in Python. Tests compare them."""

    script: str  # a file beside the module of the class
    helpers: tuple[str, ...] = ()  # files of this room, with what several scripts need
    title: str
    controls: tuple[Control, ...]
    panels: tuple[Axes, ...]

    def curves(self, **values: float) -> list[Panel]:
        """The curves of each panel, by the functions of the package."""
        raise NotImplementedError

    def marks(self, **values: float) -> list[float]:
        """Where each panel's markers stand on its x axis: at what the sliders say."""
        raise NotImplementedError

    def defaults(self) -> dict[str, float]:
        """Where the sliders stand at first."""
        return {control.name: control.value for control in self.controls}

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """What is said in words, and what each panel shows. The words of a closed form are its script's."""
        curves, marks = self.curves(**values), self.marks(**values)
        return "", [
            Drawn(panel, [(mark, float(np.interp(mark, x, y)), i) for i, (_, x, y) in enumerate(panel)])
            for panel, mark in zip(curves, marks, strict=True)
        ]

    def compute(self, values: dict[str, float]) -> str:
        """The script that defines ``compute``."""
        own = files(type(self).__module__.rpartition(".")[0]).joinpath(self.script)
        return own.read_text(encoding="utf-8")

    def module(self, values: dict[str, float] | None = None) -> str:
        """The ES module: the shared drawing code, ``helpers``, this form's ``compute``, and its sliders and axes."""
        shared = files("rlnotes.notebook").joinpath("js")
        parts = [shared.joinpath(name).read_text(encoding="utf-8") for name in ("explorer.js", *self.helpers)]
        spec: dict[str, Any] = dict(title=self.title, exact=isinstance(self, ExactModel))
        spec |= dict(controls=list(map(asdict, self.controls)), panels=list(map(asdict, self.panels)))
        return "\n".join([*parts, self.compute(values or self.defaults()), f"export const SPEC = {json.dumps(spec)};"])

    def figure(self, values: dict[str, float]) -> Figure:
        """A still picture at ``values``."""
        figure, axes = new_figure(len(self.panels))
        for axis, panel, drawn in zip(axes, self.panels, self.drawing(**values)[1], strict=True):
            for i, (style, (label, x, y)) in enumerate(zip(STYLES, drawn.curves, strict=False)):
                axis.plot(x, y, label=label, color=style["color"], linestyle=style["linestyle"])
                if i in panel.filled:
                    axis.fill(x, y, color=style["color"], alpha=0.3)
            for x, y, i in drawn.points:
                axis.plot(x, y, color=STYLES[i]["color"], marker=STYLES[i]["marker"])
            axis.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel, xlim=drawn.x or panel.x)
            axis.set_ylim(drawn.y or panel.y)
            if panel.ticks is not None:
                axis.set_xticks(panel.ticks)
            axis.legend(frameon=False, fontsize=8)
        return figure

    def alt(self, values: dict[str, float]) -> str:
        """The still picture in words."""
        settings = ", ".join(f"{c.label} {values[c.name]:g}" for c in self.controls)
        return f"{self.title}; a still picture at {settings}"

    def fragment(self, values: dict[str, float]) -> tuple[dict[str, str], dict[str, Any]]:
        """text/html that comes alive by itself, image/png and text/plain for where it cannot."""
        data, metadata = bundle(self.figure(values), self.alt(values))
        code = base64.b64encode(self.module(values).encode("utf-8")).decode("ascii")
        start = html.escape(json.dumps(values))
        data["text/html"] = (
            f'<div class="rlnotes-host" data-start="{start}">{data["text/html"]}<script>(() => {{'
            "const host = document.currentScript.parentElement;"
            f'import("data:text/javascript;base64,{code}").then((module) => {{'
            "host.replaceChildren(); module.mount(host, JSON.parse(host.dataset.start)); }); })();</script></div>"
        )
        return data, metadata


class ExactModel(ExplorerModel):
    """A model that Python computes at each move: :meth:`drawing` says and gives what the same code then draws."""

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """What is said in words at these values, and what each panel shows."""
        raise NotImplementedError

    def data(self, values: dict[str, float]) -> dict[str, Any]:
        """The drawing as the browser reads it. Raises what :meth:`drawing` raises."""
        text, panels = self.drawing(**values)
        return dict(text=text, panels=[drawn.data() for drawn in panels])

    def compute(self, values: dict[str, float]) -> str:
        """Where no kernel computes, what was drawn at ``values`` stands still."""
        return f"export const compute = () => ({json.dumps(self.data(values))});"

    def alt(self, values: dict[str, float]) -> str:
        """With what is said of it."""
        return f"{super().alt(values)}. {self.drawing(**values)[0]}"

    def fragment(self, values: dict[str, float]) -> tuple[dict[str, str], dict[str, Any]]:
        """With a line that says what moves it."""
        data, metadata = super().fragment(values)
        return data | {"text/html": data["text/html"] + NEEDS_KERNEL}, metadata


def explorer(model: ExplorerModel, **start: float) -> Any:
    """The widget of ``model``, with sliders at ``start`` or at their defaults.

    Its ``values`` hold where the sliders stand. Raises ``ValueError`` for a value without a slider or out of range.
    """
    import anywidget

    values = model.defaults() | start
    for control in model.controls:
        if not control.min <= values[control.name] <= control.max:
            raise ValueError(f"{control.name} is {values[control.name]}; it goes from {control.min} to {control.max}")
    if unknown := set(values) - {control.name for control in model.controls}:
        raise ValueError(f"there is no slider {', '.join(sorted(unknown))}; there is {', '.join(model.defaults())}")

    script = model.module(values)

    class Explorer(anywidget.AnyWidget):
        _esm = script
        values = traitlets.Dict().tag(sync=True)
        drawing = traitlets.Dict().tag(sync=True)  # of an exact model, at the last values
        computing = Lock()  # JupyterLab moves sliders in a thread of its own, a cell in another

        @traitlets.observe("values")
        def _follow(self, change: Any) -> None:
            """Draw an exact model at its last values. Meanwhile the browser keeps one more move waiting, the last."""
            if isinstance(model, ExactModel):
                with self.computing:
                    self.drawing = _answer(model, self.values)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            """The widget for a kernel at hand, and beside it what lives without one."""
            view = super()._repr_mimebundle_(**options)
            data, metadata = view if isinstance(view, tuple) else (view or {}, {})
            still, alt = model.fragment(dict(self.values))
            return data | still, metadata | alt

    return Explorer(values=values)


def _answer(model: ExactModel, values: dict[str, float]) -> dict[str, Any]:
    """The drawing, or what went wrong: it happens while the reader plays, far from any cell that could show it."""
    try:
        return model.data(values)
    except Exception as error:
        where = ", ".join(f"{name} = {value:g}" for name, value in values.items())
        return {"error": f"{type(error).__name__}: {error} (at {where}; the picture is older)"}
