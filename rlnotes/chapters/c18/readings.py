"""What chapter 18 reads from the stored runs of a real model."""

from functools import cache
from typing import Any

import numpy as np

from rlnotes.logs.stored_logs import StoredLog, stored_log
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import Verdict, judge

KINDS = {"none": "exact", "int4": "4 bits", "stale": "0 to 7 rounds old", "int8": "8 bits"}
"""how the sampler differs from the trainer: what the table calls it, and what the chapter does"""
UNCLIPPED, AT_MU, AT_PI_K, DIVERGENCE, GRPO = ARMS = ("pg_is", "stale_ppo", "minirl", "dppo_tv", "grpo")
"""recipes; the first is what the others are compared with"""
LOGS = {"A": "caea", "B": "629c"}
"""of the real model, one that goes well and one that does not"""

Rows = list[dict[str, Any]]


@cache
def table() -> Table:
    """The stored runs, those with eight updates to a rollout and those that stand alone."""
    return load_table("18_real")


def run(recipe: str, kind: str) -> str:
    """What the table calls an arm."""
    return recipe if kind == "none" else f"{recipe}, {kind}"


def kinds() -> list[str]:
    """The mismatches of which the table has two arms or more, in the order of ``KINDS``."""
    return [kind for kind in KINDS if sum(run(arm, kind) in table().rows for arm in ARMS) > 1]


def seeds(*names: str) -> list[int]:
    """Those that all of these runs have."""
    return sorted(set.intersection(*(set(table().rows[name]) for name in names)))


def ends(name: str, metric: str = "accuracy") -> dict[int, float]:
    """The last measurement of each seed."""
    found = table().rows[name]
    return {seed: float(own[metric][~np.isnan(own[metric])][-1]) for seed, own in found.items()}


def less(ours: str, theirs: str) -> Verdict | None:
    """The verdict on where two arms end, seed by seed; None where there is but one seed. No margin was stated."""
    both = seeds(ours, theirs)
    if len(both) < 2:
        return None
    one, other = (ends(name) for name in (ours, theirs))
    return judge(np.array([one[seed] for seed in both]), np.array([other[seed] for seed in both]))


def told(ours: str, theirs: str) -> str:
    """That in words. Of one seed there is no verdict."""
    verdict, both = less(ours, theirs), seeds(ours, theirs)
    if verdict is None:
        one, other = (ends(name)[both[0]] for name in (ours, theirs))
        return f"{one - other:+.3f}, *no verdict*"
    return f"{verdict.difference}, *{verdict.word}*"


def experiment(kind: str) -> Rows:
    """A row for each arm behind a sampler of this kind: where its runs end, and what may be said of that beside the
    first of them.
    """
    present = [arm for arm in ARMS if run(arm, kind) in table().rows]
    first, found = present[0], Rows()
    for arm in present:
        name = run(arm, kind)
        sampled = ends(name).values()
        found.append(
            {
                "sampler": KINDS[kind],
                "arm": arm,
                "start, greedy": float(table().start(name, "greedy").mean()),
                "end, greedy": float(np.mean(list(ends(name, "greedy").values()))),
                "end, sampled": float(np.mean(list(sampled))),
                "lowest to highest": f"{min(sampled):.2f} to {max(sampled):.2f}",
                "seeds": len(sampled),
                f"sampled, less {first}": None if arm == first else told(name, run(first, kind)).replace("*", ""),
            }
        )
    return found


def seed_by_seed(kind: str) -> Rows:
    """A row for each arm: where each of its runs ends."""
    names = {arm: run(arm, kind) for arm in ARMS if run(arm, kind) in table().rows}
    return [
        {"sampler": KINDS[kind], "arm": arm} | {f"seed {seed}": end for seed, end in ends(name).items()}
        for arm, name in names.items()
    ]


def rates(kind: str) -> Rows:
    """Where the arms end at each learning rate, with seed 0: a row for each arm."""
    other = load_rows("18_rates")
    found = Rows()
    for arm in ARMS:
        name = run(arm, kind)
        at = {float(row["rate"]): row["accuracy"] for row in other if row["arm"] == name}
        at |= {float(table().labels[name]["rate"]): ends(name)[0]}
        found.append({"sampler": KINDS[kind], "arm": arm} | {f"{rate:g}": at[rate] for rate in sorted(at)})
    return found


