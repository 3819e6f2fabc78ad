"""The explorers of chapter 12: its stored loop, two versions that answer, and trust regions that do not meet."""

import json
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.notebook.explorer import Axes, Control, Drawn, ExactModel, ExplorerModel, Panel
from rlnotes.studies.tables import load_rows

SEEDS, ROUNDS = 6, 24  # of the stored loop
LAGGING = (  # its arms as they are told here, with what is fresh at the same rate
    ("fresh", "fresh", "fresh"),
    ("all old, one round", "one round behind", "fresh"),
    ("all old, half the lag", "four rounds behind", "fresh"),
    ("all old", "eight rounds behind", "fresh"),
    ("half old", "half of it eight rounds behind", "fresh"),
    ("all old, half the rate", "eight rounds behind, half the rate", "fresh, half the rate"),
    ("fresh, half the rate", "fresh, half the rate", "fresh, half the rate"),
)
LONGEST = 50  # length of a trajectory
CURRENT = 0.5  # the current version's chance of a right answer
EDGES = (-0.03, 1.03)  # a little beyond all chances, so that a line on the edge is seen
VERSIONS = np.array([[0.70, 0.20, 0.10], [0.15, 0.25, 0.60], [0.20, 0.75, 0.05]])  # policies in one state


class LaggingExplorer(ExplorerModel):
    """Left the accuracy of a stored run beside one on fresh data, right its distance to who wrote, among six runs."""

    script = "lagging.js"
    title = "The loop, stored"
    controls = (
        Control("arm", "data: 0 fresh; 1, 2, 3 old by 1, 4, 8 rounds; 4 half old; 5, 6 at half the rate", 0, 6, 1, 3),
        Control("seed", "seed", 0, SEEDS - 1, 1, 0),
        Control("round", "round", 1, ROUNDS, 1, 12),
    )
    panels = (
        Axes("accuracy before the round", "round", "J, exact, on new prompts", (1, ROUNDS), (0, 1.02)),
        Axes("distance to who wrote", "round", "S, total variation", (1, ROUNDS), (0, 0.32)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """From the rows that are stored."""
        own, seed = _lagging()[int(values["arm"])], int(values["seed"])
        rounds, S = np.arange(1, ROUNDS + 1), np.array(own["S"])
        fresh = _lagging()[own["fresh"]]["J"][seed]
        spread = (("this run", S[seed]), ("lowest of six", S.min(0)), ("highest of six", S.max(0)))
        return [
            [(own["title"], rounds, np.array(own["J"][seed])), ("fresh, same rate", rounds, np.array(fresh))],
            [(label, rounds, y) for label, y in spread],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the round."""
        return [values["round"]] * 2

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the rows before it."""
        return f"const RUNS = {json.dumps(_lagging())};\n{super().compute(values)}"

    def alt(self, values: dict[str, float]) -> str:
        """With the ends, and the range of S."""
        (own, fresh), (S, low, high) = self.curves(**values)
        ends = [f"{label} from {y[0]:.2f} to {y[-1]:.2f}" for label, _, y in (own, fresh)]
        top = int(S[2].argmax())
        return (
            f"{super().alt(values)}. Left: {'; '.join(ends)}. Right: S of this run from {S[2][0]:.2f} to "
            f"{S[2][top]:.2f} at round {top + 1}, then {S[2][-1]:.2f}; of six runs {low[2][8:].min():.2f} to "
            f"{high[2][8:].max():.2f} from round 9 on."
        )


@cache
def _lagging() -> list[dict[str, Any]]:
    """Of each arm its title, the place of what is fresh at its rate, and J and S, a list over rounds for each seed."""
    stored, found = load_rows("12_live"), []
    names = [name for name, *_ in LAGGING]
    for name, title, fresh in LAGGING:
        runs = [run for run in stored if run["arm"] == name]
        own = {column: [[round(x, 3) for x in run[column]] for run in runs] for column in ("J", "S")}
        found.append({"title": title, "fresh": names.index(fresh)} | own)
    return found


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


EXPLORERS: dict[str, ExplorerModel] = {
    "lagging": LaggingExplorer(),
    "versions": VersionsExplorer(),
    "regions": RegionsExplorer(),
}
