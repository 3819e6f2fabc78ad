"""What the chapters show: figures, live plots, and exercises that answer at once."""

from rlnotes.notebook.exercise import check
from rlnotes.notebook.explorer import explorer
from rlnotes.notebook.figures import show
from rlnotes.notebook.live import LivePlot
from rlnotes.notebook.optional import skip_without
from rlnotes.notebook.quiz import quiz
from rlnotes.notebook.source import source
from rlnotes.notebook.tables import table

__all__ = ["LivePlot", "check", "explorer", "quiz", "show", "skip_without", "source", "table"]
