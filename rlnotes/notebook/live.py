"""A learning curve that grows while the model trains."""

import time
from collections.abc import Iterable, Iterator

from rlnotes.lm.config import Metrics
from rlnotes.lm.progress import watched
from rlnotes.notebook.figures import STYLES, bundle, new_figure, show

REDRAW_SECONDS = 0.5  # between two drawings, at least
DRAWING_SHARE = 0.1  # of the time: the rest is for what is being followed


class LivePlot:
    """Curves of some metrics, one panel each, in rows of two, redrawn on the way, and once more at the end.

    Drawing takes a tenth of the time at most, and where nobody watches only the end is drawn.
    ``names`` are keys of the metrics, each with a label for its axis; ``xlabel`` says what the key ``step`` counts.
    ``goal`` draws a line in the first panel.
    """

    def __init__(self, names: dict[str, str], title: str, goal: float | None = None, xlabel: str = "step"):
        self.names, self.title, self.goal, self.xlabel = names, title, goal, xlabel
        self.rows: list[Metrics] = []
        self.handle = None
        self._due = 0.0

    def follow(self, metrics: Iterable[Metrics]) -> Iterator[Metrics]:
        """Pass metrics through and draw them. The last state is drawn also after an interrupt."""
        try:
            for row in metrics:
                self.rows.append(row)
                if watched() and time.monotonic() >= self._due:
                    self.draw()
                yield row
        finally:
            self.draw()

    def draw(self) -> None:
        """Show the curves so far, in place of those before."""
        started = time.monotonic()
        figure, axes = new_figure(len(self.names), height=2.4)
        for axis, style, (name, label) in zip(axes, STYLES, self.names.items(), strict=False):
            rows = [row for row in self.rows if name in row]
            axis.plot([r["step"] for r in rows], [r[name] for r in rows], color=style["color"])
            axis.set(xlabel=self.xlabel, ylabel=label)
        if self.goal is not None:
            axes[0].axhline(self.goal, color="0.4", linewidth=1)
            axes[0].annotate(f"goal {self.goal:g}", (0.01, self.goal), (2, 3), xycoords=("axes fraction", "data"),
                             textcoords="offset points", fontsize=9, color="0.2")  # fmt: skip
        figure.suptitle(self.title, fontsize=11)
        if self.handle is None:
            self.handle = show(figure, self.alt())
        else:
            data, metadata = bundle(figure, self.alt())
            self.handle.update(data, raw=True, metadata=metadata)
        now = time.monotonic()
        self._due = now + max(REDRAW_SECONDS, (now - started) * (1 / DRAWING_SHARE - 1))

    def alt(self) -> str:
        """The curves in words: where each starts and ends, and where it turns, its minimum and maximum."""
        if not self.rows:
            return f"{self.title}: no {self.xlabel} yet"
        parts = []
        for name, label in self.names.items():
            curve = [(row[name], row["step"]) for row in self.rows if name in row]
            if curve:
                low, high = min(curve, key=lambda point: point[0]), max(curve, key=lambda point: point[0])
                parts.append(
                    f"{label} from {_in_words(curve[0][0])} to {_in_words(curve[-1][0])}, "
                    f"minimum {_in_words(low[0])} at {low[1]}, "
                    f"maximum {_in_words(high[0])} at {high[1]}"
                )
        goal = "" if self.goal is None else f"; a line marks the goal {self.goal:g} in the first panel"
        steps = f"{self.xlabel} {self.rows[0]['step']} to {self.rows[-1]['step']}"
        return f"{self.title}, {steps}: " + "; ".join(parts) + goal


def _in_words(value: float) -> str:
    """Three digits, so that small numbers say something too, and no power of ten for a large one."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
