"""Explorers of chapter 13: its stored loop, and three clips of one token from old data, on one axis."""

import json
from functools import cache
from typing import Any, get_args

import numpy as np

from rlnotes.exact.constrained_update import Mechanism, clip_band, clipped_term
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel
from rlnotes.studies.tables import load_rows

CENTRES = ("at mu", "at pi_k, plus", "at pi_k, times", "unclipped")
NAMES = dict(zip(get_args(Mechanism), CENTRES, strict=False))
RATES = {"4e-4": ", eight rounds, half the rate", "8e-4": ", eight rounds"}
SEEDS, ROUNDS = 3, 24


class CentresExplorer(ExplorerModel):
    """Left the accuracy of a stored run beside one on fresh data, right what is shut before each round's first step."""

    script = "centres.js"
    title = "One loop, data eight rounds old"
    controls = (
        Control("centre", "0: at mu; 1: at pi_k, plus; 2: at pi_k, times; 3: unclipped", 0, 3, 1, 0),
        Control("rate", "rate, 0: 4e-4, 1: 8e-4", 0, 1, 1, 1),
        Control("seed", "seed", 0, SEEDS - 1, 1, 0),
        Control("round", "round", 1, ROUNDS, 1, 16),
    )
    panels = (
        Axes("accuracy before the round", "round", "J, exact, on new prompts", (1, ROUNDS), (0, 1.02)),
        Axes("shut before the first step", "round", "share of the push", (1, ROUNDS), (-0.02, 1.02)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """From the rows that are stored."""
        seed, rounds = int(values["seed"]), np.arange(1, ROUNDS + 1)
        own = _stored()[int(values["centre"])][int(values["rate"])]
        left = ((own["title"], own["J"][seed]), ("fresh data, 8e-4", _fresh()[seed]))
        right = (("good tokens", own["good"][seed]), ("bad tokens", own["bad"][seed]))
        return [[(label, rounds, np.array(y)) for label, y in panel] for panel in (left, right)]

    def marks(self, **values: float) -> list[float]:
        """At the round."""
        return [values["round"]] * 2

    def compute(self, values: dict[str, float]) -> str:
        """The script, with the rows before it."""
        rows = f"const RUNS = {json.dumps(_stored())};\nconst FRESH = {json.dumps(_fresh())};\n"
        return rows + super().compute(values)

    def alt(self, values: dict[str, float]) -> str:
        """With the ends, and the range of what is shut."""
        left, right = self.curves(**values)
        ends = [f"{label} from {y[0]:.2f} to {y[-1]:.2f}" for label, _, y in left]
        shut = [f"{label} 0 in round 1, then {y[1:].min():.2f} to {y[1:].max():.2f}" for label, _, y in right]
        return f"{super().alt(values)}. Left: {'; '.join(ends)}. Right, shares shut: {'; '.join(shut)}."


def _runs(arm: str) -> list[dict[str, Any]]:
    return [run for run in load_rows("13_live") if run["arm"] == arm]


@cache
def _fresh() -> list[list[float]]:
    """J of the same loop on fresh data, as chapter 12 has stored it."""
    return [[round(J, 3) for J in run["J"]] for run in load_rows("12_live") if run["arm"] == "fresh"][:SEEDS]


@cache
def _stored() -> list[list[dict[str, Any]]]:
    """By centre and rate the title, and J and the shares shut, a list over rounds for each seed."""
    columns = {"J": "J", "good": "good push shut", "bad": "bad push shut"}
    found = []
    for centre in CENTRES:
        found.append([])
        for rate, arm in RATES.items():
            runs = _runs(centre + arm)
            own = {
                short: [[round(x, 3) for x in run[name][:ROUNDS]] for run in runs] for short, name in columns.items()
            }
            found[-1].append({"title": f"{centre}, {rate}"} | own)
    return found


class StaleClipExplorer(ExplorerModel):
    """Term and push of a token over pi / mu, for the three clips of 000 section 7.2 and for none."""

    script = "stale.js"
    title = "Three clips of an old token"
    controls = (
        Control("sign", "sign of the advantage", -1.0, 1.0, 2.0, 1.0),
        Control("current", "ratio before the round, r_k = π_k/μ", 0.05, 4.0, 0.05, 2.0),
        Control("ratio", "ratio now, r = π/μ", 0.05, 5.0, 0.05, 2.25),
        Control("epsilon", "clip range ε", 0.05, 0.5, 0.01, 0.2),
    )
    panels = (
        Axes("term, for |A| = 1", "ratio now, r", "term, to be maximised", (0, 5), None),
        Axes("push, for |A| = 1", "ratio now, r", "derivative by log π", (0, 5), None),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By :mod:`rlnotes.exact.constrained_update`."""
        ratio, advantage = np.arange(1, 161) / 32, np.array(1.0 if values["sign"] > 0 else -1.0)
        terms, pushes = [], []
        for mechanism, name in NAMES.items():
            band = clip_band(mechanism, np.array(values["current"]), values["epsilon"])
            term, is_open = clipped_term(ratio, advantage, band)
            terms.append((name, ratio, term))
            pushes.append((name, ratio, np.where(is_open, ratio * advantage, 0.0)))
        free = ("unclipped", ratio, ratio * advantage)
        return [[*terms, free], [*pushes, free]]

    def marks(self, **values: float) -> list[float]:
        """At the ratio now."""
        return [values["ratio"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"centres": CentresExplorer(), "stale": StaleClipExplorer()}
