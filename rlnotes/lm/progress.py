"""One progress bar for terminals and notebooks, silent where nobody watches."""

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator

from tqdm.std import tqdm

from rlnotes.lm.config import Metrics


def in_notebook() -> bool:
    """True inside a Jupyter kernel."""
    return "IPython" in sys.modules and type(sys.modules["IPython"].get_ipython()).__name__ == "ZMQInteractiveShell"


def watched() -> bool:
    """True if a person may be looking: a notebook or a terminal, and not a CI run (``CI`` is set there).

    Of several processes that torchrun started only rank 0 is looked at.
    """
    return os.environ.get("RANK", "0") == "0" and not os.environ.get("CI") and (in_notebook() or sys.stderr.isatty())


def bar(total: int | None) -> tqdm:
    """A tqdm bar: a widget in a notebook that has ipywidgets, text elsewhere, nothing when unwatched."""
    if watched() and in_notebook() and importlib.util.find_spec("ipywidgets"):
        from tqdm.notebook import tqdm as notebook_tqdm

        return notebook_tqdm(total=total)
    return tqdm(total=total, disable=not watched())


def progress(metrics: Iterable[Metrics], total: int | None = None) -> Iterator[Metrics]:
    """Pass training metrics through and show how far the run is, with the latest reward or loss."""
    with bar(total) as shown:
        for row in metrics:
            if row["phase"] == 0:
                shown.set_description(f"warm start {row['step']}: loss {row['loss']:.3f}", refresh=False)
                shown.update(0)  # no step of the run itself, but time to redraw
            else:
                shown.set_description(f"reward {row['reward']:.3f}", refresh=False)
                shown.update()
            yield row
