"""What chapter 00 reads from its stored runs."""

from typing import Any

import numpy as np

from rlnotes.logs.judge import Seen, measured
from rlnotes.logs.series import Series, fifths
from rlnotes.logs.table import table
from rlnotes.studies.tables import load_rows
from rlnotes.studies.verdicts import Verdict, judge

Rows = list[dict[str, Any]]

LOG_SEED, LOG_ROUNDS = 9, 8
"""the stored run at 1e-3 without a clip, and its first rounds, that exercise 00.3 shows"""
CLIP, RATE = 0.2, 1e-3
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
    """A row for each arm: where its runs end, and of the rounds that begin with J of at least ``LOST`` how many lost as
    much.
    """
    found = Rows()
    for (clip, rate), each in arms().items():
        last = [run["J"][-1] for run in each]
        before = np.concatenate([[run["start"], *run["J"][:-1]] for run in each])
        lost = np.concatenate([run["true"] for run in each]) < -LOST
        found.append(
            {
                "clip": clip or "none",
                "rate": f"{rate:g}",
                "J at the end": f"{min(last):.2f} to {max(last):.2f}",
                "median": float(np.median(last)),
                f"rounds with J ≥ {LOST} before": int((before >= LOST).sum()),
                f"of these lost {LOST} or more": int(lost.sum()),
            }
        )
    return found


def promised() -> tuple[int, int, int]:
    """Of all rounds without a clip: how many were promised a gain, how many a loss, and how many of the first lost more
    than ``LOST``.
    """
    rounds = [one for (clip, _), each in arms().items() if clip is None for one in each]
    gain, true = (np.concatenate([run[name] for run in rounds]) for name in ("promised", "true"))
    return int((gain > 0).sum()), int((gain < 0).sum()), int(((gain > 0) & (true < -LOST)).sum())


def clip_less_none(rate: float) -> Verdict:
    """The verdict on where the runs at a rate end, with the clip and without, seed by seed."""
    with_clip, without = (np.array([run["J"][-1] for run in arms()[clip, rate]]) for clip in (CLIP, None))
    return judge(with_clip, without)


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


def fell_after() -> int:
    """The round whose updates lost most in that part of the run."""
    return int(arms()[None, RATE][LOG_SEED]["true"][:LOG_ROUNDS].argmin()) + 1


def alarms(rule: str = "falls-below-the-start") -> Rows:
    """How often the rule of the Monday card holds of the logged rewards, of runs that end below their start in truth
    and of the others: as the card prints it, and with the margin for noise that ``rlnotes read`` keeps.
    """
    (condition,) = table().rules[rule].all
    counted: dict[str, list[tuple[bool, bool]]] = {"runs that end below their start": [], "the others": []}
    for run in runs():
        rewards = Series()
        for step, reward in enumerate(run["reward"], 1):
            rewards.add(step, reward)
        first, last, _ = fifths(rewards.points)
        seen = measured(condition, rewards.points, rewards.points)
        kind = "runs that end below their start" if run["J"][-1] < run["start"] else "the others"
        counted[kind].append((last < first, isinstance(seen, Seen) and seen.holds))
    return [
        {"": kind}
        | {
            name: f"{sum(held)} of {len(held)}"
            for name, held in zip(("as printed", "beyond noise"), zip(*each, strict=True), strict=True)
        }
        for kind, each in counted.items()
    ]
