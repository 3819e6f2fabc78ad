"""The explorers of chapter 12: two versions that answer, and trust regions that do not meet."""

from itertools import product

import numpy as np

from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel

CURRENT = 0.5  # the current version's chance of a right answer
EDGES = (-0.03, 1.03)  # a little beyond all chances, so that a line on the edge is seen
VERSIONS = np.array([[0.70, 0.20, 0.10], [0.15, 0.25, 0.60], [0.20, 0.75, 0.05]])  # policies in one state


class VersionsExplorer(ExplorerModel):
    """000 Corollary 5.3 and the form of GePPO on the process of two right answers in a row."""

    script = "versions.js"
    title = "Two versions, one update"
    controls = (
        Control("update", "update, p − p_k", -0.2, 0.2, 0.01, 0.05),
        Control("behind", "old version is behind by p_k − p_o", -0.3, 0.3, 0.01, 0.1),
        Control("share", "share that begins with the old version, α", 0.0, 1.0, 0.05, 0.5),
        Control("sigma", "chance to switch after a step, σ", 0.0, 1.0, 0.05, 0.0),
        Control("gamma", "discount γ", 0.0, 0.9, 0.05, 0.5),
    )
    panels = (
        Axes("change of the return", "update, p − p_k", "J(new) − J(current)", (-0.2, 0.2)),
        Axes("penalties at this update", "chance to switch σ", "penalty", (0, 1)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`rlnotes.bounds.twice_closed_forms.promises`."""
        updates, sigmas = (np.arange(41) - 20) / 100, np.arange(21) / 20
        setting = values["gamma"], CURRENT - values["behind"], CURRENT
        over_updates = promises(*setting, CURRENT + updates, values["share"], values["sigma"])
        over_sigmas = promises(*setting, CURRENT + values["update"], values["share"], sigmas)
        return [
            [
                ("true", updates, over_updates.true),
                ("L", updates, over_updates.surrogate),
                ("by 12.12", updates, over_updates.split),
                ("by 12.13", updates, over_updates.geppo),
            ],
            [
                ("C₁ U", sigmas, over_sigmas.update_penalty),
                ("C₂ S", sigmas, over_sigmas.staleness_penalty),
                ("of 12.13", sigmas, over_sigmas.geppo_penalty),
            ],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the update, and at the chance to switch."""
        return [values["update"], values["sigma"]]


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
