"""What chapter 13 reads from stored runs of one clip with several centres: a loop, contests, and a real model."""

from typing import Any

import numpy as np

from rlnotes.chapters.c12.live import RATE, UPDATES
from rlnotes.chapters.c12.readings import J_of
from rlnotes.chapters.c13.live import ARMS as LOOP
from rlnotes.chapters.c13.live import BANDS, SEEDS
from rlnotes.studies import contest
from rlnotes.studies.contest import UNCLIPPED
from rlnotes.studies.study import short
from rlnotes.studies.tables import Table, died, load_rows, load_table
from rlnotes.studies.verdicts import paired_interval

AT_MU, PLUS, TIMES = list(BANDS)[:3]
ARMS = {"stale_ppo": AT_MU, "method_1": PLUS, "method_2": TIMES, "decoupled_ppo": "decoupled", UNCLIPPED: UNCLIPPED}
"""recipes of the contest, and what the chapter calls them"""
TASKS = {
    "misled": "misled, fresh",
    "misled lag 8": "misled, 2 rounds old",
    "misled lag 32": "misled, 8 rounds old",
    "ledger lag 8": "ledger, 2 rounds old",
}
EVERY = 2  # rounds between the measurements of a contest

Rows = list[dict[str, Any]]


# --- The loop


def live(arm: str) -> Rows:
    """The stored runs of an arm of :mod:`rlnotes.chapters.c13.live`: each column a list over rounds."""
    return [run for run in load_rows("13_live") if run["arm"] == arm]


def shut(arm: str, what: str = "good push") -> np.ndarray:
    """The share that is shut, in the mean over the rounds after the first, of each run (runs,)."""
    return np.array([np.mean(run[f"{what} shut"][1:]) for run in live(arm)])


def shut_letter(share: float) -> str:
    """The answer to exercise 13.1: less than a tenth, up to a half, or more."""
    return "a" if share < 0.1 else "b" if share < 0.5 else "c"


SHUT = ("good shut", "good push shut")


