"""What chapter 18 reads from the stored runs of a real model."""

from collections.abc import Callable
from functools import cache, partial
from math import comb
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
    return [kind for kind in KINDS if len(arms(kind)) > 1]


def seeds(*names: str) -> list[int]:
    """Those that all of these runs have."""
    return sorted(set.intersection(*(set(table().rows[name]) for name in names)))


def ends(name: str, metric: str = "accuracy") -> dict[int, float]:
    """The last measurement of each seed."""
    found = table().rows[name]
    return {seed: float(own[metric][~np.isnan(own[metric])][-1]) for seed, own in found.items()}


def over(name: str) -> dict[int, float]:
    """The mean of what was measured after the start, for each seed."""
    return {seed: float(np.nanmean(own["accuracy"][own["step"] > 0])) for seed, own in table().rows[name].items()}


MEASURES = {"at the end": ends, "over the run": over}


def less(ours: str, theirs: str, of: Callable[[str], dict[int, float]] = ends, first: int | None = None) -> Verdict:
    """The verdict on two arms, seed by seed: on where they end, or on their means ``over`` the run; of the ``first``
    seeds, if so many are named. No margin was stated.
    """
    both, one, other = seeds(ours, theirs)[:first], of(ours), of(theirs)
    return judge(np.array([one[seed] for seed in both]), np.array([other[seed] for seed in both]))


def in_words(verdict: Verdict) -> str:
    """Difference, interval and word, for a cell of a table."""
    return str(verdict).replace("  ", ", ")


def told(ours: str, theirs: str, column: str) -> dict[str, str]:
    """That by both measures: two cells of a table, by the names of their columns."""
    return {column.format(when): in_words(less(ours, theirs, of)) for when, of in MEASURES.items()}


def fall(name: str) -> float:
    """The deepest fall of the accuracy from one measurement to the next, of all runs."""
    runs = [own["accuracy"][~np.isnan(own["accuracy"])] for own in table().rows[name].values()]
    return max(float((run[:-1] - run[1:]).max()) for run in runs)


def arms(kind: str) -> list[str]:
    """Those that the table has behind a sampler of this kind."""
    return [arm for arm in ARMS if run(arm, kind) in table().rows]


def caption(kind: str) -> str:
    """The sampler, how many seeds, and how right the likeliest tokens are at the start."""
    starts = table().start(run(AT_PI_K, kind), "greedy")
    low, high = (f"{end(starts):.2f}" for end in (np.min, np.max))
    return (
        f"sampler: {KINDS[kind]}; {len(starts)} seeds, greedy at the start {low if low == high else f'{low} to {high}'}"
    )


def experiment(kind: str) -> Rows:
    """A row for each arm behind a sampler of this kind: where its runs end, and the deepest fall of one."""
    found = Rows()
    for arm in arms(kind):
        name = run(arm, kind)
        sampled = ends(name).values()
        row = {
            "arm": arm,
            "end, greedy": float(np.mean(list(ends(name, "greedy").values()))),
            "end, sampled": float(np.mean(list(sampled))),
            "lowest to highest": f"{min(sampled):.2f} to {max(sampled):.2f}",
            "end, best of 8": float(np.mean(list(ends(name, "pass_at_8").values()))),
            "entropy": float(np.mean(list(ends(name, "entropy").values()))),
            "deepest fall": fall(name),
        }
        found.append(row)
    return found


def pairs() -> list[tuple[str, str, str]]:
    """The sampler, and the two arms behind it, of each comparison that the chapter speaks of: no limit, and the three
    limits, beside each other.
    """
    asked = [(arm, UNCLIPPED) for arm in ARMS[1:]]
    asked += [(AT_PI_K, DIVERGENCE), (AT_PI_K, AT_MU), (DIVERGENCE, AT_MU)]
    return [(kind, *pair) for kind in kinds() for pair in asked if {*pair} <= {*arms(kind)}]


def differences() -> Rows:
    """A row for each such pair, by both measures."""
    return [
        {"sampler": KINDS[kind], "": f"{one} less {other}"} | told(run(one, kind), run(other, kind), "{}")
        for kind, one, other in pairs()
    ]


SAID = MEASURES | {"greedy": partial(ends, metric="greedy")}


def beside_no_limit() -> Rows:
    """A row for each arm with a limit: behind each sampler what is told of it less no limit, sampled at the end, over
    the run, and greedy at the end.
    """
    return [
        {"arm": arm}
        | {
            KINDS[kind]: " / ".join(less(run(arm, kind), run(UNCLIPPED, kind), of).word for of in SAID.values())
            for kind in kinds()
            if {arm, UNCLIPPED} <= {*arms(kind)}
        }
        for arm in ARMS[1:]
    ]


FIRST = {"none": 5, "int4": 5, "stale": 3, "int8": 3}
"""the seeds that were run first; what they left undecided is why all arms were run on ten"""