def clipped(*names: str, sign: str = "+", most: int = 4) -> Rows:
    """Of the tokens that each arm stops most often, how many it stops, as a share of those that it was shown.

    Six a sign and seed are stored. ``sign`` is that of the advantage.
    """
    found = Rows()
    for name in names:
        counts: dict[str, np.ndarray] = {}
        for line in table().settings["clipped"][name]:
            if line["sign"] == sign:
                counts.setdefault(line["token"], np.zeros(2))
                counts[line["token"]] += (line["clipped"], line["shown"])
        order = sorted(counts, key=lambda token: -counts[token][0])[:most]
        each = (f"{token!r} {counts[token][0] / counts[token][1]:.0%} of {counts[token][1]:.0f}" for token in order)
        found.append({"arm": name, "A": f"{sign} ", "stopped, of those shown": ", ".join(each)})
    return found


def mismatches() -> Rows:
    """The logged mismatch, its median over a run: the lowest and the highest of all runs behind a rounded sampler."""
    contest = load_table("14_masks")
    tiny = [name for name in contest.where(task="misled int4") if name in contest.rows]
    groups = {"tiny, 4 bits, contest of chapter 14": (contest, tiny)}
    for kind in ("int8", "int4"):
        names = [run(arm, kind) for arm in ARMS if run(arm, kind) in table().rows]
        groups[f"real, {KINDS[kind]}"] = table(), names
    found = Rows()
    for title, (stored, names) in groups.items():
        each = [np.nanmedian(own["mismatch"][own["step"] > 0]) for name in names for own in stored.rows[name].values()]
        found.append({"": title, "runs": len(each), "lowest": float(min(each)), "highest": float(max(each))})
    return found


def distances(own: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of each round of a run (rounds,): D_seq, the KL of whole responses, estimated as the mean KL of a token times the
    mean length; and what there is to gain, 1 less the reward.
    """
    steps = own["step"] > 0
    return (own["kl_steps"] * own["length"])[steps], 1 - own["reward"][steps]


def vacuous(name: str) -> tuple[int, int]:
    """In how many rounds of all its runs D_seq is at least what there is to gain, and of how many."""
    found = [left <= D for D, left in map(distances, table().rows[name].values())]
    return int(np.sum(found)), int(np.size(found))


def drift(name: str) -> Rows:
    """How far a rollout's tokens are from the policy that is updated on them, for each run."""
    found = Rows()
    for seed, own in table().rows[name].items():
        D, left = distances(own)
        row = {"arm": name, "seed": seed, "D_seq, median": float(np.median(D)), "lowest": float(D.min())}
        found.append(row | {"rounds with D_seq above 1 - reward": f"{(left <= D).sum()} of {len(D)}"})
    return found


def log_of(letter: str) -> StoredLog:
    """A log of the exercise."""
    return stored_log(LOGS[letter])


def refused() -> Rows:
    """The recipes that our loop for real models, or TRL's trainer with our losses, refuses as they are, and why."""
    from rlnotes.bridge.settings import check_choices  # only here: the others work without torch
    from rlnotes.objectives import RECIPES

    found = Rows()
    for name, choices in RECIPES.items():
        try:
            check_choices(choices, processes=1, accumulated=1)
        except ValueError as error:
            found.append({"recipe": name, "why TRL cannot": str(error).partition(";")[0]})
    return [{"of": len(RECIPES)} | row for row in found]


SIGNS = (
    "mismatch above 0.01 at half of the steps",
    "a fifth of the tokens stopped at a quarter of the steps, mismatch above 0.01 at the first",
    "nine of ten truncated, from the first step on",
)
LOW = 0.4  # a run that ends below has gone wrong: all others end far above


def signs() -> Rows:
    """How often each sign is seen in runs of the table that go wrong, and in the others."""
    seen: dict[str, dict[bool, list[bool]]] = {sign: {True: [], False: []} for sign in SIGNS}
    for kind in kinds():
        for arm in ARMS:
            for seed, end in ends(run(arm, kind)).items() if run(arm, kind) in table().rows else ():
                own = table().rows[run(arm, kind)][seed]
                steps = own["step"] > 0
                mismatch, truncated, stopped = (own[name][steps] for name in ("mismatch", "truncated", "no_gradient"))
                shown = (
                    np.mean(mismatch > 0.01) >= 0.5,
                    np.mean(stopped > 0.2) >= 0.25 and mismatch[0] > 0.01,
                    truncated[0] >= 0.9 and np.mean(truncated[: len(truncated) // 2] >= 0.9) >= 0.5,
                )
                for sign, one in zip(SIGNS, shown, strict=True):
                    seen[sign][end < LOW].append(bool(one))
    names = {True: f"runs that end below {LOW}", False: "the others"}
    return [
        {"sign": sign} | {names[low]: f"{sum(both[low])} of {len(both[low])}" for low in (True, False)}
        for sign, both in seen.items()
    ]
