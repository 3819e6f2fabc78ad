"""What chapter 02 reads from its stored rollouts: what each half promises, the truth, and what a stop is worth."""

from typing import Any

import numpy as np

from rlnotes.chapters.c02.halves import LOOKS, STARTS, TASKS
from rlnotes.lm.tasks import make_task
from rlnotes.studies.tables import load_rows
from rlnotes.studies.verdicts import BETTER, WORSE, judge

Rows = list[dict[str, Any]]
WORDS = {BETTER: "too high", WORSE: "too low"}


def column(task: str, updates: int, name: str, half: bool = True) -> np.ndarray:
    """A column (seeds,) of a task after so many updates; 0 before the first."""
    rows = [row for row in load_rows("02_halves") if (row["task"], row["half"]) == (task, half)]
    if not updates:
        return np.zeros(len({row["seed"] for row in rows}))
    return np.array([row[name] for row in rows if row["updates"] == updates])


def looks(task: str) -> tuple[int, ...]:
    """After how many updates a task is looked at."""
    return tuple(n for n in LOOKS if n <= TASKS[task][2])


def clusters(task: str) -> list[int] | None:
    """The start of each seed, where there are several."""
    starts = [int(start) for start in column(task, 1, "start")]
    return starts if STARTS[task] > 1 else None


def off(task: str, updates: int, name: str) -> str:
    """How far a promise is from the true change, and the word for it."""
    verdict = judge(column(task, updates, name), column(task, updates, "change"), clusters=clusters(task))
    return f"{verdict.difference}  {WORDS.get(verdict.word, verdict.word)}"


def promises() -> Rows:
    """Means over seeds, and what each half is off the truth."""
    return [
        {"task": task, "updates": n}
        | {name: float(column(task, n, key).mean()) for name, key in (("own half", "own"), ("other half", "judge"))}
        | {"exact L": float(column(task, n, "L").mean()), "true change": float(column(task, n, "change").mean())}
        | {"own half less true": off(task, n, "own"), "other half less true": off(task, n, "judge")}
        for task in TASKS
        for n in looks(task)
        if n in (1, TASKS[task][2])
    ]


def guarantees() -> Rows:
    """What the chapter's bound takes from the surrogate, with its numbers as measured; means over seeds."""
    found = []
    for task in TASKS:
        T = make_task(task).max_response_length
        for n in (1, TASKS[task][2]):
            J, L, change, xi, D = (column(task, n, name) for name in ("J", "L", "change", "xi", "distance"))
            penalty = 2 * T * (T - 1) * xi * D
            row = {"task": task, "T": T, "updates": n, "ξ": xi.mean(), "mean distance": D.mean(), "L": L.mean()}
            row |= {"penalty": penalty.mean(), "true change": change.mean(), "gained": f"{(change > 0).sum()} of 10"}
            row |= {"promised a gain": f"{(penalty < L).sum()} of 10", "vacuous": f"{(L - penalty < -J).sum()} of 10"}
            found.append({name: x if isinstance(x, int | str) else float(x) for name, x in row.items()})
    return found


def stopped(task: str, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """The true change (seeds,) at which an arm stops, and after how many updates; none is allowed.

    ``own`` stops at the largest promise of the half that chose, ``judged`` at that of the other half. With the whole
    batch, ``measured`` makes as many updates as ``judged``, and ``whole`` as many as were best, in truth, on the other
    seeds.
    """
    at, by_half = np.array((0, *looks(task))), arm in ("own", "judged")
    true = np.array([column(task, n, "change", by_half) for n in at])
    if arm == "whole":
        chosen = (true.sum(1, keepdims=True) - true).argmax(0)
    else:
        chosen = np.array([column(task, n, "own" if arm == "own" else "judge") for n in at]).argmax(0)
    return true[chosen, np.arange(true.shape[1])], at[chosen]


def stops() -> Rows:
    """Mean true change of each arm, and its difference to the arms ``own`` and ``judged``."""
    found = []
    for task in TASKS:
        own, judged = (stopped(task, arm)[0] for arm in ("own", "judged"))
        for arm in ("own", "judged", "measured", "whole")[: 2 if task == "ledger" else 4]:
            change, at = stopped(task, arm)
            row = {"task": task, "arm": arm, "updates, median": int(np.median(at)), "true change": float(change.mean())}
            row |= {"J fell": f"{(change < 0).sum()} of {len(change)}"}
            if arm != "own":
                row["less own"] = str(judge(change, own, clusters=clusters(task)))
            if arm in ("measured", "whole"):
                row["less judged"] = str(judge(change, judged, clusters=clusters(task)))
            found.append(row)
    return found
