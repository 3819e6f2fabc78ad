"""Figures that can be read in grey, by the colour-blind, and by a screen reader."""

import base64
import html
import io
from typing import Any

from IPython.display import DisplayHandle, display
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's palette, each colour with a dash and a marker of its own
STYLES: tuple[dict[str, Any], ...] = (
    dict(color="#0072B2", linestyle="-", marker="o"),
    dict(color="#D55E00", linestyle="--", marker="s"),
    dict(color="#009E73", linestyle="-.", marker="^"),
    dict(color="#CC79A7", linestyle=":", marker="D"),
    dict(color="#000000", linestyle=(0, (7, 2)), marker="v"),
    dict(color="#E69F00", linestyle=(0, (1, 3)), marker="P"),
    dict(color="#56B4E9", linestyle=(0, (5, 1, 1, 1, 1, 1)), marker="X"),
)


def new_figure(panels: int, columns: int = 2, width: float = 4.6, height: float = 3.2) -> tuple[Figure, list[Any]]:
    """A figure with ``panels`` of ``width`` by ``height`` inches in rows of ``columns``, and its axes.

    It belongs to no global list, so none pile up.
    """
    rows = -(-panels // columns)
    columns = min(panels, columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[panels:]:
        axis.set_axis_off()
    for axis in axes[:panels]:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[:panels]


def bundle(figure: Figure, alt: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Data and metadata of a figure as Jupyter wants them: a picture, with ``alt`` for those who cannot see it.

    JupyterLab gives a PNG no alternative text, so an HTML image comes first; other readers take the PNG. A palette of
    128 colours makes the file a third as large, and notebooks hold it twice.
    """
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    Image.open(drawn).convert("RGB").quantize(128).save(small, format="png", optimize=True)
    picture = base64.b64encode(small.getvalue()).decode("ascii")
    image = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{picture}">'
    return {"text/html": image, "image/png": picture, "text/plain": alt}, {"image/png": {"alt": alt}}


def show(figure: Figure, alt: str) -> DisplayHandle:
    """Show ``figure`` below the cell. ``alt`` says in words what it shows. Returns a handle to update it."""
    data, metadata = bundle(figure, alt)
    handle = DisplayHandle()
    display(data, raw=True, metadata=metadata, display_id=handle.display_id)
    return handle
