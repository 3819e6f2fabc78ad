"""What chapters 03 and 05 read from the stored runs of the instrument panel."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rlnotes.studies.tables import load_rows

HIGH, LOW = 400, 200  # a run falls that has been at HIGH and then gets below LOW
MUCH = 30  # of J: more than the noise of 128 episodes; chosen after one run was seen
BLOCK = 4.096  # 1000 environment steps
SIGNS = {
    "largest": "largest KL of an update",
    "kl": "KL of the block",
    "outside": "outside",
    "promised": "promised",
    "by_returns": "by returns",
}
Run = dict[str, Any]


def panel_rows(arm: str) -> list[Run]:
    """The stored runs of ``a2c``, ``trpo`` or ``ppo``, one for each seed, their readings as arrays (blocks,)."""
    found = [row for row in load_rows("03_panel") if row["arm"] == arm]
    return [{key: np.array(value) if isinstance(value, list) else value for key, value in row.items()} for row in found]


def as_metrics(run: Run) -> list[dict[str, float]]:
    """A run as :func:`rlnotes.notebook.panel.instrument_panel` wants it; ``step`` is in 1000 environment steps."""
    names = ("step", "kl", "J", "promised", "change")
    steps = np.round(BLOCK * np.arange(1, len(run["J"]) + 1))
    columns = [steps.tolist(), *(run[name].tolist() for name in names[1:])]
    return [dict(zip(names, block, strict=True)) for block in zip(*columns, strict=True)]


def falls(J: np.ndarray) -> bool:
    """Whether J (blocks,) gets below ``LOW`` after it has been at ``HIGH``."""
    return bool((J[np.maximum.accumulate(J) >= HIGH] < LOW).any())


def by_sign(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each reading: its median over the blocks that lost and that gained more than ``MUCH``, and its rank
    correlation with what came, in the same block and in the next one: the mean of the runs, the lowest and the highest.
    """
    change = np.concatenate([run["change"] for run in runs])
    lost, gained = change < -MUCH, change > MUCH
    found = []
    for key, title in SIGNS.items():
        seen = np.concatenate([run[key] for run in runs])
        row: dict[str, Any] = {"reading": title}
        for name, here in (("lost", lost), ("gained", gained)):
            row[f"{here.sum()} blocks that {name}"] = f"{np.median(seen[here]):.2g}"
        row["correlation with what came"] = span([ranks(run[key], run["change"]) for run in runs])
        row["with the next block's"] = span([ranks(run[key][:-1], run["change"][1:]) for run in runs])
        found.append(row)
    return found


def ranks(x: np.ndarray, y: np.ndarray) -> float:
    """The rank correlation of x (n,) and y (n,)."""
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def span(values: Sequence[float]) -> str:
    """Mean, lowest and highest."""
    return f"{np.mean(values):+.2f} ({min(values):+.2f} to {max(values):+.2f})"


def in_short() -> list[dict[str, Any]]:
    """A row for each method: how often its runs fell, where they end, how far a block goes, and what it lost at worst
    where it began at ``HIGH`` or more.
    """
    found = []
    for arm in ("a2c", "trpo", "ppo"):
        runs = panel_rows(arm)
        ends = sorted(run["J"][-1] for run in runs)
        worst = [after - before for run in runs for before, after in pairwise(run["J"]) if before >= HIGH]
        row: dict[str, Any] = {
            "method": arm,
            "runs that fell": f"{sum(falls(run['J']) for run in runs)} of {len(runs)}",
        }
        row |= {"J at the end": f"{ends[0]:.0f} to {ends[-1]:.0f}", "worst block": round(min(worst, default=0))}
        medians = {SIGNS[key]: float(np.median([run[key] for run in runs])) for key in ("largest", "kl", "outside")}
        found.append(row | medians)
    return found
