"""What chapter 06 reads from its stored runs: scores, verdicts, and what a clip fraction says of a round."""

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rlnotes.chapters.c06.experiment import ARMS, FURTHER, RATES, score
from rlnotes.studies.tables import died
from rlnotes.studies.verdicts import Verdict, judge

MARGIN = 0.02  # of mean accuracy; stated before the runs were made
BINS = (0.0, 0.02, 0.1, 0.2, 1.0)  # of the clip fraction of a round
SCORES = {"mean": score, "end": lambda row: row["sampled"][-1]}
"""the mean accuracy after the rounds, and that after the last"""
IN_SHORT = {"mean": "speed", "end": "end"}  # what the chapter calls them
FALL, LEAST = 0.05, 0.5  # of held-out accuracy: a round falls that loses more; falls are counted where it was so high
TOP = 0.9  # of held-out accuracy: a second cut, chosen after the runs were seen
FAR = 1.0  # nats of k3 to the old policy after round 1: a limit chosen after the runs were seen
LOUD = 0.12  # clip fraction of round 1: another such limit
PHASES = (0.5, 0.7, 0.9, 0.95, 0.98, 1.01)  # of the accuracy before a round
HIDDEN, HIDDEN_SEED = ("strong_penalty", "stop", "unclipped", "clip"), 6  # of an exercise: in this order
Rows = Sequence[dict[str, Any]]


def chosen(rows: Rows, role: str, task: str, arm: str) -> list[dict[str, Any]]:
    """The runs of one arm on one task, tuning, reported, or reported at a second rate, by rate, start and seed."""
    found = [row for row in rows if (row["role"], row["task"], row["arm"]) == (role, task, arm)]
    return sorted(found, key=lambda row: (row["rate"], row["start"], row["seed"]))


def rates_of(task: str, arm: str) -> tuple[float, ...]:
    """The rates at which an arm was tuned."""
    return RATES + FURTHER.get((task, arm), ())


def by_rate(rows: Rows, task: str, arm: str) -> np.ndarray:
    """Scores (rates, runs) of the tuning runs."""
    tuned = chosen(rows, "tuning", task, arm)
    return np.array([[score(row) for row in tuned if row["rate"] == rate] for rate in rates_of(task, arm)])


def verdict(rows: Rows, task: str, arm: str, other: str, by: str = "mean", role: str = "reported") -> Verdict:
    """The course's verdict on two arms by one of ``SCORES``; runs of one start are one cluster. The ``role`` is that of
    ``arm``; ``other`` is always at its own best rate.
    """
    ours, theirs = chosen(rows, role, task, arm), chosen(rows, "reported", task, other)
    scores = (np.array([SCORES[by](row) for row in runs]) for runs in (ours, theirs))
    return judge(*scores, margin=MARGIN, clusters=[row["start"] for row in ours])


def results(rows: Rows, task: str, seconds: Collection[str] = ARMS) -> list[dict[str, Any]]:
    """A row for the untrained starts, for each arm at its best rate, and for the arms in ``seconds`` at the second one
    too: both scores, the verdict on each, and the lowest end and the largest loss of a round, which a mean hides.
    """
    untrained = np.mean([row["sampled"][0] for row in chosen(rows, "reported", task, "clip")])
    found: list[dict[str, Any]] = [
        {"arm": "untrained", "rate": "–", "mean": untrained, "mean − clip": "–", "end": untrained}
    ]
    for arm, role in ((arm, role) for arm in ARMS for role in ("reported", "second")):
        runs = chosen(rows, role, task, arm)
        if not runs or (role == "second" and arm not in seconds):
            continue
        row: dict[str, Any] = {"arm": arm, "rate": f"{runs[0]['rate']:g}" + (role == "second") * " (post hoc)"}
        for by, of in SCORES.items():
            row[by] = np.mean([of(one) for one in runs])
            row[f"{by} − clip"] = "" if arm == "clip" else str(verdict(rows, task, arm, "clip", by, role))
        row["lowest end"] = min(map(SCORES["end"], runs))
        row["worst fall"] = min(float(np.diff(one["sampled"]).min()) for one in runs)
        row["updates a round"] = float(np.median(np.concatenate([one["updates"] for one in runs])))
        found.append(row)
    return found


