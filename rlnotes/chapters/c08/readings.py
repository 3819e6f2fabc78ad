"""What chapter 08 reads off its stored runs: lengths of right and of wrong responses, run by run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rlnotes.studies.contest import results
from rlnotes.studies.tables import Table, load_rows, load_table
from rlnotes.studies.verdicts import judge

DENOMINATORS = ("response mean", "constant", "token mean")
FIRST = DENOMINATORS[0]  # what the others are compared with
COUNTED = (
    "constant"  # beside it; runs with the token mean share seeds and draws with these, and are near-copies at 3e-4
)
EQUAL_RESPONSES, EQUAL_TOKENS = "less response mean", "the same, equal tokens"
MARGIN = 0.02  # of mean accuracy, fixed before the runs
EVERY, RESPONSES = 3, 256  # steps from one measurement to the next, responses of a step
TAIL = 5  # a run ends with the mean of its last rollouts
SIGN = 5.0  # tokens by which wrong responses are longer than right ones, of 16 at most

RAMBLE_STEPS = 37  # that all runs of the table 08_ramble have
LOGS = {"A": ("grpo, constant", 3), "B": ("grpo", 0), "C": ("grpo, constant", 1)}  # of exercise 08.2
LOGGED = (1, 10, 20, 30, RAMBLE_STEPS)
BEYOND = (30, 50, 80)  # steps at which the longer runs are read

# methods of the contests, and what the chapter calls them
CONTEST = {
    "untrained": "untrained",
    "grpo": "response mean",
    "grpo constant": "constant",
    "ppo_clip": "token mean",
    "dr_grpo": "dr_grpo",
    "unclipped": "unclipped",
}
ARMS = {method: shown for method, shown in CONTEST.items() if shown not in ("untrained", "unclipped")}  # in the chapter
UPPER_ENDS = {"untrained": "untrained", "grpo": "0.2"} | {f"grpo high {end}": end for end in ("0.28", "1.0", "4.0")}
UPPER_ENDS |= {"unclipped": "unclipped"}
DYNAMIC = {"untrained": "untrained", "dapo all groups": "dapo, all groups", "dapo": "dapo"}

Rows = list[dict[str, Any]]


def live(role: str, denominator: str) -> Rows:
    """The stored runs of the chapter's loop: ``role`` is tuning, chapter (its own rate) or best."""
    return [one for one in load_rows("08_live") if (one["role"], one["denominator"]) == (role, denominator)]


def end(run: dict[str, Any], name: str) -> float:
    """The mean of ``name``, such as ``"wrong"``, over the last rollouts of a run, those left out that have none."""
    return float(np.mean([value for value in run[name][-TAIL:] if value is not None]))


def shorter(denominator: str) -> list[bool]:
    """Of each run at the chapter's rate whether its responses, right or wrong, ended shorter than those of the run with
    the response mean and the same seed.
    """
    pairs = zip(live("chapter", denominator), live("chapter", FIRST), strict=True)
    return [end(ours, "all") < end(theirs, "all") for ours, theirs in pairs]


def gaps(role: str, denominator: str) -> np.ndarray:
    """Of each run how much longer wrong responses are than right ones in the end, (runs,) in tokens."""
    return np.array([end(run, "wrong") - end(run, "right") for run in live(role, denominator)])


