"""Explorer of chapter 17: what a number of seeds can show of two recipes, and of many."""

import numpy as np

from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.studies.power import any_false, detection, wrong_order

LEVEL = 0.05


class SeedsExplorer(ExplorerModel):
    """Left: chances over the number of seeds. Right: over the number of recipes that are compared with one."""

    script = "seeds.js"
    helpers = ("normal.js",)
    title = "What can this many seeds show?"
    controls = (
        Control("seeds", "runs of each recipe", 2.0, 40.0, 1.0, 5.0),
        Control("gap", "lead: true difference of means", 0.0, 0.2, 0.005, 0.03),
        Control("spread", "deviation of one run's score", 0.005, 0.1, 0.005, 0.025),
        Control("recipes", "recipes compared with one", 1.0, 40.0, 1.0, 33.0),
    )
    panels = (
        Axes("two recipes", "runs of each recipe", "chance", (2, 40), (-0.03, 1.03)),
        Axes("many recipes", "recipes compared with one", "chance", (1, 40), (-0.03, 1.03)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.studies.power`; *each* is a level of 5 % for each verdict, *all* for all of them."""
        seeds, recipes = np.arange(2.0, 41.0), np.arange(1.0, 41.0)
        gap, spread = values["gap"], values["spread"]
        left: Panel = [
            ("wrong order", seeds, wrong_order(seeds, gap, spread)),
            ("seen, each", seeds, detection(seeds, gap, spread, LEVEL)),
            ("seen, all", seeds, detection(seeds, gap, spread, LEVEL / values["recipes"])),
        ]
        right: Panel = [
            ("false, each", recipes, any_false(recipes, LEVEL)),
            ("false, all", recipes, any_false(recipes, LEVEL / recipes)),
            ("seen, all", recipes, detection(values["seeds"], gap, spread, LEVEL / recipes)),
        ]
        return [left, right]

    def marks(self, **values: float) -> list[float]:
        """At the number of seeds, and at that of recipes."""
        return [values["seeds"], values["recipes"]]


EXPLORERS: dict[str, ExplorerModel] = {"seeds": SeedsExplorer()}
