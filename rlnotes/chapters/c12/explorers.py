"""Chapter 12: the explorer of two versions that answer, and the picture of trust regions that do not meet."""

import numpy as np
from matplotlib.figure import Figure

from rlnotes.bounds.mdp import state_tv
from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.notebook.figures import STYLES, new_figure

CURRENT = 0.5  # the current version's chance of a right answer
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])  # of the simplex of three actions, as drawn


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


def trust_regions_figure(policies: np.ndarray, delta: float, names: list[str]) -> tuple[Figure, str]:
    """The ``policies`` (M, 3) on the simplex of three actions, each with all policies that are at most ``delta`` away.

    Distance is TV, in which a ball is a hexagon. Returns the figure and its alternative text.
    """
    figure, (axis,) = new_figure(1, width=4.6, height=3.8)
    axis.set_axis_off()
    axis.set_aspect("equal")
    axis.plot(*CORNERS[[0, 1, 2, 0]].T, color="0.4", linewidth=1)
    grid = np.array([[i, j, 200 - i - j] for i in range(201) for j in range(201 - i)]) / 200
    tv = state_tv(policies[:, None], grid)
    for style, pi, distance, name in zip(STYLES, policies, tv, names, strict=False):
        axis.tricontour(*(grid @ CORNERS).T, distance, [delta], colors=style["color"], linestyles=style["linestyle"])
        axis.plot(*(pi @ CORNERS), style["marker"], color=style["color"], label=name)
    common = (tv <= delta).all(0)
    axis.plot(*(grid[common] @ CORNERS).T, ".", color="0.6", markersize=2, zorder=0)
    for corner, name, shift in zip(CORNERS, ("action 0", "action 1", "action 2"), (-0.06, -0.06, 0.02), strict=True):
        axis.text(*(corner + np.array([0, shift])), name, ha="center", fontsize=8)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    axis.set_ylim(-0.1, 0.95)
    axis.set_title(f"at most δ = {delta:.2f} away from each: {'some' if common.any() else 'none'}")
    met = "The hexagons have a common part" if common.any() else "The hexagons have no common part"
    return figure, f"A triangle with {len(policies)} policies, each in a hexagon of radius {delta:.2f}. {met}."


EXPLORERS: dict[str, ExplorerModel] = {"versions": VersionsExplorer()}
