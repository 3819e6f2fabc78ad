"""What chapter 12 reads from its stored runs: what old versions cost, and how far away they are."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy import stats
from torch import Tensor

from rlnotes.chapters.c12.live import ARMS, UPDATES
from rlnotes.lm.rollout import Rollout
from rlnotes.studies import contest
from rlnotes.studies.contest import UNCLIPPED, UNTRAINED
from rlnotes.studies.study import short
from rlnotes.studies.tables import Table, died, load_rows, load_table
from rlnotes.studies.verdicts import judge, paired_difference, paired_interval

FEEDS = {"fresh": "fresh", "kept 32": "half old", "switching 32": "old in parts", "old 32": "all old"}
CLIPPED = "grpo"
TITLES = {CLIPPED: "clip", UNCLIPPED: UNCLIPPED}
FULL = 32 // UPDATES + 1  # the first round at which the oldest lag is reached
FAR, PRECISION = 0.12, 0.01  # mean |pi - mu|: the limit of a rule on logs; verl's limit for a fault of precision

FARTHER, LARGER = "the dying one farther, pairs", "the dying one's U larger, pairs"
EVERY = 2  # rounds between the measurements of the contest
TOLD = 0.005  # a difference of surrogates from which on its size is compared with the change

Rows = list[dict[str, Any]]


# --- The contest


def chosen(table: Table) -> dict[tuple[str, str], str]:
    """The stored method of each feed and objective, at the rate that was tuned for it."""
    return {(FEEDS[task], recipe): name for (task, recipe), name in contest.chosen(table).items()}


def feeds_in_short() -> Rows:
    """Rows for the start, sampled and greedy, and one for each feed and objective: rate, runs that fell and that died,
    mean accuracy, and what is told.
    """
    table = load_table("12_versions")
    own = chosen(table)
    fresh = own["fresh", CLIPPED]

    def told(name: str, other: str) -> str | None:
        return None if name == other else str(contest.less(table, name, other, "accuracy"))

    found: Rows = []
    for how, metric in (("sampled", "accuracy"), ("greedy", "greedy")):
        found.append({"feed": UNTRAINED, "objective": how, "rate": None, "fell": None, "died": None})
        found[-1]["mean"] = table.start(fresh, metric).mean()
    for (feed, recipe), name in own.items():
        curves = [accuracy for _, accuracy in table.curves(name, "accuracy")]
        row = {"feed": feed, "objective": TITLES[recipe], "rate": table.labels[name]["rate"]}
        row |= {"fell": _of([bool(_low(one).any()) for one in curves]), "died": _of(list(map(died, curves)))}
        row["mean"] = table.mean(name, "accuracy").mean()
        row["less clip on fresh data"] = told(name, fresh)
        row["less clip on this feed"] = told(name, own[feed, CLIPPED]) if feed != "fresh" else None
        found.append(row)
    return found


def rounds_to_half(feed: str, recipe: str) -> float:
    """After how many rounds half of the answers are right at a measurement, the median over runs; never is infinite."""
    table = load_table("12_versions")
    return float(np.median(_first_at_half(table, chosen(table)[feed, recipe])))


def _first_at_half(table: Table, name: str) -> list[float]:
    """Of each run of the contest after how many rounds half of the answers were right at a measurement."""
    return [EVERY * first_at(accuracy) for _, accuracy in table.curves(name, "accuracy")]


def first_at(accuracy: np.ndarray) -> float:
    """The first place at which ``accuracy`` is a half or more; never is infinite."""
    there = np.flatnonzero(accuracy >= 0.5)
    return float(there[0]) if len(there) else np.inf


def choices() -> Rows:
    """What one may do, in the contest and in the loop: rounds until half is right, the end, runs that died."""
    table, found = load_table("12_versions"), []
    own = chosen(table)
    for feed, recipe in product(("fresh", "half old", "all old"), TITLES):
        first, curves = _first_at_half(table, own[feed, recipe]), table.curves(own[feed, recipe], "accuracy")
        found.append(_choice("contest", feed, TITLES[recipe], first, [accuracy for _, accuracy in curves]))
    for arm in ("fresh", "all old", "all old, half the lag", "all old, one round"):
        curves = [J_of(run) for run in live(arm)]
        found.append(_choice("loop, 24 rounds", arm, TITLES[CLIPPED], list(map(first_at, curves)), curves))
    return found


def _choice(runs: str, data: str, objective: str, first: Sequence[float], curves: list[np.ndarray]) -> dict[str, Any]:
    span = f"{np.median(first):g} ({min(first):g} to {max(first):g})".replace("inf", "never")
    ends = np.array([curve[-1] for curve in curves])
    row = {"runs": runs, "data": data, "objective": objective, "rounds to 0.5": span}
    return row | {"end": f"{np.median(ends):.2f} ({_span(ends, 2)})", "died": _of(list(map(died, curves)))}


def seed_by_seed() -> Rows:
    """The mean accuracy of each run of the contest."""
    table = load_table("12_versions")
    columns = {f"{feed}, {recipe}": table.mean(name, "accuracy") for (feed, recipe), name in chosen(table).items()}
    seeds = next(iter(table.rows.values()))
    return [{"seed": seed} | {name: float(x[i]) for name, x in columns.items()} for i, seed in enumerate(seeds)]


def tuning_means() -> dict[tuple[str, str], dict[float, float]]:
    """The mean accuracy of the tuning runs at each rate that was tried, by feed and objective."""
    return {key: {rate: mean for rate, (mean, _) in own.items()} for key, own in _tuned().items()}


def by_rate() -> Rows:
    """The mean accuracy of the tuning runs by feed and rate, with the clip and without; how many runs of those died."""
    tuned, found = _tuned(), []
    rates = sorted({rate for own in tuned.values() for rate in own})
    for feed in FEEDS.values():
        row: dict[str, Any] = {"feed": feed}
        for rate in rates:
            both = [tuned[feed, recipe].get(rate) for recipe in TITLES]
            dead = sum(one[1] for one in both if one)
            means = " / ".join(f"{one[0]:.3f}" if one else "–" for one in both)
            row[short(rate)] = means + f", {dead} died" * (dead > 0)
        found.append(row)
    return found


def _tuned() -> dict[tuple[str, str], dict[float, tuple[float, int]]]:
    """The mean accuracy of the tuning runs, and how many died, at each rate, by feed and objective."""
    found = contest.tuned(load_table("12_versions"))
    return {(FEEDS[task], recipe): own for (task, recipe), own in found.items()}


def counted_otherwise() -> Rows:
    """The differences to the clip on fresh data by start, run by run, and without the worst fresh run."""
    table = load_table("12_versions")
    own = chosen(table)
    fresh = table.mean(own["fresh", CLIPPED], "accuracy")
    starts, worst = np.array(table.starts_of(own["fresh", CLIPPED])), int(fresh.argmin())
    found: Rows = []
    for (feed, recipe), name in own.items():
        if feed == "fresh":
            continue
        gaps = table.mean(name, "accuracy") - fresh
        row: dict[str, Any] = {"feed": feed, "objective": TITLES[recipe]}
        row |= {f"start {one}": float(gaps[starts == one].mean()) for one in np.unique(starts)}
        row |= {"as 12 starts": str(paired_difference(gaps, np.zeros(len(gaps)))), "median": float(np.median(gaps))}
        found.append(row | {f"without seed {worst}": float(np.delete(gaps, worst).mean())})
    return found


def before_the_fall() -> Rows:
    """What the mean of abs(pi - mu) was in stale runs before they died: a limit passed, or farther than in runs of the
    same arm that lived, at the same measurement; of the latter the same for U. A row for each arm, and one for all.
    """
    found: Rows = []
    for (feed, recipe), (dying, lived) in _stale_runs().items():
        before = [[number[:last] for number in numbers] for numbers, last in dying]
        row: dict[str, Any] = {"feed": feed, "objective": TITLES[recipe], "died": [True] * len(before)}
        row["died"] += [False] * len(lived)
        for limit in (PRECISION, FAR):
            for title, runs in (("died", before), ("lived", lived)):
                row[f"above {limit:g}, {title}"] = [bool((far > limit).any()) for far, *_ in runs]
        for place, title in enumerate((FARTHER, LARGER)):
            row[title] = [one for run in dying for one in _larger(run, lived, place)]
        found.append(row)
    whole = {"feed": "all of them", "objective": None}
    whole |= {key: [one for row in found for one in row[key]] for key in [*found[0]][2:]}
    return [row | {key: _of(row[key]) for key in [*row][2:]} for row in [*found, whole]]


Numbers = list[np.ndarray]  # of a run: abs(pi - mu) at each measurement, and U in the arms in which runs died


def _stale_runs() -> dict[tuple[str, str], tuple[list[tuple[Numbers, int]], list[Numbers]]]:
    """By arm the runs that died, each with how many measurements came before its fall, and those that lived."""
    table, found, shifts = load_table("12_versions"), {}, load_rows("12_shift")
    for (feed, recipe), name in chosen(table).items():
        if feed == "fresh":
            continue
        dying, lived, own = [], [], [run for run in shifts if (run["feed"], run["objective"]) == (feed, recipe)]
        curves = zip(table.curves(name, "accuracy"), table.curves(name, "mismatch"), strict=True)
        for seed, ((_, accuracy), (_, far)) in enumerate(curves):
            numbers = [far, *(np.array(run["update_shift"]) for run in own if run["seed"] == seed)]
            if died(accuracy):  # at the start there is no data to be far from
                dying.append((numbers, int(np.flatnonzero(~_low(accuracy))[-1])))
            else:
                lived.append(numbers)
        found[feed, recipe] = dying, lived
    return found


def _larger(run: tuple[Numbers, int], lived: list[Numbers], place: int, later: int = 0) -> list[bool]:
    """Whether a number of a run that dies is larger than in each that lived, ``later`` measurements after its last
    before the fall.
    """
    numbers, last = run
    at = last - 1 + later
    return [bool(numbers[place][at] > other[place][at]) for other in lived]


def _low(accuracy: np.ndarray) -> np.ndarray:
    """Where a run is below half of the best accuracy that it has reached so far."""
    return accuracy < 0.5 * np.maximum.accumulate(accuracy)


def alarms() -> Rows:
    """All arms of :func:`before_the_fall` together, a row for each question. Behind the pairs stands their share, with
    the 95 % interval of a bootstrap that draws the runs that died anew.
    """
    whole = before_the_fall()[-1]
    asked = {
        f"{who}: mean |π_k − μ| {'once ' * (who == 'lived')}above {limit:g}{', before the fall' * (who == 'died')}": (
            whole[f"above {limit:g}, {who}"]
        )
        for limit in (PRECISION, FAR)
        for who in ("died", "lived")
    }
    for later, when in enumerate(("last measurement before a fall", "first measurement in it")):
        for place, what in enumerate(("|π_k − μ|", "U")):
            asked[f"pairs, {when}: {what} larger in the run that dies"] = _pairs(place, later)
    return [{"stale runs": question, "yes": yes} for question, yes in asked.items()]


def _pairs(place: int, later: int) -> str:
    pairs = [_larger(run, lived, place, later) for dying, lived in _stale_runs().values() for run in dying]
    counts = [sum(own) for own in pairs], [len(own) for own in pairs]
    low, high = stats.bootstrap(
        counts,
        lambda larger, all_, axis: larger.sum(axis) / all_.sum(axis),
        paired=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    larger, all_ = map(sum, counts)
    return f"{larger} of {all_}: {larger / all_:.2f} [{low:.2f}, {high:.2f}]"


def ends_told() -> str:
    """The end of ``unclipped`` with all data old less that on fresh data."""
    table = load_table("12_versions")
    ours, theirs = (chosen(table)[feed, UNCLIPPED] for feed in ("all old", "fresh"))
    old, fresh = (table.last(name, "accuracy", 1) for name in (ours, theirs))
    return str(judge(old, fresh, table.settings["comparison"]["margin"], table.starts_of(ours)))


def _of(shown: Sequence[bool]) -> str | None:
    return f"{sum(shown)} of {len(shown)}" if shown else None


# --- The loop of the chapter


def live(arm: str) -> Rows:
    """The stored runs of an arm of :mod:`rlnotes.chapters.c12.live`: each column a list over rounds."""
    return [run for run in load_rows("12_live") if run["arm"] == arm]


def full_lag(arm: str, column: str) -> np.ndarray:
    """The mean of ``column`` over the rounds at which the lag has its full length, of each run (runs,)."""
    return np.array([np.mean(run[column][FULL - 1 :]) for run in live(arm)])


def times_a_round(arm: str) -> np.ndarray:
    """How many times the distance U of one round the distance S to who wrote is, at full lag, of each run (runs,)."""
    return full_lag(arm, "S") / full_lag(arm, "U")


def times_letter(times: float) -> str:
    """The answer to exercise 12.1: about as many times as there are rounds, fewer, or about once."""
    return "a" if times > 6 else "b" if times > 1.5 else "c"


def distances() -> Rows:
    """A row for each arm: its rate and lag, the distances from round ``FULL`` on, lowest to highest, the mean J that it
    loses against fresh data at its rate, and J at the end.
    """
    fresh = {rate: arm for arm, (lags, rate) in ARMS.items() if lags == (0,)}
    found: Rows = []
    for arm, (lags, rate) in ARMS.items():
        runs = live(arm)
        S = full_lag(arm, "S")
        rounds = np.array([run["S"][FULL - 1 :] for run in runs])
        row: dict[str, Any] = {"arm": arm, "rate": short(rate), "lag of the old": max(lags)}
        row |= {"S, mean": float(S.mean()), "S, single rounds": _span(rounds, 2)}
        row["mean J lost"] = float((mean_J(fresh[rate]) - mean_J(arm)).mean())
        row["J at the end"] = _span(np.array([J_of(run)[-1] for run in runs]), 2)
        found.append(row)
    return found


def J_of(run: dict[str, Any]) -> np.ndarray:
    """J before each round of a stored run, and after the last."""
    return np.append(run["J"], run["J"][-1] + run["change"][-1])


def mean_J(arm: str) -> np.ndarray:
    """The mean of J over each stored run of an arm, without its start (runs,)."""
    return np.array([J_of(run)[1:].mean() for run in live(arm)])


def _span(values: np.ndarray, digits: int) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def signs() -> Rows:
    """In how many rounds after the first J fell, and rose, and what L, and L less that of staying, said there; how many
    times the change was the latter, where that is above ``TOLD``.
    """
    found: Rows = []
    for arm in ("fresh", "half old", "all old"):
        change, L, staying = (
            np.concatenate([run[name][1:] for run in live(arm)]) for name in ("change", "L", "L of staying")
        )
        falls, rises, less = change < 0, change > 0, L - staying
        row = {"data": arm, "J fell": int(falls.sum()), "there L above 0": int((L[falls] > 0).sum())}
        row |= {"difference above 0": int((less[falls] > 0).sum()), "J rose": int(rises.sum())}
        row |= {"there difference below 0": int((less[rises] < 0).sum())}
        large = abs(less) > TOLD
        low, middle, high = np.quantile(change[large] / less[large], (0.05, 0.5, 0.95))
        found.append(row | {"change / difference": f"{middle:.2f} ({low:.2f} to {high:.2f})"})
    return found


def promises() -> Rows:
    """What rounds were promised, by feed: how often a gain, and the median."""
    found: Rows = []
    for arm in ("fresh", "half old", "all old"):
        runs = live(arm)
        split, own, change = (
            np.concatenate([run[name] for run in runs]) for name in ("promised", "promised, own", "change")
        )
        row = {"data": arm, "rounds": len(change), "J rose": int((change > 0).sum())}
        for title, promised in (("by 12.3", split), ("by 12.4", own)):
            row |= {f"a gain promised {title}": int((promised > 0).sum())}
            row |= {f"below -1 {title}": int((promised < -1).sum())}
        found.append(row)
    return found


# --- Of the deeper page


def staleness_by_place(
    each: Tensor, rollout: Rollout, updates: int
) -> tuple[float, np.ndarray, float, float, np.ndarray]:
    """Of a rollout with ``each`` token's estimate (N, T) of a distance: share of old tokens, place of each token, mean
    distance, its standard error with the responses to a prompt as one draw, mean distance by place (T,).
    """
    mask = rollout.mask
    S = each[mask].mean()
    by_prompt = ((each - S) * mask).reshape(len(rollout.prompts), -1).sum(1)
    old = (rollout.version < updates)[mask].double().mean().item()
    place = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)[mask.numpy()]
    by_place = ((each * mask).sum(0) / mask.sum(0)).numpy()
    return old, place, S.item(), (by_prompt.norm() / mask.sum()).item(), by_place


def levels() -> Rows:
    """Medians over five seeds of the table 12_levels."""
    table, found = load_table("12_levels"), []
    for name in table.rows:
        row: dict[str, Any] = {"feed": name, "sampled at the start": float(table.start(name, "accuracy").mean())}
        row |= {"accuracy": float(np.median(table.last(name, "accuracy")))}
        columns = {"staleness": "S", "update_shift": "U", "ess_sequence": "sample size of responses"}
        row |= {title: float(np.median(table.last(name, key, 40))) for key, title in columns.items()}
        found.append(row)
    return found


def levels_compared() -> Rows:
    """Differences of the table 12_levels, seed by seed."""
    table, found = load_table("12_levels"), []
    for ours, theirs in (
        ("switching 64", "kept 64"),
        ("switching 256", "kept 256"),
        *((name, "fresh") for name in table.rows if name != "fresh"),
    ):
        row = {"feed": ours, "less": theirs}
        for key, last in (("accuracy", 3), ("ess_sequence", 40), ("update_shift", 40)):
            row[key] = str(paired_interval(*(table.last(name, key, last) for name in (ours, theirs))))
        found.append(row)
    return found
