"""What chapter 14 reads off its stored runs: what rounds were promised, and what masks do to training."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from rlnotes.studies import contest
from rlnotes.studies.contest import UNCLIPPED, UNTRAINED
from rlnotes.studies.tables import Table, died, load_rows, load_table

Rows = list[dict[str, Any]]

TASKS = ("misled int4", "misled lag 64", "ledger int4")
ARMS = {  # of the contest: what each of them drops
    "pg_is clip": "tokens that move away, ratio beyond 0.8 to 1.2",
    UNCLIPPED: "nothing",
    "trm": "responses with a token of |log r| > 0.5, or a mean k3 > 0.05",
    "trm_one_sided": "of those, the tokens that move away",
    "dppo_tv": "tokens that move away, |π − μ| > 0.15",
}
OTHERS = ("trm_max", "trm_avg", "seq_mis")  # told on the deeper page
PROMISES = {"flat": "L - D_seq", "weighted": "R log w", "published": "published"}


# --- The loop


@cache
def live() -> Rows:
    """All stored rounds, a row for each."""
    found: Rows = []
    for run in load_rows("14_live"):
        columns = [name for name, values in run.items() if isinstance(values, list)]
        own = {name: run[name] for name in run if name not in columns}
        found += [
            own | {"round": i + 1} | dict(zip(columns, values, strict=True))
            for i, values in enumerate(zip(*(run[name] for name in columns), strict=True))
        ]
    return found


def column(rows: Rows, name: str) -> np.ndarray:
    """One number of each row, (rows,)."""
    return np.array([row[name] for row in rows])


def arm(sampler: str, rate: float) -> Rows:
    """The rounds of one sampler at one rate."""
    return [row for row in live() if row["sampler"] == sampler and row["rate"] == rate]


def letter(rounds: int) -> str:
    """The answer to exercise 14.1: in how many of twelve rounds a promise fired."""
    return "a" if rounds <= 1 else "b" if rounds <= 8 else "c"


def fired() -> Rows:
    """A row for each sampler and rate: J at the start and the end, how often J rose above that of mu, in how many of
    these rounds each promise was above 0, and which share of what was gained the promises of a gain had told.
    """
    found: Rows = []
    for sampler, rate in dict.fromkeys((row["sampler"], row["rate"]) for row in live()):
        rows = arm(sampler, rate)
        change = column(rows, "change")
        ends = [row["J"] + row["change"] for row in rows if row["round"] == max(column(rows, "round"))]
        own: dict[str, Any] = {"sampler": sampler, "rate": f"{rate:g}", "J at the end": _span(np.array(ends))}
        own["D_seq, median"] = float(np.median(column(rows, "D_seq")))
        own["J rose"] = f"{(change > 0).sum()} of {len(rows)}"
        for title, name in PROMISES.items():
            own[title] = int((column(rows, name) > 0).sum())
        found.append(own | {"share promised": told_share(rows, "R log w")})
    return found


def told_share(rows: Rows, name: str) -> float | None:
    """The promises of a gain, added up, over the gains, added up; None without a gain."""
    promised, change = (np.maximum(column(rows, key), 0).sum() for key in (name, "change"))
    return float(promised / change) if change > 0 else None


def by_distance() -> Rows:
    """The rounds by their D_seq: how many fell, and in how many a promise was above 0."""
    edges, found = (0, 0.001, 0.01, 0.1, 1, np.inf), []
    for low, high in pairwise(edges):
        rows = [row for row in live() if low <= row["D_seq"] < high]
        own = {"D_seq": f"{low:g} to {high:g}" if np.isfinite(high) else f"above {low:g}", "rounds": len(rows)}
        own["J fell"] = int((column(rows, "change") < 0).sum())
        for title, name in PROMISES.items():
            own[title] = int((column(rows, name) > 0).sum())
        found.append(own)
    return found


def from_batches() -> Rows:
    """The mean of R log w of two batches, that which pi was trained on and a new one: in how many rounds it is above 0,
    in how many of these J fell, and the most that it promised there.
    """
    rows, found = live(), []
    fell = column(rows, "change") < 0
    for title, name in (("512 that π was trained on", "own"), ("1,024 new ones", "fresh")):
        batch = column(rows, name)
        own: dict[str, Any] = {"responses": title, "R log w above 0": int((batch > 0).sum())}
        own["of these, J fell"] = int(((batch > 0) & fell).sum())
        found.append(own | {"most promised there": float(batch[fell].max())})
    return found


# --- The contest


@cache
def _contest() -> Table:
    return load_table("14_masks")


def masks_in_short(task: str, arms: tuple[str, ...] = tuple(ARMS)) -> Rows:
    """A row for the start and one for each arm of a task: its rate, runs that died, greedy answers at the end, the mean
    accuracy of a run, and the differences to ``unclipped`` and to the clip.
    """
    table, own = _contest(), contest.chosen(_contest())
    clip, free = own[task, "pg_is clip"], own[task, UNCLIPPED]
    start = {name: float(table.start(clip, name).mean()) for name in ("greedy", "accuracy")}
    found: Rows = [{"method": UNTRAINED, "rate": None, "died": None}]
    found[0] |= {"greedy, end": start["greedy"], "mean": start["accuracy"]}
    for recipe in arms:
        name = own[task, recipe]
        dead = [died(accuracy) for _, accuracy in table.curves(name, "accuracy")]
        row: dict[str, Any] = {"method": recipe, "rate": table.labels[name]["rate"]}
        row["died"] = f"{sum(dead)} of {len(dead)}"
        row["greedy, end"] = float(table.last(name, "greedy", 1).mean())
        row["mean"] = float(scores(task, recipe).mean())
        row["less unclipped"] = None if name == free else str(contest.less(table, name, free))
        row["less pg_is clip"] = None if name == clip else str(contest.less(table, name, clip))
        found.append(row)
    return found


def scores(task: str, recipe: str) -> np.ndarray:
    """The mean accuracy of each run of an arm, (runs,)."""
    table = _contest()
    return table.mean(contest.chosen(table)[task, recipe], table.score)


def _span(values: np.ndarray) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
