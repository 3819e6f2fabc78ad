"""What chapter 00 reads from its stored runs."""

from typing import Any

import numpy as np

from rlnotes.logs.judge import Seen, measured
from rlnotes.logs.series import Series
from rlnotes.logs.table import table
from rlnotes.studies.tables import load_rows
from rlnotes.studies.verdicts import judge

Rows = list[dict[str, Any]]

LOG_SEED, LOG_ROUNDS = 9, 8
"""the stored run at 1e-3 without a clip, and its first rounds, that exercise 00.3 shows"""
RATE = 1e-3
LOST = 0.1  # a round that loses more of J is counted


def runs() -> Rows:
    """The stored runs, with the true change of J in each round."""
    return [run | {"true": np.diff([run["start"], *run["J"]])} for run in load_rows("00_promises")]


def arms() -> dict[tuple[float | None, float], Rows]:
    """The runs by clip and learning rate."""
    found: dict[tuple[float | None, float], Rows] = {}
    for run in runs():
        found.setdefault((run["clip"], run["rate"]), []).append(run)
    return found


def by_rate() -> Rows:
    """A row for each arm: where its runs end, how often a round of updates lost much, and though it was promised a
    gain; and the verdict on the clip.
    """
    found, last = Rows(), {arm: np.array([run["J"][-1] for run in each]) for arm, each in arms().items()}
    for (clip, rate), each in arms().items():
        ends = last[clip, rate]
        true, promised = (np.concatenate([run[name] for run in each]) for name in ("true", "promised"))
        lost = true < -LOST
        found.append(
            {
                "clip": clip or "none",
                "rate": f"{rate:g}",
                "J at the end": f"{ends.min():.2f} to {ends.max():.2f}",
                "median": float(np.median(ends)),
                f"rounds that lost {LOST} or more": f"{lost.sum()} of {lost.size}",
                "of these promised a gain": int((promised[lost] > 0).sum()),
                "with the clip less without": str(judge(ends, last[None, rate])).replace("  ", ", ") if clip else "",
            }
        )
    return found


def ends() -> Rows:
    """A row for each arm: J after the last round, seed by seed."""
    return [
        {"clip": clip or "none", "rate": f"{rate:g}"} | {f"seed {run['seed']}": run["J"][-1] for run in each}
        for (clip, rate), each in arms().items()
    ]


def worst_rounds() -> Rows:
    """A row for each run at ``RATE`` without a clip: the round that lost most, and what had been promised."""
    found = Rows()
    for run in arms()[None, RATE]:
        worst = int(run["true"].argmin())
        row = {"seed": run["seed"], "round": worst + 1, "promised": run["promised"][worst]}
        found.append(row | {"true": float(run["true"][worst]), "J at the end": run["J"][-1]})
    return found


def causes() -> Rows:
    """A row for each round at ``RATE``, without a clip, that lost more than ``LOST``: what its own rollout promised,
    what a fresh rollout of the policy before it promises, the truth, and what Adam does with all advantages at 0.
    """
    return [
        {name: row[name] for name in ("seed", "round", "promised")}
        | {"promised by a fresh rollout": f"{row['fresh']:.2f}, standard error {row['error']:.2f}"}
        | {"true": row["true"], "true, all advantages 0": row["memory"]}
        for row in load_rows("00_causes")
    ]


def logged() -> Rows:
    """What a trainer would have logged of one run: a row for each of its first rounds."""
    run = arms()[None, RATE][LOG_SEED]
    lines = zip(run["reward"], run["promised"], strict=True)
    rows = [{"round": n, "reward": reward, "promised": gain} for n, (reward, gain) in enumerate(lines, 1)]
    return rows[:LOG_ROUNDS]


def ruined() -> int:
    """The round whose updates lost most in that part of the run."""
    return int(arms()[None, RATE][LOG_SEED]["true"][:LOG_ROUNDS].argmin()) + 1


def alarms(rule: str = "falls-below-the-start") -> Rows:
    """How often the rule of the Monday card holds of the logged rewards: of runs that end below their start in truth,
    and of the others.
    """
    (condition,) = table().rules[rule].all
    counted: dict[str, list[bool]] = {"runs that end below their start": [], "the others": []}
    for run in runs():
        rewards = Series()
        for step, reward in enumerate(run["reward"], 1):
            rewards.add(step, reward)
        seen = measured(condition, rewards.points, rewards.points)
        kind = "runs that end below their start" if run["J"][-1] < run["start"] else "the others"
        counted[kind].append(isinstance(seen, Seen) and seen.holds)
    return [{"": kind, "the rule holds": f"{sum(held)} of {len(held)}"} for kind, held in counted.items()]
