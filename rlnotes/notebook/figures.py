"""Figures that can be read in grey, by the colour-blind, and by a screen reader."""

import base64
import io
from typing import Any

from IPython.display import DisplayHandle, display
from matplotlib.figure import Figure

# Okabe and Ito's palette, each colour with a dash and a marker of its own
STYLES: tuple[dict[str, Any], ...] = (
    dict(color="#0072B2", linestyle="-", marker="o"),
    dict(color="#D55E00", linestyle="--", marker="s"),
    dict(color="#009E73", linestyle="-.", marker="^"),
    dict(color="#CC79A7", linestyle=":", marker="D"),
)


def new_figure(columns: int, width: float = 9.0, height: float = 3.4) -> tuple[Figure, list[Any]]:
    """A figure with ``columns`` panels side by side. It belongs to no global list, so none pile up."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def bundle(figure: Figure, alt: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Data and metadata of a figure as Jupyter wants them: a PNG, and ``alt`` for those who cannot see it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    picture = base64.b64encode(file.getvalue()).decode("ascii")
    return {"image/png": picture, "text/plain": alt}, {"image/png": {"alt": alt}}


def show(figure: Figure, alt: str) -> DisplayHandle:
    """Show ``figure`` below the cell. ``alt`` says in words what it shows. Returns a handle to update it."""
    data, metadata = bundle(figure, alt)
    handle = DisplayHandle()
    display(data, raw=True, metadata=metadata, display_id=handle.display_id)
    return handle
