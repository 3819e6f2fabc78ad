"""Explorer of chapter 15: how far a clip and a limit on the change let a token rise, and what six runs did."""

import json
from functools import cache

import numpy as np

from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.studies.tables import load_rows

LOW, HIGH, LIMIT = 0.2, 0.28, 0.15  # the source's clip and its limit on the total variation: 004 appendix D
LONGEST = 16  # rollouts


class RegionExplorer(ExplorerModel):
    """Left, the largest probability that one rollout allows a good token; right, rollout by rollout."""

    script = "region.js"
    title = "Ratio or change of the probability?"
    controls = (
        Control("start", "log10 of μ, the token's probability (-1.7: 0.02)", -4.0, -0.1, 0.1, -1.7),
        Control("high", "clip: largest ratio, less 1", 0.1, 4.0, 0.02, HIGH),
        Control("limit", "DPPO: largest change δ", 0.05, 0.5, 0.01, LIMIT),
        Control("rollouts", "rollouts", 0, LONGEST, 1, 2),
    )
    panels = (
        Axes("one rollout: how far may a good token rise?", "probability before, μ", "after, π", (0, 1), (0, 1.03)),
        Axes("rollout by rollout", "rollouts", "probability of the right token", (0, LONGEST), (0, 1.03)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """The edges, the count from edge to edge, and the stored runs as far as they go."""
        before, growth = np.arange(101) / 100, 1 + values["high"]
        clip, dppo = np.minimum(growth * before, 1), np.minimum(before + values["limit"], 1)
        rollouts, start = np.arange(LONGEST + 1), 10 ** values["start"]
        counted = np.minimum(start * growth**rollouts, 1), np.minimum(start + values["limit"] * rollouts, 1)
        measured = [(name, np.arange(len(run)), np.array(run)) for name, run in medians().items()]
        return [
            [("clip of the ratio", before, clip), ("DPPO", before, dppo), ("unchanged", before, before)],
            [("clip, counted", rollouts, counted[0]), ("DPPO, counted", rollouts, counted[1]), *measured],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the start, and at the rollouts."""
        return [10 ** values["start"], values["rollouts"]]

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the medians of the runs before it."""
        return f"const RUNS = {json.dumps(medians())};\n{super().compute(values)}"

    def alt(self, values: dict[str, float]) -> str:
        """With the edges, and the rollouts to 0.9."""
        (clip, dppo, _), right = self.curves(**values)
        start = 10 ** values["start"]
        edges = [f"{name} {np.interp(start, x, y):.3f}" for name, x, y in (clip, dppo)]
        ends = [f"{name} {first(y):g}" for name, _, y in right]
        return (
            f"{super().alt(values)}. Left: from {start:.3f} at most to {', '.join(edges)}. Right, rollouts until 0.9: "
            f"{', '.join(ends)}.".replace("inf", "never")
        )


def first(values: np.ndarray, goal: float = 0.9) -> float:
    """The first place with at least ``goal``; never is infinite."""
    there = np.flatnonzero(np.asarray(values) >= goal)
    return float(there[0]) if len(there) else np.inf


@cache
def medians() -> dict[str, list[float]]:
    """The median over the stored runs of the right letter's probability after each rollout, with the clip and DPPO."""
    found = {}
    for arm, title in (("clip", "clip, measured"), ("dppo", "DPPO, measured")):
        runs = [run["by rollout"] for run in load_rows("15_live") if run["arm"] == arm]
        found[title] = [round(float(x), 4) for x in np.median(runs, axis=0)]
    return found


EXPLORERS: dict[str, ExplorerModel] = {"region": RegionExplorer()}
