"""The explorers of chapter 12: two versions that answer, and trust regions that do not meet."""

from itertools import product

import numpy as np

from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel

LONGEST = 50  # length of a trajectory
CURRENT = 0.5  # the current version's chance of a right answer
EDGES = (-0.03, 1.03)  # a little beyond all chances, so that a line on the edge is seen
VERSIONS = np.array([[0.70, 0.20, 0.10], [0.15, 0.25, 0.60], [0.20, 0.75, 0.05]])  # policies in one state


class VersionsExplorer(ExplorerModel):
    """What an update is promised, by either advantage, on the process of two right answers in a row."""

    script = "versions.js"
    title = "Two versions, one update"
    controls = (
        Control("update", "update, p − p_k", -0.2, 0.2, 0.01, 0.05),
        Control("behind", "old version is behind by p_k − p_o", -0.3, 0.3, 0.01, 0.1),
        Control("share", "share that begins with the old version", 0.0, 1.0, 0.05, 0.5),
        Control("switch", "chance to leave it, at each step", 0.0, 1.0, 0.05, 0.0),
        Control("horizon", "length T = 1 / (1 − γ)", 2, LONGEST, 1, 10),
    )
    panels = (
        Axes("change of the return", "update, p − p_k", "change from J(current)", (-0.2, 0.2)),
        Axes("penalty over all there is to gain", "length T", "share; above 1: vacuous", (2, LONGEST), (0, 2)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`rlnotes.bounds.twice_closed_forms.promises`."""
        updates, lengths = (np.arange(41) - 20) / 100, np.arange(2, LONGEST + 1)
        old, mixture = CURRENT - values["behind"], (values["share"], values["switch"])
        here = promises(1 - 1 / values["horizon"], old, CURRENT, CURRENT + updates, *mixture)
        along = promises(1 - 1 / lengths, old, CURRENT, CURRENT + values["update"], *mixture)
        best = promises(1 - 1 / lengths, old, CURRENT, 1.0, *mixture).true
        return [
            [
                ("true", updates, here.true),
                ("L", updates, here.surrogate),
                ("promised, own A", updates, here.geppo),
                ("promised", updates, here.split),
            ],
            [
                ("U part", lengths, along.update_penalty / best),
                ("S part", lengths, along.staleness_penalty / best),
                ("own A", lengths, along.geppo_penalty / best),
            ],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the update, and at the length."""
        return [values["update"], values["horizon"]]

    def alt(self, values: dict[str, float]) -> str:
        """With the ends of each curve."""
        changes, penalties = self.curves(**values)
        ends = [f"{label} from {y[0]:.2f} to {y[-1]:.2f}" for label, _, y in changes]
        grow = [f"{label} from {y[0]:.2f} at T = 2 to {y[-1]:.2f} at {LONGEST}" for label, _, y in penalties]
        return (
            f"{super().alt(values)}. Left, updates of -0.2 to 0.2: {', '.join(ends)}. Right, over all there is to "
            f"gain: {', '.join(grow)}."
        )


class RegionsExplorer(ExactModel):
    """All policies of three actions that are at most delta away from each of two or three versions.

    A policy is drawn at its chances of actions 0 and 1. In TV a ball is a hexagon.
    """

    title = "A trust region around every version"
    controls = (Control("delta", "radius δ", 0.1, 0.5, 0.005, 0.2), Control("versions", "versions", 2, 3, 1, 2))
    panels = (Axes("at most δ away from each", "chance of action 0", "chance of action 1", EDGES, EDGES, filled=(1,)),)

    def drawing(self, **values: float) -> tuple[str, list[Drawn]]:
        """With three actions TV is the largest difference of a chance, so each region is between two ends."""
        delta, chosen = values["delta"], VERSIONS[: int(values["versions"])]
        low, high = np.maximum(chosen - delta, 0), chosen + delta
        common = _corners(low.max(0), high.min(0))
        outlines = [_corners(np.zeros(3), np.ones(3)), common, *map(_corners, low, high)]
        names = "simplex", "in all", "π⁽¹⁾", "π⁽²⁾", "π⁽³⁾"
        curves = [(name, *corners.T[:2]) for name, corners in zip(names, outlines, strict=False)]
        met = "have a common part, the filled one" if len(common) else "have no common part"
        text = f"{len(chosen)} policies, each in a hexagon of radius {delta:.3f}. The hexagons {met}."
        return text, [Drawn(curves, [(*pi[:2], 2 + i) for i, pi in enumerate(chosen)])]


def _corners(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The corners (K, 3) of all distributions between ``low`` and ``high`` (3,), in order, closed by the first again.

    In a corner two of the chances are at an end, and the third is what is left. None if there is no such distribution.
    """
    found = []
    for left in range(3):
        for ends in product(*np.delete([low, high], left, axis=1).T):
            corner = np.insert(ends, left, 1 - sum(ends))
            if (low - 1e-12 <= corner).all() and (corner <= high + 1e-12).all():
                found.append(corner)
    if not found:
        return np.empty((0, 3))
    x, y = (np.array(found) - np.mean(found, axis=0)).T[:2]
    around = np.array(found)[np.argsort(np.arctan2(y, x))]
    return np.append(around, around[:1], axis=0)


EXPLORERS: dict[str, ExplorerModel] = {"versions": VersionsExplorer(), "regions": RegionsExplorer()}