def loop() -> Rows:
    """A row for each arm: what is shut before the first step of a round, the mean J of each run, and its end."""
    fresh = [J_of(run) for run in load_rows("12_live") if run["arm"] == "fresh" and run["seed"] in SEEDS]
    found: Rows = [{"centre": "any", "rounds old": 0, "rate": short(RATE)} | dict.fromkeys(SHUT, 0.0)]
    found[0] |= _spread(np.array(fresh))
    for arm, (centre, lag, rate) in LOOP.items():
        row: dict[str, Any] = {"centre": centre, "rounds old": lag // UPDATES, "rate": short(rate)}
        row |= {what: float(shut(arm, what.removesuffix(" shut")).mean()) for what in SHUT}
        found.append(row | _spread(np.array([run["J"] for run in live(arm)])))
    return found


def _spread(J: np.ndarray) -> dict[str, Any]:
    ends = f"{np.median(J[:, -1]):.2f} ({J[:, -1].min():.2f} to {J[:, -1].max():.2f})"
    return {"mean J": float(J[:, 1:].mean()), "J at the end": ends}


# --- The contest


def chosen(table: Table) -> dict[tuple[str, str], str]:
    """The stored method of each task and arm, at the rate that was tuned for it."""
    return {(task, ARMS[recipe]): name for (task, recipe), name in contest.chosen(table).items()}


def differences(to: str = AT_MU) -> Rows:
    """A row for each arm but ``to``: on each task the mean over a run less that of ``to``, and the word."""
    table = load_table("13_mechanisms")
    own = chosen(table)
    return [
        {f"less {to}": arm}
        | {title: str(contest.less(table, own[task, arm], own[task, to])) for task, title in TASKS.items()}
        for arm in ARMS.values()
        if arm != to
    ]


def arms() -> Rows:
    """A row for each task and arm: its rate, runs that fell and died, the mean, rounds to a half, and the end."""
    table, found = load_table("13_mechanisms"), []
    own = chosen(table)
    for task, title in TASKS.items():
        start = {metric: table.start(own[task, AT_MU], metric).mean() for metric in ("greedy", "accuracy")}
        for arm in ARMS.values():
            name = own[task, arm]
            curves = [accuracy for _, accuracy in table.curves(name, "accuracy")]
            row: dict[str, Any] = {"data": title, "start, greedy": f"{start['greedy']:.3f}", "arm": arm}
            row |= {"rate": table.labels[name]["rate"]}
            fell = [bool((one < 0.5 * np.maximum.accumulate(one)).any()) for one in curves]
            row |= {"fell": of(fell), "died": of(list(map(died, curves)))}
            row |= {"mean": float(table.mean(name, "accuracy").mean()), "rounds to 0.5": rounds_to_half(task, arm)}
            ends = np.array([one[-1] for one in curves])
            row["end"] = f"{np.median(ends):.2f} ({ends.min():.2f} to {ends.max():.2f})"
            found.append(row)
    return found


def of(shown: list[bool]) -> str:
    """How many of how many."""
    return f"{sum(shown)} of {len(shown)}"


def rounds_to_half(task: str, arm: str) -> float:
    """After how many rounds half of the answers are right at a measurement, the median over runs; never is infinite."""
    table = load_table("13_mechanisms")
    curves = [accuracy for _, accuracy in table.curves(chosen(table)[task, arm], "accuracy")]
    there = [np.flatnonzero(accuracy >= 0.5) for accuracy in curves]
    return float(np.median([EVERY * place[0] if len(place) else np.inf for place in there]))


def tuning() -> dict[tuple[str, str], dict[float, tuple[float, int]]]:
    """By task and arm: the mean accuracy of the tuning runs at each rate that was tried, and how many died."""
    found = contest.tuned(load_table("13_mechanisms"))
    return {(task, ARMS[recipe]): own for (task, recipe), own in found.items()}


def by_rate(task: str) -> Rows:
    """A row for each arm: the mean accuracy of its tuning runs by rate, and how many died."""
    tuned = {arm: tuning()[task, arm] for arm in ARMS.values()}
    rates = sorted({rate for own in tuned.values() for rate in own})
    return [
        {"data": TASKS[task], "arm": arm}
        | {
            short(rate): f"{own[rate][0]:.3f}" + f", {own[rate][1]} died" * (own[rate][1] > 0) if rate in own else "–"
            for rate in rates
        }
        for arm, own in tuned.items()
    ]


def age() -> Rows:
    """A row for each arm: what it loses to itself on fresh data, on misled."""
    table, found = load_table("13_mechanisms"), []
    own = chosen(table)
    for arm in ARMS.values():
        row = {"arm": arm}
        for task in ("misled lag 8", "misled lag 32"):
            row[f"{TASKS[task]}, less fresh"] = str(contest.less(table, own[task, arm], own["misled", arm]))
        found.append(row)
    return found


# --- Elsewhere

CENTRES = {  # contest, task, what is at pi_k, what is at mu
    "misled, 4 rounds of 16 updates old": [
        ("16_contest", "misled lag 64", "minirl", "clip_higher", "clip 0.8 to 1.28"),
        ("16_contest", "misled lag 64", "dppo_kl at pi_k", "dppo_kl", "mask by KL"),
        ("16_contest", "misled lag 64", "negative_mask at pi_k", "negative_mask", "least mask"),
    ],
    "misled, 4 bits": [
        ("16_contest", "misled int4", "minirl", "clip_higher", "clip 0.8 to 1.28"),
        ("16_contest", "misled int4", "dppo_kl at pi_k", "dppo_kl", "mask by KL"),
        ("16_contest", "misled int4", "negative_mask at pi_k", "negative_mask", "least mask"),
        ("09_drift", "misled int4", "gspo 0.03 at pi_k", "gspo 0.03", "clip of response ratios"),
    ],
    "ledger, 4 bits": [("09_drift", "ledger int4", "gspo 0.03 at pi_k", "gspo 0.03", "clip of response ratios")],
}


def centres() -> Rows:
    """A row for each limit that was run both at pi_k and at mu, in other contests: their difference and its word."""
    found: Rows = []
    for data, pairs in CENTRES.items():
        for stored, task, ours, theirs, limit in pairs:
            table = load_table(stored)
            own = contest.chosen(table)
            one, other = own[task, ours], own[task, theirs]
            row = {
                "sampler": data,
                "limit": limit,
                "rates": f"{table.labels[one]['rate']}, {table.labels[other]['rate']}",
            }
            row["at pi_k less at mu"] = str(contest.less(table, one, other))
            found.append(row | {"at pi_k less unclipped": str(contest.less(table, one, own[task, UNCLIPPED]))})
    return found


def real() -> Rows:
    """A row for each sampler of the real model: the mask at pi_k less the clip at mu, by seeds, and less no limit."""
    from rlnotes.chapters.c18 import readings as model

    found: Rows = []
    for kind in model.kinds():
        at_pi_k, at_mu, none = (model.run(arm, kind) for arm in (model.AT_PI_K, model.AT_MU, model.UNCLIPPED))
        if not {model.AT_PI_K, model.AT_MU} <= {*model.arms(kind)}:
            continue
        row = {"sampler": model.KINDS[kind], "start, greedy": float(np.mean(model.table().start(at_pi_k, "greedy")))}
        row["end: at mu, at pi_k"] = ", ".join(
            f"{np.mean([*model.ends(arm).values()]):.2f}" for arm in (at_mu, at_pi_k)
        )
        row["less at mu, end"] = str(model.less(at_pi_k, at_mu))
        row["less at mu, greedy, end"] = str(model.less(at_pi_k, at_mu, lambda name: model.ends(name, "greedy")))
        row["less at mu, over the run"] = str(model.less(at_pi_k, at_mu, model.over))
        row["less no limit, end"] = str(model.less(at_pi_k, none)) if none in model.table().rows else None
        found.append(row)
    return found


def seeds_of_the_real_model() -> int:
    """The least number of seeds of a row of :func:`real`."""
    from rlnotes.chapters.c18 import readings as model

    return min(len(model.seeds(model.run(model.AT_PI_K, kind), model.run(model.AT_MU, kind))) for kind in model.kinds())


# --- What the centre costs


def cost() -> Rows:
    """A row for each arm: milliseconds of a round, and how much more that is, in the median over paired turns."""
    return [
        {
            "arm": ARMS[row["arm"]],
            "one more pass": "yes" if row["recomputes"] else "no",
            "ms a round": 1000 * row["seconds"],
            "more than at mu": f"{row['more']:+.0%} ({row['least']:+.0%} to {row['most']:+.0%})",
        }
        for row in load_rows("13_cost")
    ]


def milliseconds(arm: str) -> float:
    """Of a round, as stored."""
    return next(row["ms a round"] for row in cost() if row["arm"] == arm)


# --- The same clips on sort, at two rates that nobody tuned

SORT = {"1e-4": "13_stale", "3e-4": "13_stale_fast"}
SORT_ARMS = {recipe: ARMS[recipe] for recipe in ("stale_ppo", "method_1", "method_2", UNCLIPPED)}
SORT_LAGS = (0, 4, 16, 64)


def late(rate: str, recipe: str, lag: int, metric: str) -> np.ndarray:
    """The mean of the last four measurements of each run (seeds,)."""
    return load_table(SORT[rate]).last(f"{recipe}, lag {lag}", metric, 4)


def on_sort() -> Rows:
    """A row for each rate and lag: the medians of accuracy, of U and of S, and of tokens left without a gradient."""
    found: Rows = []
    for rate in SORT:
        for lag in SORT_LAGS:
            row: dict[str, Any] = {"rate": rate, "updates old": lag}
            for metric, title in (
                ("accuracy", "accuracy"),
                ("no_gradient", "stopped"),
                ("update_shift", "U"),
                ("staleness", "S"),
            ):
                row[title] = " / ".join(f"{np.median(late(rate, recipe, lag, metric)):.3f}" for recipe in SORT_ARMS)
            found.append(row)
    return found


def on_sort_compared() -> Rows:
    """A row for each rate, lag and arm: its differences to the clip at mu, seed by seed, in thousandths."""
    found: Rows = []
    for rate in SORT:
        for lag in SORT_LAGS:
            for recipe in [*SORT_ARMS][1:]:
                row: dict[str, Any] = {"rate": rate, "updates old": lag, "arm": SORT_ARMS[recipe]}
                for metric, title in (
                    ("accuracy", "accuracy"),
                    ("update_shift", "U"),
                    ("no_gradient", "stopped"),
                    ("staleness", "S"),
                ):
                    gap = paired_interval(late(rate, recipe, lag, metric), late(rate, "stale_ppo", lag, metric))
                    row[title] = "{:+.0f} [{:+.0f}, {:+.0f}]".format(*(1000 * np.array(gap)))
                found.append(row)
    return found


def rounds_times_U() -> Rows:
    """For the clip at mu: the rounds that data are old, times the shift of a round, beside S."""
    found: Rows = []
    for rate in SORT:
        for lag in SORT_LAGS[1:]:
            U, S = (float(np.median(late(rate, "stale_ppo", lag, m))) for m in ("update_shift", "staleness"))
            found.append(
                {"rate": rate, "updates old": lag, "rounds": lag // 4, "U": U, "rounds times U": lag // 4 * U, "S": S}
            )
    return found


# --- The Monday card


def named(*rules: str) -> Rows:
    """For each rule on logs: how many it names of the stored ones with a planted fault, and of the healthy ones."""
    from rlnotes.logs.stored_logs import stored_logs

    said = {
        log.path.parent.name: {finding.rule.name: finding.rule.symptom for finding in log.report().findings}
        for log in stored_logs().values()
    }
    found: Rows = []
    for rule in rules:
        hits = {name: rule in names for name, names in said.items()}
        row = {"you see": next(names[rule] for names in said.values() if rule in names)}
        row |= {"logs with a fault": of([hit for name, hit in hits.items() if not name.startswith("healthy")])}
        found.append(row | {"healthy logs": of([hit for name, hit in hits.items() if name.startswith("healthy")])})
    return found