def at_equal_tokens(role: str, denominator: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean accuracy of each run over the tokens that it and the run of the response mean have both sampled, and
    that of the latter, (runs,) each. Between two measurements a straight line is taken.
    """
    ours, theirs = [], []
    for pair in zip(live(role, denominator), live(role, FIRST), strict=True):
        curves = [(np.cumsum([0.0, *run["all"]])[::EVERY] * RESPONSES, [start(), *run["accuracy"]]) for run in pair]
        both = np.linspace(0, min(tokens[-1] for tokens, _ in curves), 201)
        for found, (tokens, accuracies) in zip((ours, theirs), curves, strict=True):
            found.append(np.interp(both, tokens, accuracies).mean())
    return np.array(ours), np.array(theirs)


@cache
def start() -> float:
    """The accuracy before the first step, exact."""
    from rlnotes.chapters.c08.ramble import accuracy  # only here: it needs torch
    from rlnotes.lm.warm_start import shipped_start

    return accuracy(shipped_start("ramble")).item()


def lengths_in_short(role: str) -> Rows:
    """A row for each denominator: its rate, and the lengths at the end, mean (lowest to highest)."""
    found: Rows = []
    for name in DENOMINATORS:
        runs = live(role, name)
        columns = {verdict: np.array([end(run, verdict) for run in runs]) for verdict in ("right", "wrong")}
        columns["wrong − right"] = gaps(role, name)
        row = {title: f"{ends.mean():.1f} ({ends.min():.1f} to {ends.max():.1f})" for title, ends in columns.items()}
        found.append({"denominator": name, "rate": f"{runs[0]['rate']:g}"} | row)
    return found


def accuracy_in_short(role: str) -> Rows:
    """A row for each denominator: its rate, accuracies, and the difference to the response mean with its word."""
    found: Rows = []
    for name in DENOMINATORS:
        runs = live(role, name)
        mean, last = (np.array([take(run["accuracy"]) for run in runs]) for take in (np.mean, lambda x: x[-1]))
        row: dict[str, Any] = {"denominator": name, "rate": f"{runs[0]['rate']:g}"}
        row["end"] = f"{last.mean():.3f} ± {last.std(ddof=1) / len(last) ** 0.5:.3f}"
        row["mean"] = float(mean.mean())
        if name != FIRST:
            theirs = np.array([np.mean(run["accuracy"]) for run in live(role, FIRST)])
            row["ahead"] = f"{(mean > theirs).sum()} of {len(mean)}"
            row[EQUAL_RESPONSES] = str(judge(mean, theirs, MARGIN))
            row[EQUAL_TOKENS] = str(judge(*at_equal_tokens(role, name), MARGIN))
        found.append(row)
    return found


def seed_by_seed() -> Rows:
    """Where each run at a best rate ended."""
    found = []
    for runs in zip(*(live("best", name) for name in DENOMINATORS), strict=True):
        row: dict[str, Any] = {"seed": runs[0]["seed"]}
        for run in runs:
            name = run["denominator"]
            row[f"{name}: wrong / right"] = f"{end(run, 'wrong'):.1f} / {end(run, 'right'):.1f}"
            row[f"{name}: accuracy"] = run["accuracy"][-1]
        found.append(row)
    return found


def tuning() -> Rows:
    """The mean accuracy of the tuning runs by rate."""
    rates = sorted({run["rate"] for name in DENOMINATORS for run in live("tuning", name)})
    return [
        {"rate": f"{rate:g}"}
        | {
            name: float(np.mean([run["accuracy"] for run in live("tuning", name) if run["rate"] == rate]))
            for name in DENOMINATORS
        }
        for rate in rates
    ]


def gap_on_the_way(run: dict[str, np.ndarray]) -> float:
    """How much longer wrong responses are than right ones in a contest's run, in the mean over the steps at which
    between 60 and 95 % of the answers are right: later few are wrong.
    """
    measured, logged = (~np.isnan(run[name]) for name in ("accuracy", "length_wrong"))
    share = np.interp(run["step"][logged], run["step"][measured], run["accuracy"][measured])
    wrong, length = run["length_wrong"][logged], run["length"][logged]
    gap = wrong - (length - (1 - share) * wrong) / share
    return float(gap[(share > 0.6) & (share < 0.95)].mean())


def length_of(run: dict[str, np.ndarray]) -> tuple[float, float]:
    """Mean length of all responses in a contest's run: as first logged, and in the mean of the last three logged."""
    length = run["length"][~np.isnan(run["length"])]
    return float(length[0]), float(length[-3:].mean())


def contest_in_short(name: str, methods: Mapping[str, str], tasks: Sequence[str], whole: bool = False) -> Rows:
    """The rows of a stored contest that are of ``tasks`` and ``methods``, with what a page calls these, and the number
    of steps that the same tokens have paid for; if ``whole``, with the rates, and how many runs died if any did. Where
    lengths of wrong responses were logged, with the lengths.
    """
    table = load_table(name)
    steps = {
        (own["task"], own["recipe"]): int(np.median([run["step"][-1] for run in table.rows[method].values()]))
        for method, own in table.labels.items()
        if method in table.rows
    }
    lengths_of = {
        (own["task"], own["recipe"]): _lengths(list(table.rows[method].values()))
        for method, own in table.labels.items()
        if method in table.rows and "length_wrong" in next(iter(table.rows[method].values()))
    }
    found = []
    for row in results(table):
        if row["task"] in tasks and row["method"] in methods:
            less = next(key for key in row if key.startswith("less "))
            shown: dict[str, Any] = {"task": row["task"], "method": methods[row["method"]]}
            shown |= {"start, greedy": f"{row['start, greedy']:.3f}"}
            shown |= {name: row[name] or None for name in ("rate", "died") if whole}
            shown |= {"steps": steps.get((row["task"], row["method"]))}
            if lengths_of:
                none = dict.fromkeys(next(iter(lengths_of.values())))
                shown |= lengths_of.get((row["task"], row["method"]), none)
            shown |= {"end": float(row["sampled"]), "mean": float(row["mean"])}
            found.append(shown | {f"less {methods[less[5:]]}": row[less] or None})
    if not any(row.get("died") and not row["died"].startswith("0 ") for row in found):
        found = [{key: value for key, value in row.items() if key != "died"} for row in found]
    order = list(methods.values())
    return sorted(found, key=lambda row: (tasks.index(row["task"]), order.index(row["method"])))


def _lengths(runs: list[dict[str, np.ndarray]]) -> dict[str, str]:
    """How the mean length went in runs of a contest, in how many it grew, and their gaps."""
    both, gap = np.array([length_of(run) for run in runs]), [gap_on_the_way(run) for run in runs]
    first, last = both.mean(0)
    return {
        "mean length": f"{first:.1f} → {last:.1f}",
        "grew": f"{(both[:, 1] > both[:, 0]).sum()} of {len(runs)}",
        "wrong − right": f"{min(gap):.1f} to {max(gap):.1f}",
    }


def alarms() -> Rows:
    """How often each sign of a length bias is seen: of the runs with the response mean; of those with the constant."""
    found: Rows = []
    titles = {"chapter": "loop, 3e-4", "best": "loop, best rates", "tuning": "loop, six rates, other seeds"}
    for role, title in titles.items():
        grew = {name: [end(run, "all") > run["all"][0] for run in live(role, name)] for name in (FIRST, COUNTED)}
        above = {name: list(gaps(role, name) > SIGN) for name in grew}
        found.append(_signs(title, grew, above))
    table = load_table("08_length")
    runs = {
        CONTEST[own["recipe"]]: list(table.rows[method].values())
        for method, own in table.labels.items()
        if method in table.rows and CONTEST[own["recipe"]] in (FIRST, COUNTED)
    }
    grew = {name: [last > first for first, last in map(length_of, each)] for name, each in runs.items()}
    above = {name: [gap_on_the_way(run) > SIGN for run in each] for name, each in runs.items()}
    return [*found, _signs("contest, with the clip", grew, above)]


def _signs(title: str, *counted: dict[str, list[bool]]) -> dict[str, str]:
    names = ("mean length grew", f"gap above {SIGN:g}")
    row = {
        name: "; ".join(f"{sum(x[of])} of {len(x[of])}" for of in (FIRST, COUNTED))
        for name, x in zip(names, counted, strict=True)
    }
    return {"runs": title} | row


def beyond() -> Rows:
    """Of each longer run with the constant the gap over five rollouts up to some steps, of all responses and within
    groups, and the highest there was; then the mean length.
    """
    found: Rows = []
    for run in load_rows("08_longer"):
        pairs = zip(run["wrong"], run["right"], strict=True)
        both = {"all": [float(wrong) - right for wrong, right in pairs], "within": run["within"]}
        row: dict[str, Any] = {"seed": run["seed"]}
        for name, gap in both.items():
            mean = np.convolve(gap, np.ones(TAIL) / TAIL, "valid")  # the first is that of steps 1 to TAIL
            row |= {f"{name}, step {step}": float(mean[step - TAIL]) for step in BEYOND}
            row[f"{name}, highest"] = float(mean.max())
        found.append(row | {f"length, step {step}": float(np.mean(run["all"][step - TAIL : step])) for step in BEYOND})
    return found


def gap_by_rate() -> Rows:
    """The gap of the contest's tuning runs on ramble by rate, lowest to highest of three."""
    table = load_table("08_length")
    names = {"grpo": "response mean", "unclipped": "unclipped", "grpo constant": "constant", "ppo_clip": "token mean"}
    found: dict[str, dict[str, Any]] = {}
    for method, runs in table.tuning.items():
        own = table.labels[method]
        if own["recipe"] in names and own["rate"] in ("1e-4", "2e-4", "4e-4", "8e-4"):
            of_runs = [gap_on_the_way(run) for run in runs.values()]
            row = found.setdefault(own["rate"], {"rate": own["rate"]})
            row[names[own["recipe"]]] = f"{min(of_runs):.1f} to {max(of_runs):.1f}"
    return [found[rate] for rate in sorted(found, key=float)]


def contest_tuning() -> Rows:
    """Mean accuracy of the contest's tuning runs on ramble by rate, None where a rate was not tried."""
    table = load_table("08_length")
    apart, found = replace(table, rows=table.tuning), []
    for rate in sorted({table.labels[method]["rate"] for method in table.tuning}, key=float):
        row: dict[str, Any] = {"rate": rate}
        for recipe, shown in CONTEST.items():
            if shown != "untrained":
                tried = (name for name in table.where(recipe=recipe, rate=rate) if name in table.tuning)
                row[shown] = next((float(apart.mean(name, "accuracy").mean()) for name in tried), None)
        found.append(row)
    return found


def at_equal_steps() -> Rows:
    """Mean accuracy of the contest's tuning runs on ramble by rate, up to the last step that all of them have made, at
    the rates that all have tried.
    """
    table = load_table("08_length")
    runs = {
        (table.labels[method]["rate"], CONTEST[table.labels[method]["recipe"]]): list(each.values())
        for method, each in table.tuning.items()
    }
    last = int(min(run["step"][-1] for each in runs.values() for run in each))
    found: Rows = []
    for rate in sorted({rate for rate, name in runs if name == FIRST}, key=float):
        row: dict[str, Any] = {"rate": rate, "to step": last}
        for name in CONTEST.values():
            if (rate, name) in runs:
                row[name] = float(np.mean([_mean_up_to(run, last) for run in runs[rate, name]]))
        found.append(row)
    return found


def _mean_up_to(run: dict[str, np.ndarray], last: int) -> float:
    """The mean accuracy of a run over its steps up to ``last``; between two measurements a straight line is taken."""
    measured = ~np.isnan(run["accuracy"])
    return float(np.interp(np.arange(last + 1), run["step"][measured], run["accuracy"][measured]).mean())


def upper_ends_by_rate(rates: Sequence[str] = ("4e-4", "8e-4")) -> Rows:
    """Mean accuracy of the tuning runs by upper end of the clip, at rates that all of them have tried."""
    table = load_table("08_wider_clip")
    apart, found = replace(table, rows=table.tuning), []
    for task in ("misled", "needle"):
        for rate in rates:
            row: dict[str, Any] = {"task": task, "rate": rate}
            for recipe, shown in UPPER_ENDS.items():
                for method in table.where(task=task, recipe=recipe, rate=rate):
                    row[shown] = float(apart.mean(method, "accuracy").mean())
            found.append(row)
    return found


def climbs(upper_end: str = "0.2") -> list[dict[int, float]]:
    """Of each run on needle with an upper end of the clip the accuracy by step, at the steps that measured it. At the
    start it is near the probability of a right token.
    """
    table, recipes = load_table("08_wider_clip"), {shown: recipe for recipe, shown in UPPER_ENDS.items()}
    (method,) = (name for name in table.where(task="needle", recipe=recipes[upper_end]) if name in table.rows)
    return [
        {int(step): float(found) for step, found in zip(run["step"], run["accuracy"], strict=True) if found == found}
        for run in table.rows[method].values()
    ]


def rounds_a_step() -> Rows:
    """Rounds of sampling that a step of DAPO takes, and 1/k of Fact 8.5 where the kept groups were logged."""
    table, found = load_table("08_dynamic"), []
    for task in ("misled", "needle"):
        spent = {}
        for recipe in ("dapo", "dapo all groups"):
            (method,) = (name for name in table.where(task=task, recipe=recipe) if name in table.rows)
            spent[recipe] = np.median([run["tokens"][-1] / run["step"][-1] for run in table.rows[method].values()])
        found.append({"runs": task, "rounds a step": float(spent["dapo"] / spent["dapo all groups"]), "1/k": None})
    for rate in ("1e-4", "3e-4"):
        runs = load_table("08_clip").rows[f"dapo {rate}"].values()
        row = {"runs": f"sort, {rate}", "rounds a step": float(np.median([run["rounds"][1:].mean() for run in runs]))}
        found.append(row | {"1/k": float(np.median([1 / (1 - run["wasted_groups"][1:].mean()) for run in runs]))})
    return found


@cache
def _ramble() -> Table:
    return load_table("08_ramble")


def by_verdict(run: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean lengths of right and of wrong responses at each step of a run, (steps,), from what it logged of all."""
    wrong, share = run["length_wrong"], run["reward"]
    return {"right": (run["length"] - (1 - share) * wrong) / share, "wrong": wrong}


def ends(method: str) -> list[dict[str, float]]:
    """Of each run of the table 08_ramble the mean lengths of right and wrong responses over its last five steps."""
    last = slice(RAMBLE_STEPS - TAIL + 1, RAMBLE_STEPS + 1)
    runs = _ramble().rows[method].values()
    return [{name: float(x[last].mean()) for name, x in by_verdict(run).items()} for run in runs]


def the_log(name: str) -> Rows:
    """A log of exercise 08.2, as most trainers write it, with the lengths of right responses."""
    method, seed = LOGS[name]
    run = _ramble().rows[method][seed]
    right = by_verdict(run)["right"]
    return [
        {"run": name, "step": step, "reward": run["reward"][step], "length": run["length"][step], "right": right[step]}
        for step in LOGGED
    ]
