"""What chapters 03 and 05 read from the stored runs of the instrument panel."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from rlnotes.chapters.c03.panel import BLOCK, LOOPS
from rlnotes.notebook.panel import instrument_panel
from rlnotes.studies.tables import load_rows

HIGH, LOW = 400, 200  # a run falls that has been at HIGH and then gets below LOW
MUCH = 30  # of J; chosen after a run was seen
FAR = 0.1  # nats, of a block; chosen after all were seen
LIMIT = 0.01  # nats, of an update: TRPO's default
SIGNS = {
    "largest": "largest KL of an update",
    "kl": "KL of the block",
    "outside": "outside",
    "promised": "promised",
    "by_returns": "by returns",
}
Run = dict[str, Any]
Asked = Callable[[Run], np.ndarray]

KINDS: dict[str, Asked] = {
    "all": lambda run: np.full(len(run["J"]), True),
    "promised < 0, by returns < 0": lambda run: (run["promised"] < 0) & (run["by_returns"] < 0),
    "promised > 0, by returns < 0": lambda run: (run["promised"] > 0) & (run["by_returns"] < 0),
    "promised > 0, by returns > 0": lambda run: (run["promised"] > 0) & (run["by_returns"] > 0),
    "promised < 0, by returns > 0": lambda run: (run["promised"] < 0) & (run["by_returns"] > 0),
    "by returns = 0": lambda run: run["by_returns"] == 0,
    f"KL of an update above {LIMIT}": lambda run: run["largest"] > LIMIT,
    f"KL of the block above {FAR}": lambda run: run["kl"] > FAR,
    f"from J of {HIGH} or more": lambda run: run["J"] - run["change"] >= HIGH,
    f"of these, KL of the block above {FAR}": lambda run: (run["J"] - run["change"] >= HIGH) & (run["kl"] > FAR),
}
"""kinds of blocks: whether each of a run's blocks is one"""


def panel_rows(arm: str) -> list[Run]:
    """The stored runs of ``a2c``, ``trpo`` or ``ppo``, one for each seed, their readings as arrays (blocks,)."""
    found = [row for row in load_rows("03_panel") if row["arm"] == arm]
    return [{key: np.array(value) if isinstance(value, list) else value for key, value in row.items()} for row in found]


def drawn(runs: Mapping[str, Run]) -> tuple[Figure, str]:
    """The instrument panel of some runs, block by block, with the promise by returns."""
    names = dict(step="step", kl="kl", J="J", promised="by_returns", change="change")
    metrics: dict[str, list[dict[str, float]]] = {}
    for name, run in runs.items():
        steps = np.round(BLOCK / 1000 * np.arange(1, len(run["J"]) + 1)).astype(int)
        columns = [(run | dict(step=steps))[key].tolist() for key in names.values()]
        metrics[name] = [dict(zip(names, block, strict=True)) for block in zip(*columns, strict=True)]
    titles = dict(kl="KL(before, after) of a step", J="J after the block", promised="promised by returns, held out")
    return instrument_panel(metrics, "1000 environment steps", titles)


def falls(J: np.ndarray) -> bool:
    """Whether J (blocks,) gets below ``LOW`` after it has been at ``HIGH``."""
    return bool((J[np.maximum.accumulate(J) >= HIGH] < LOW).any())


def deepest(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each run: its deepest loss, from the highest J so far to a lower one, how far the longest block and the
    longest update between them went, and where the run ends.
    """
    found = []
    for run in runs:
        J = run["J"]
        low = int((np.maximum.accumulate(J) - J).argmax())
        top = low - int(J[low::-1].argmax())  # the last time that J was highest
        blocks = slice(top + 1, low + 1)
        found.append(
            {
                "seed": run["seed"],
                "from J of": round(J[top]),
                "down to": round(J[low]),
                "blocks": low - top,
                "largest KL of a block": float(run["kl"][blocks].max(initial=0)),
                "largest KL of an update": float(run["largest"][blocks].max(initial=0)),
                "at the end": round(J[-1]),
            }
        )
    return found


def by_kind(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each of ``KINDS``: how many blocks are of this kind, and how many of them lost and gained more than
    ``MUCH``.
    """
    return [{"blocks": kind} | counts(runs, is_one) for kind, is_one in KINDS.items()]


def counts(runs: Sequence[Run], is_one: Asked) -> dict[str, int]:
    """How many blocks are of a kind, and how many of these lost and gained more than ``MUCH``."""
    change = np.concatenate([run["change"][is_one(run)] for run in runs])
    return dict(number=len(change), lost=int((change < -MUCH).sum()), gained=int((change > MUCH).sum()))


def by_sign(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each reading: its median over the blocks that lost and that gained more than ``MUCH``, and its rank
    correlations, with the change, with the size of the change, and with the next block's change: the mean of the runs,
    the lowest and the highest.
    """
    change = np.concatenate([run["change"] for run in runs])
    found = []
    for key, title in SIGNS.items():
        seen = np.concatenate([run[key] for run in runs])
        row: dict[str, Any] = {"reading": title}
        for name, here in (("lost", change < -MUCH), ("gained", change > MUCH)):
            row[f"median, {name}"] = f"{np.median(seen[here]):.2g}"
        row["correlation with what came"] = span([ranks(run[key], run["change"]) for run in runs])
        row["with its size"] = span([ranks(run[key], abs(run["change"])) for run in runs])
        row["with the next block's"] = span([ranks(run[key][:-1], run["change"][1:]) for run in runs])
        found.append(row)
    return found


def ranks(x: np.ndarray, y: np.ndarray) -> float:
    """The rank correlation of x (n,) and y (n,)."""
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def span(values: Sequence[float]) -> str:
    """Mean, lowest and highest."""
    return f"{np.mean(values):+.2f} ({min(values):+.2f} to {max(values):+.2f})"


def in_short() -> list[dict[str, str]]:
    """A row for each thing to know of the runs of A2C, TRPO and PPO, a column for each of the three."""
    columns = {arm: told(panel_rows(arm), settings.envs * settings.steps) for arm, (settings, _) in LOOPS.items()}
    return [{"": what} | {arm: column[what] for arm, column in columns.items()} for what in columns["a2c"]]


def told(runs: Sequence[Run], steps: int) -> dict[str, str]:
    """How often the runs of one method fell, where they end, how far their updates of ``steps`` and their blocks go,
    and what came of them.
    """
    J, change, kl, largest, by_returns = (
        np.array([run[key] for run in runs]) for key in ("J", "change", "kl", "largest", "by_returns")
    )
    every, far = (counts(runs, KINDS[kind]) for kind in ("all", f"KL of the block above {FAR}"))
    return {
        "steps of an update": f"{steps}",
        "runs that fell": f"{sum(map(falls, J))} of {len(runs)}",
        "J at the end": f"{J[:, -1].min():.0f} to {J[:, -1].max():.0f}",
        "largest KL of an update in a block: median": f"{np.median(largest):.4f}",
        "highest": f"{largest.max():.3f}",
        "KL of a block: median": f"{np.median(kl):.3f}",
        "blocks": f"{every['number']}",
        f"lost more than {MUCH} of J": f"{every['lost']}",
        f"gained more than {MUCH}": f"{every['gained']}",
        "change of the worst": f"{change.min():.0f}",
        f"KL above {FAR}": f"{far['number']}",
        f"of these lost more than {MUCH}": f"{far['lost']}",
        "returns all equal before": f"{(by_returns == 0).sum()}",
    }
