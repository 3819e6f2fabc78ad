"""Explorers: closed forms that a reader moves, computed and drawn in the browser.

Live in JupyterLab through anywidget, and live on a bare page, with no kernel and no widget manager. What a notebook
stores is a page fragment with its own script, and a picture for where scripts do not run.
"""

import base64
import html
import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import traitlets
from matplotlib.figure import Figure

from rlnotes.notebook.figures import STYLES, bundle, new_figure

Panel = list[tuple[str, np.ndarray, np.ndarray]]  # curves: label, x, y


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
    """A panel's title, axis labels and ranges; ``y`` None follows the curves."""

    title: str
    xlabel: str
    ylabel: str
    x: tuple[float, float]
    y: tuple[float, float] | None = None


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

    def module(self) -> str:
        """The ES module: the shared drawing code, ``helpers``, this form's ``compute``, and its sliders and axes."""
        shared, own = files("rlnotes.notebook").joinpath("js"), files(type(self).__module__.rpartition(".")[0])
        scripts = [*(shared.joinpath(name) for name in ("explorer.js", *self.helpers)), own.joinpath(self.script)]
        parts = [script.read_text(encoding="utf-8") for script in scripts]
        spec = dict(title=self.title, controls=list(map(asdict, self.controls)), panels=list(map(asdict, self.panels)))
        return "\n".join([*parts, f"export const SPEC = {json.dumps(spec)};"])

    def figure(self, values: dict[str, float]) -> Figure:
        """A still picture of the curves at ``values``."""
        figure, axes = new_figure(len(self.panels))
        drawn = zip(axes, self.panels, self.curves(**values), self.marks(**values), strict=True)
        for axis, panel, curves, mark in drawn:
            for style, (label, x, y) in zip(STYLES, curves, strict=False):
                axis.plot(x, y, label=label, color=style["color"], linestyle=style["linestyle"])
                axis.plot(mark, np.interp(mark, x, y), color=style["color"], marker=style["marker"])
            axis.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel, xlim=panel.x)
            if panel.y is not None:
                axis.set_ylim(*panel.y)
            axis.legend(frameon=False, fontsize=8)
        return figure

    def fragment(self, values: dict[str, float]) -> tuple[dict[str, str], dict[str, Any]]:
        """text/html that comes alive by itself, image/png and text/plain for where it cannot."""
        settings = ", ".join(f"{c.label} {values[c.name]:g}" for c in self.controls)
        data, metadata = bundle(self.figure(values), f"{self.title}; a still picture at {settings}")
        code = base64.b64encode(self.module().encode("utf-8")).decode("ascii")
        start = html.escape(json.dumps(values))
        data["text/html"] = (
            f'<div class="rlnotes-host" data-start="{start}">{data["text/html"]}<script>(() => {{'
            "const host = document.currentScript.parentElement;"
            f'import("data:text/javascript;base64,{code}").then((module) => {{'
            "host.replaceChildren(); module.mount(host, JSON.parse(host.dataset.start)); }); })();</script></div>"
        )
        return data, metadata


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

    class Explorer(anywidget.AnyWidget):
        _esm = model.module()
        values = traitlets.Dict().tag(sync=True)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            """The widget for a kernel at hand, and beside it what lives without one."""
            view = super()._repr_mimebundle_(**options)
            data, metadata = view if isinstance(view, tuple) else (view or {}, {})
            still, alt = model.fragment(dict(self.values))
            return data | still, metadata | alt

    return Explorer(values=values)