def changed() -> Rows:
    """A row for each word of :func:`differences` that the first seeds alone gave otherwise."""
    found = Rows()
    for kind, one, other in pairs():
        both = run(one, kind), run(other, kind)
        for when, of in MEASURES.items():
            before, after = less(*both, of, FIRST[kind]), less(*both, of)
            if before.word != after.word:
                row = {"sampler": KINDS[kind], "": f"{one} less {other}", "measured": when, "first seeds": FIRST[kind]}
                found.append(row | {"they said": in_words(before), "ten say": in_words(after)})
    return found


def seed_by_seed(kind: str) -> Rows:
    """A row for each arm: where each of its runs ends."""
    return [
        {"sampler": KINDS[kind], "arm": arm} | {f"seed {seed}": end for seed, end in ends(run(arm, kind)).items()}
        for arm in arms(kind)
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


def taught(own: dict[str, np.ndarray]) -> np.ndarray:
    """Of each round of a run (rounds,): how many of its groups have an advantage, for their rewards differ."""
    prompts = table().settings["comparison"]["base"]["prompts"]
    return np.rint(prompts * (1 - own["wasted_groups"][own["step"] > 0])).astype(int)


def stopped(own: dict[str, np.ndarray]) -> np.ndarray:
    """Of each round of a run (rounds,): the share of tokens with an advantage that get no gradient; NaN without any.

    The logged ``no_gradient`` is the mean of that share over the minibatches, and one without such a token counts as
    0. So it is divided by the share of minibatches with one: exact where one group has an advantage (it is in one
    minibatch of each pass), and where so many have that no minibatch can be without; between, that share is the one
    expected of minibatches drawn at random. The minibatches weigh alike, whatever their tokens.

    >>> one = dict(step=np.array([1, 2]), wasted_groups=np.array([31 / 32, 1.0]), no_gradient=np.array([0.125, 0.0]))
    >>> stopped(one)
    array([0.5, nan])
    """
    base, groups = table().settings["comparison"]["base"], taught(own)
    prompts, size = base["prompts"], base["prompts"] // base["minibatches"]
    within = np.array([1 - comb(prompts - n, size) / comb(prompts, size) for n in groups.tolist()])
    logged = own["no_gradient"][own["step"] > 0]
    return np.divide(logged, within, out=np.full(len(groups), np.nan), where=groups > 0)


def stopped_in_all(name: str) -> float:
    """That over all runs of an arm, a round weighing as much as the groups that have an advantage."""
    shares, groups = (np.concatenate([of(own) for own in table().rows[name].values()]) for of in (stopped, taught))
    return float(np.nansum(shares * groups) / groups.sum())


def other_tasks() -> Rows:
    """A row for each run on four datasets of reasoning-gym, and for those that are paid for the form of an answer: its
    start, as far as it is known, its end, and what a model gets that always gives the commonest answer.
    """
    commonest, found = table().settings["commonest"], Rows()
    for name in (*commonest, "paid for form"):
        for seed, own in table().rows[name].items():
            row: dict[str, Any] = {"task": name, "seed": seed}
            for metric, title in (("accuracy", "sampled"), ("greedy", "greedy"), ("pass_at_8", "pass@8")):
                measured = own[metric][~np.isnan(own[metric])]
                row[title] = f"{measured[0]:.3f} to {measured[-1]:.3f}"
            one = f"{commonest[name][1]:.3f} ({commonest[name][0]!r})" if name in commonest else ""
            found.append(row | {"one answer to all": one, "paid at the end": float(own["reward"][-1])})
    return found


def clipped(*names: str, most: int = 2) -> Rows:
    """Two rows for each arm, for good tokens and bad ones: of those counted how many it stops, and which most often.

    For each seed and sign the six that are stopped most often are stored, counted once a pass.
    """
    found = Rows()
    for name in names:
        for sign, title in (("+", "good, A > 0"), ("-", "bad, A < 0")):
            lines = [line for line in table().settings["clipped"][name] if line["sign"] == sign]
            counts: dict[str, list[tuple[int, int]]] = {}
            for line in lines:
                counts.setdefault(line["token"], []).append((line["clipped"], line["shown"]))
            each = []
            for token, seen in sorted(counts.items(), key=lambda one: -sum(out for out, _ in one[1]))[:most]:
                out, of = map(sum, zip(*seen, strict=True))
                each.append(f"{token!r} {out / of:.0%} of {of}, {max(of for _, of in seen)} of one seed")
            out, of = (sum(line[column] for line in lines) for column in ("clipped", "shown"))
            found.append(
                {
                    "arm": name,
                    "tokens": title,
                    "stopped, of those counted": f"{out / of:.0%} of {of}",
                    "most often": "; ".join(each),
                }
            )
    return found


def mismatches() -> Rows:
    """The logged mismatch of all runs, by sampler: at the first two looks, and its median."""
    contest = load_table("14_masks")
    tiny = [name for name in contest.where(task="misled int4") if name in contest.rows]
    groups = {"tiny, 4 bits, contest of chapter 14": (contest, tiny)}
    for kind in ("none", "stale", "int8", "int4"):
        groups[f"real, {KINDS[kind]}"] = table(), [run(arm, kind) for arm in arms(kind)]

    def ranged(values: list[float]) -> str:
        return f"{min(values):.4f} to {max(values):.4f}"

    found = Rows()
    for title, (stored, names) in groups.items():
        runs = [own for name in names for own in stored.rows[name].values()]
        each = [own["mismatch"][own["step"] > 0] for own in runs]
        row = {"": title, "runs": len(runs), "first look": ranged([one[0] for one in each])}
        row |= {"second look": ranged([one[1] for one in each])}
        row |= {"median of a run": ranged([np.nanmedian(one) for one in each])}
        row |= {"highest": f"{max(np.nanmax(one) for one in each):.4f}"}
        if "staleness" in runs[0]:
            row |= {"half mean |π/μ − 1|, first look": ranged([own["staleness"][own["step"] > 0][0] for own in runs])}
        found.append(row)
    return found


def distances(own: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of each round of a run (rounds,): D_seq, the KL of whole responses, estimated as the mean KL of a token times the
    mean length; and what there is to gain, 1 less the reward.
    """
    steps = own["step"] > 0
    return (own["kl_steps"] * own["length"])[steps], 1 - own["reward"][steps]


UPDATES = 8  # of a round
GROWN = {power: UPDATES**power / float(np.mean(np.arange(UPDATES) ** power)) for power in (1, 2)}
"""a KL that grows with a power of the number of a round's updates, from 0: after the last, by the mean of those before
each
"""


def vacuous(name: str, grown: float = 1.0) -> tuple[int, int]:
    """In how many rounds of all its runs ``grown`` times D_seq is at least what there is to gain, and of how many."""
    found = [left <= grown * D for D, left in map(distances, table().rows[name].values())]
    return int(np.sum(found)), int(np.size(found))


def vacuous_by_arm(kind: str) -> str:
    """The least and the most such rounds of an arm behind a sampler of this kind."""
    above, of = zip(*(vacuous(run(arm, kind)) for arm in arms(kind)), strict=True)
    return f"{min(above)} to {max(above)} of {of[0]}"


def promises() -> Rows:
    """A row for each arm: behind each sampler, in how many rounds D_seq is above what there is to gain; for the exact
    one also as if the KL grew evenly over a round, or with the square of the updates.
    """
    return [
        {"arm": arm}
        | {KINDS[kind]: "{} of {}".format(*vacuous(run(arm, kind))) for kind in kinds() if arm in arms(kind)}
        | {
            f"exact, last update, {how}": "{} of {}".format(*vacuous(arm, GROWN[n]))
            for n, how in ((1, "evenly"), (2, "as the square"))
        }
        for arm in ARMS
    ]


def drift(name: str) -> dict[str, Any]:
    """How far a rollout's tokens are from the policy that is updated on them: a row on the runs of an arm."""
    each = [distances(own) for own in table().rows[name].values()]
    above = [int(np.sum(left <= D)) for D, left in each]
    medians = [float(np.median(D)) for D, _ in each]
    return {
        "arm": name,
        "D_seq, median of a run": f"{min(medians):.2f} to {max(medians):.2f}",
        "lowest": float(min(D.min() for D, _ in each)),
        "rounds of 25 with D_seq above 1 - reward": f"{min(above)} to {max(above)}",
    }


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
            found.append({"recipe": name, "says": str(error)})
    return found


LOW = 0.4  # a run that ends below is counted as gone wrong


def signs() -> Rows:
    """How often each sign is seen in runs of the table that go wrong, and in the others."""
    runs = []
    for kind in kinds():
        for arm in arms(kind):
            for seed, end in ends(run(arm, kind)).items():
                own = table().rows[run(arm, kind)][seed]
                runs.append((arm, seed, end < LOW, {name: own[name][own["step"] > 0] for name in own}))
    limited = [one for one in runs if one[0] != UNCLIPPED and one[3]["mismatch"][0] > 0.01]

    def often(shares: np.ndarray) -> bool:
        return bool(np.mean(shares[~np.isnan(shares)] > 0.2) >= 0.25)

    def logged(own: dict[str, np.ndarray]) -> bool:
        return often(own["no_gradient"])

    def cut_off(own: dict[str, np.ndarray]) -> bool:
        first = own["truncated"][: len(own["truncated"]) // 2]
        return bool(first[0] >= 0.9 and np.mean(first >= 0.9) >= 0.5)

    signs = (
        ("mismatch above 0.01 at half of the steps", runs, lambda own: np.mean(own["mismatch"] > 0.01) >= 0.5),
        ("no_gradient as logged above a fifth at a quarter of the steps (*)", limited, logged),
        ("the same, without seed 0", [one for one in limited if one[1] > 0], logged),
        ("the same, counted where there is an advantage (*)", limited, lambda own: often(stopped(own))),
        ("nine of ten truncated, from the first step on", runs, cut_off),
        ("nine of ten truncated in the last round", runs, lambda own: own["truncated"][-1] >= 0.9),
    )
    found = Rows()
    for sign, among, seen in signs:
        row = {"sign": sign}
        for low, title in ((True, f"runs that end below {LOW}"), (False, "the others")):
            shown = [bool(seen(own)) for _, _, wrong, own in among if wrong == low]
            row[title] = f"{sum(shown)} of {len(shown)}"
        found.append(row)
    return found
