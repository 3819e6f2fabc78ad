"""The explorers of chapter 01: many updates on one rollout, stored, and how long a response may be."""

import json
from functools import cache
from typing import Any

import numpy as np

from rlnotes.estimators.divergences import chi2, tv
from rlnotes.estimators.importance import expected_effective_sample_size
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.studies.tables import load_rows

ROLLOUTS, UPDATES, EVERY = 6, 60, 4  # of the stored study
TASKS, ARMS = ("sort", "misled"), ("weights", "clip")


class OneRolloutExplorer(ExplorerModel):
    """Left what the rollout, a held-out one and the truth say of the policy, right how many samples count."""

    script = "one_rollout.js"
    title = "One rollout, used again and again"
    controls = (
        Control("task", "task: 0 sort, 1 misled", 0, 1, 1, 0),
        Control("arm", "objective: 0 weights, 1 clip", 0, 1, 1, 0),
        Control("fast", "rate: 0 small, 1 four times as large", 0, 1, 1, 0),
        Control("seed", "rollout", 0, ROLLOUTS - 1, 1, 1),
        Control("update", "updates made on it", 0, UPDATES, EVERY, UPDATES),
    )
    panels = (
        Axes("share of right answers", "updates on one rollout", "share", (0, UPDATES)),
        Axes("samples that still count, ESS / n", "updates on one rollout", "share", (0, UPDATES), (0, 1.02)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """From the rows that are stored."""
        run = stored(*(int(values[name]) for name in ("task", "arm", "fast", "seed")))
        updates = np.arange(0, UPDATES + 1, EVERY)
        said = (("its own rollout says", "own"), ("a held-out one says", "held"), ("true, new prompts", "J"))
        count = (("its own rollout", "own_ess"), ("a held-out one", "held_ess"))
        return [[(label, updates, np.array(run[column])) for label, column in panel] for panel in (said, count)]

    def marks(self, **values: float) -> list[float]:
        """At the update."""
        return [values["update"]] * 2

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the rows before it."""
        return f"const RUNS = {json.dumps(_runs())};\n{super().compute(values)}"

    def alt(self, values: dict[str, float]) -> str:
        """With the start, the highest and the end of each curve."""
        said, count = self.curves(**values)
        words = [
            f"{label} {y[0]:.2f} at first, highest {y.max():.2f} at {x[y.argmax()]}, {y[-1]:.2f} at the end"
            for label, x, y in said
        ]
        left = [f"{label} {y[-1]:.2f}" for label, _, y in count]
        return f"{super().alt(values)}. Left: {'; '.join(words)}. Right, at the end: {'; '.join(left)}."


def stored(task: int, arm: int, fast: int, seed: int) -> dict[str, Any]:
    """The stored run at these places of the sliders: its columns, by the names of the script."""
    return _runs()[((task * 2 + arm) * 2 + fast) * ROLLOUTS + seed]


@cache
def _runs() -> list[dict[str, Any]]:
    """Of each run what is drawn, in the order of the sliders."""
    rows = load_rows("01_one_rollout")
    columns = {"own": "own_estimate", "held": "held_estimate", "J": "J", "own_ess": "own_ess", "held_ess": "held_ess"}
    found = []
    for task in TASKS:
        rates = sorted({row["rate"] for row in rows if row["task"] == task})
        for arm in ARMS:
            for rate in rates:
                own = [row for row in rows if (row["task"], row["arm"], row["rate"]) == (task, arm, rate)]
                found += [
                    {name: [round(x, 3) for x in row[column]] for name, column in columns.items()}
                    for row in sorted(own, key=lambda row: row["seed"])
                ]
    return found


def _rows(rare: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (..., 2) of behaviour and target: one token has probability ``rare``, then ``shift`` more."""
    old, new = (np.log(np.stack([1 - p, p], axis=-1)) for p in (rare, rare + shift))
    return old, new


class HorizonExplorer(ExplorerModel):
    """Sequences of T alike and independent tokens: effective sample size, and why TV does not tell it."""

    script = "horizon.js"
    title = "How long may a response be?"
    controls = (
        Control("shift", "probability moved, per token", 0.005, 0.4, 0.005, 0.1),
        Control("rare", "probability of that token before", 0.005, 0.5, 0.005, 0.5),
        Control("horizon", "tokens of a response, T", 0, 100, 1, 50),
        Control("samples", "responses, n", 16, 4096, 16, 512),
    )
    panels = (
        Axes("what n responses are worth", "tokens T", "log10 of effective sample size", (0, 100), (-4, 4)),
        Axes("one token, two distances", "probability before", "log10 of the distance", (0, 0.52), (-4, 2)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`chi2`, :func:`tv` and :func:`expected_effective_sample_size`."""
        tokens, p = np.arange(101.0), np.arange(1, 101) / 200
        old, new = _rows(np.array(values["rare"]), values["shift"])
        of_response = (1 + chi2(new, old)) ** tokens - 1
        size = expected_effective_sample_size(int(values["samples"]), of_response)
        old, new = _rows(p, values["shift"])
        return [
            [("whole response", tokens, np.log10(size)), ("one response", tokens, np.zeros_like(tokens))],
            [("χ² of a token", p, np.log10(chi2(new, old))), ("TV of a token", p, np.log10(tv(new, old)))],
        ]

    def marks(self, **values: float) -> list[float]:
        """At the horizon, and at the token's probability."""
        return [values["horizon"], values["rare"]]


EXPLORERS: dict[str, ExplorerModel] = {"one rollout": OneRolloutExplorer(), "horizon": HorizonExplorer()}