def in_short(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Best rate, updates a round and both scores of each arm, all tasks in one table; beside each score its difference
    from ``clip``, with the interval, and the word of the verdict on it.
    """
    found = []
    for task in tasks:
        for row in results(rows, task, ()):
            updates = f"{row['updates a round']:g}" if "updates a round" in row else ""
            short = {"task": task, "arm": row["arm"], "rate": row["rate"], "updates": updates}
            for by, name in IN_SHORT.items():
                short |= {name: row[by], f"{name} against clip": ""}
                if row["arm"] not in ("untrained", "clip"):
                    judged = verdict(rows, task, row["arm"], "clip", by)
                    middle, low, high = judged.difference
                    short[f"{name} against clip"] = f"{middle:+.3f} ({low:+.3f} to {high:+.3f}) {judged.word}"
            found.append(short)
    return found


def ends_at(rows: Rows, tasks: Sequence[str], rate: float) -> list[dict[str, Any]]:
    """The accuracy after the last round of the tuning runs of each arm at one rate, their mean, by task."""
    found: list[dict[str, Any]] = [{"arm": arm} for arm in ARMS]
    for row in found:
        for task in tasks:
            tuned = chosen(rows, "tuning", task, row["arm"])
            row[task] = float(np.mean([SCORES["end"](one) for one in tuned if one["rate"] == rate]))
    return found


def in_two_halves(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """What a stop, with a clip or without, gives and costs: the range of :func:`insured` over the rates up to twice the
    best one of ``clip``, and over those from four times it on.
    """
    seen = insured(rows, tasks)
    best = {task: chosen(rows, "reported", task, "clip")[0]["rate"] for task in tasks}
    found: list[dict[str, Any]] = []
    for name, above in (("up to twice", False), ("4 times and more", True)):
        row: dict[str, Any] = {"rate, in best rates of clip": name}
        for task in tasks:
            inside = [one for one, rate in zip(seen, RATES, strict=True) if (rate > 3 * best[task]) == above]
            given = [float(one[key]) for one in inside for key in one if key.startswith(f"{task}: ")]
            row[task] = f"{min(given):+.2f} to {max(given):+.2f}"
        found.append(row)
    return found


def insured(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """What a stop gives and costs at each of ``RATES``: the mean score of its tuning runs less that of ``clip``."""
    found: list[dict[str, Any]] = [{"rate": f"{rate:g}"} for rate in RATES]
    for task in tasks:
        clip = by_rate(rows, task, "clip").mean(1)
        for arm in ("stop", "clip_stop"):
            for row, ours, theirs in zip(found, by_rate(rows, task, arm).mean(1), clip, strict=False):
                row[f"{task}: {arm} − clip"] = f"{ours - theirs:+.3f}"
    return found


def rounds_of(runs: Rows) -> dict[str, np.ndarray]:
    """Every round of some runs: what was logged, and ``change`` of held-out sampled accuracy over it."""
    found = {key: np.concatenate([row[key] for row in runs]) for key in ("clipped", "kl")}
    found["change"] = np.concatenate([np.diff(row["sampled"]) for row in runs])
    found["before"] = np.concatenate([row["sampled"][:-1] for row in runs])
    return found


def by_clip_fraction(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """The rounds of ``clip`` at its best rate by their clip fraction: their mean change, in brackets how many,
    and how many fell of those that began at ``LEAST`` or more.
    """
    found = []
    for low, high in pairwise(BINS):
        row: dict[str, Any] = {"clip fraction": f"{low:g} to {high:g}"}
        for task in tasks:
            seen = rounds_of(chosen(rows, "reported", task, "clip"))
            inside = (seen["clipped"] >= low) & (seen["clipped"] < high)
            change, sure = seen["change"], inside & (seen["before"] >= LEAST)
            row[f"{task}: change"] = f"{change[inside].mean():+.3f} ({inside.sum()})" if inside.any() else "– (0)"
            row[f"{task}: fell"] = f"{(change[sure] < -FALL).sum()} of {sure.sum()}"
        found.append(row)
    return found


def from_the_best(rows: Rows, task: str, arm: str = "clip") -> list[dict[str, Any]]:
    """The runs of an arm at its best rate, reported and tuning, and then those above it, by rate."""
    best = chosen(rows, "reported", task, arm)
    above = [row for row in chosen(rows, "tuning", task, arm) if row["rate"] >= best[0]["rate"]]
    return sorted([*best, *above], key=lambda row: row["rate"])


def first_round(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """What ``clip`` logs of its first round at its best rate and above, and where these runs end: lowest and highest of
    all runs at the rate. The last column is the largest clip fraction of a run in any round.
    """
    found = []
    for task in tasks:
        runs = from_the_best(rows, task)
        for rate in dict.fromkeys(row["rate"] for row in runs):
            own = [row for row in runs if row["rate"] == rate]
            columns = {
                "k3 after round 1": ([row["kl"][0] for row in own], 3),
                "clip fraction of round 1": ([row["clipped"][0] for row in own], 3),
                "ends": ([row["sampled"][-1] for row in own], 2),
                "largest clip fraction": ([max(row["clipped"]) for row in own], 3),
            }
            row = {"task": task, "rate / best": f"{rate / runs[0]['rate']:g}", "runs": len(own)}
            spans = {name: f"{min(seen):.{n}f} to {max(seen):.{n}f}" for name, (seen, n) in columns.items()}
            found.append(row | spans)
    return found


def alarms(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Over how many lost runs, and over how many others, two limits on what the first round logged ring: the clip
    fraction above ``LOUD``, and k3 above ``FAR``. With the clip and without, runs at the best rate and above it.
    """
    limits = {f"clip fraction > {LOUD:g}": ("clipped", LOUD), f"k3 > {FAR:g}": ("kl", FAR)}
    found: list[dict[str, Any]] = []
    for arm, task in ((arm, task) for arm in ("clip", "unclipped") for task in tasks):
        runs = from_the_best(rows, task, arm)
        row: dict[str, Any] = {"arm": arm, "task": task}
        for name, (key, limit) in limits.items():
            for group, lost in (("lost", True), ("others", False)):
                rung = [one[key][0] > limit for one in runs if (one["sampled"][-1] < LEAST) == lost]
                row[f"{name}: {group}"] = f"{sum(rung)} of {len(rung)}"
        found.append(row)
    return found


def first_round_tells(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """How well what ``clip`` logs of its first round, and its learning rate, tell the runs that are lost, at its best
    rate and above it: :func:`chance_lost` on the first task, on its runs above the best rate, and on all tasks.
    """
    runs = {task: from_the_best(rows, task) for task in tasks}
    first = runs[tasks[0]]
    groups = {
        tasks[0]: first,
        f"{tasks[0]}, above the best rate": [row for row in first if row["rate"] > first[0]["rate"]],
        "all tasks": [row for own in runs.values() for row in own],
    }
    numbers: dict[str, Callable[[dict[str, Any]], float]] = {
        "clip fraction of round 1": lambda one: one["clipped"][0],
        "k3 after round 1": lambda one: one["kl"][0],
        "learning rate": lambda one: one["rate"],
    }
    found: list[dict[str, Any]] = []
    for name, number in numbers.items():
        row: dict[str, Any] = {"number": name}
        for group, own in groups.items():
            row[group] = chance_lost(own, number)
        found.append(row)
    return found


def chance_lost(runs: Rows, number: Callable[[dict[str, Any]], float]) -> float:
    """The :func:`chance` that a lost run, which ends below ``LEAST``, has the higher number than another one."""
    lost = np.array([one["sampled"][-1] < LEAST for one in runs])
    return chance(np.array([number(one) for one in runs]), lost)


def falls(rows: Rows, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """How well logged numbers tell the rounds that fell, of those of one arm at its best rate that began at ``LEAST``
    or more, and at ``TOP`` or more: what was logged of the round itself, and, as a warning would need it, of the round
    before. The chance that the number is higher for a round that fell is the area under the curve (AUC); one half says
    nothing. The interval, 95 %, is a bootstrap over runs.
    """
    found = []
    for task, arm, least in ((task, arm, least) for task in tasks for arm in ("clip", "unclipped") for least in CUTS):
        seen = follow(chosen(rows, "reported", task, arm), least)
        falls, rounds = int(sum(map(sum, seen["fell"]))), sum(map(len, seen["fell"]))
        row = {"task": task, "arm": arm, "began at": f"{least:g} or more", "fell": f"{falls} of {rounds}"}
        enough = FEWEST <= falls < rounds
        found.append(row | {sign: auc(seen[sign], seen["fell"]) if enough else "too few" for sign in SIGNS})
    return found


def follow(runs: Rows, least: float, below: float = np.inf) -> dict[str, list[np.ndarray]]:
    """Of each run the rounds, never the first, that began at ``least`` or more and below ``below``: whether they fell,
    and the ``SIGNS``.
    """
    began = [np.array(one["sampled"][1:-1]) for one in runs]
    places = [1 + np.flatnonzero((own >= least) & (own < below)) for own in began]
    found = {"fell": [np.diff(one["sampled"])[i] < -FALL for one, i in zip(runs, places, strict=True)]}
    for sign, (key, back) in SIGNS.items():
        found[sign] = [np.array(one[key])[i - back] for one, i in zip(runs, places, strict=True)]
    return found


def matched(runs: Rows) -> dict[str, float]:
    """For each of ``SIGNS`` the chance over pairs of rounds that began in the same one of ``PHASES``."""
    won, pairs = dict.fromkeys(SIGNS, 0.0), 0
    for low, high in pairwise(PHASES):
        seen = {key: np.concatenate(own) for key, own in follow(runs, low, high).items()}
        if own := int(seen["fell"].sum() * (~seen["fell"]).sum()):
            pairs += own
            won = {sign: won[sign] + own * chance(seen[sign], seen["fell"]) for sign in SIGNS}
    return {sign: won[sign] / pairs for sign in SIGNS}


def before_a_fall(runs: Rows) -> list[dict[str, Any]]:
    """How many rounds fell of those that began at ``TOP`` or more, by the clip fraction of the round before."""
    seen, sign = follow(runs, TOP), "clip fraction of the round before"
    fell, before = (np.concatenate(seen[key]) for key in ("fell", sign))
    found = []
    for low, high in pairwise((0.0, 0.002, 0.01, 1.0)):
        inside = (before >= low) & (before < high)
        found.append({sign: f"{low:g} to {high:g}", "fell": f"{fell[inside].sum()} of {inside.sum()}"})
    return found


def auc(values: list[np.ndarray], fell: list[np.ndarray]) -> str:
    """:func:`chance` over all runs, with its interval."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(len(fell), size=len(fell)) for _ in range(1000)]
    again = [chance(*(np.concatenate([x[i] for i in which]) for x in (values, fell))) for which in drawn]
    low, high = np.nanpercentile(again, [2.5, 97.5])  # a draw without a fall has no chance
    return f"{chance(np.concatenate(values), np.concatenate(fell)):.2f} [{low:.2f}, {high:.2f}]"


SIGNS = {
    "k3 after it": ("kl", 0),
    "clip fraction of it": ("clipped", 0),
    "k3 of the round before": ("kl", 1),
    "clip fraction of the round before": ("clipped", 1),
}
"""what is logged, and how many rounds earlier"""
FEWEST = 5  # falls that an interval needs; and one round that did not fall
CUTS = (LEAST, TOP)


def chance(values: np.ndarray, fell: np.ndarray) -> float:
    """The chance that a value of a round that fell is above one of another round; equal values count half. NaN if none
    fell, or all.
    """
    n, m = int(fell.sum()), int((~fell).sum())
    return float((rankdata(values)[fell].sum() - n * (n + 1) / 2) / (n * m)) if n * m else float("nan")


def live(rows: Rows) -> list[dict[str, Any]]:
    """The live runs on several seeds: rounds to J of 0.9, the worst round, and where the run ends."""
    found = []
    for row in sorted(rows, key=lambda one: (one["arm"], one["seed"])):
        change, J = np.array(row["change"]), np.array(row["J"])
        worst, there = int(change.argmin()), np.flatnonzero(J >= 0.9)
        found.append(
            {
                "arm": row["arm"],
                "seed": row["seed"],
                "rounds to 0.9": str(there[0] + 1) if len(there) else "never",
                "J at the end": J[-1],
                "worst round": worst + 1,
                "change of J": change[worst],
                "k3 after it": row["kl_round"][worst],
                "as verl logs it": row["kl_steps"][worst],
            }
        )
    return found


def promises(rows: Rows, arm: str, seed: int) -> list[dict[str, Any]]:
    """What each round of a live run promised, what sampled responses made of it, and what came."""
    (row,) = (one for one in rows if (one["arm"], one["seed"]) == (arm, seed))
    readings = zip(row["promised"], row["estimated"], row["change"], strict=True)
    return [
        {"round": k, "promised": promised, "estimated": estimated, "what came": came}
        for k, (promised, estimated, came) in enumerate(readings, 1)
    ]


def right_signs(rows: Rows, reading: str) -> tuple[int, int]:
    """In how many rounds of the live runs ``promised`` or ``estimated`` had the sign of what came, and of how many."""
    seen, came = (np.concatenate([row[key] for row in rows]) for key in (reading, "change"))
    return int((seen * came > 0).sum()), len(came)


def one_round_table(rows: Rows, name: str) -> list[dict[str, Any]]:
    """One of the tables of updates on one round: ``ratios``, ``carried``, ``drift``, ``arms`` or ``more arms``."""
    return [{key: value for key, value in row.items() if key != "table"} for row in rows if row["table"] == name]


def without_names(rows: Rows) -> list[dict[str, Any]]:
    """The four tools of ``HIDDEN`` on one round, called A to D, by their updates and where they left the policy."""
    arms = {row["arm"]: row for row in one_round_table(rows, "arms") if row["seed"] == HIDDEN_SEED}
    return [
        {"run": letter, "updates": arms[arm]["updates"]}
        | {"KL(old, new)": arms[arm]["kl"], "KL(new, ref)": arms[arm]["kl_reference"]}
        for letter, arm in zip("ABCD", HIDDEN, strict=True)
    ]


def deaths(rows: Rows, task: str) -> list[dict[str, Any]]:
    """For each arm how many of its tuning runs died, at each learning rate."""
    found = []
    for arm in ARMS:
        tuned = chosen(rows, "tuning", task, arm)
        dead = {
            f"{rate:g}": sum(died(row["sampled"]) for row in tuned if row["rate"] == rate)
            for rate in rates_of(task, arm)
        }
        found.append({"arm": arm} | dead)
    return found
